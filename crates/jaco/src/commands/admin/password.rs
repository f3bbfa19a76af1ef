//! Reads a password from a terminal without echo, or from stdin. Never from the command line, which
//! other users of the machine can see.

use std::io::{self, BufRead, IsTerminal, Read, Stdin};

use crate::error::CliError;
use crate::output::Ui;
use crate::output::terminal::TerminalMode;

/// The maximum size of a password that the cluster accepts.
const PASSWORD_BYTES_MAX: usize = 16 << 10;

/// The byte that Ctrl-C produces while it ends a line instead of the process.
const CTRL_C: u8 = 3;

/// Where the password comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PasswordSource {
    /// A prompt on the terminal.
    Prompt,
    /// All of stdin, without one line break at its end.
    Stdin,
}

/// Reads the password of `user`.
///
/// # Errors
/// If it is empty, too long or not UTF-8, there is no terminal to prompt on, or Ctrl-C was typed.
pub(crate) fn read(ui: &mut Ui, user: &str, source: PasswordSource) -> Result<String, CliError> {
    let stdin = io::stdin();
    // A terminal never echoes it, not even with --password-stdin.
    let bytes = match (stdin.is_terminal(), source) {
        (true, PasswordSource::Prompt | PasswordSource::Stdin) => prompt(ui, user, &stdin)?,
        (false, PasswordSource::Stdin) => whole(&stdin)?,
        (false, PasswordSource::Prompt) => {
            let message = format!("there is no terminal to prompt for the password of {user}");
            return Err(CliError::usage(message, "pipe it in: … | jaco … --password-stdin"));
        }
    };
    checked(bytes, user)
}

fn checked(mut bytes: Vec<u8>, user: &str) -> Result<String, CliError> {
    for end in [b'\n', b'\r'] {
        bytes.pop_if(|last| *last == end);
    }
    if bytes.is_empty() {
        let message = format!("the password of {user} is empty");
        return Err(CliError::usage(message, "type it, or pipe it in with --password-stdin"));
    }
    if bytes.len() > PASSWORD_BYTES_MAX {
        let message = format!("the password of {user} has more than 16 KiB");
        return Err(CliError::usage(message, "the cluster accepts passwords of up to 16 KiB"));
    }
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("the password of {user} is not UTF-8");
        CliError::usage(message, "use a password in UTF-8")
    })
}

fn whole(stdin: &Stdin) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    // One byte more, and a line break, show that it is too long.
    let limit = PASSWORD_BYTES_MAX as u64 + 3;
    let read = stdin.lock().take(limit).read_to_end(&mut bytes);
    read.map_err(|error| CliError::local("cannot read the password from stdin".to_owned(), error))?;
    Ok(bytes)
}

fn prompt(ui: &mut Ui, user: &str, stdin: &Stdin) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::local("cannot read the password".to_owned(), error);
    let no_echo = TerminalMode::without_echo(stdin, CTRL_C).map_err(failed)?;
    ui.ask(&format!("Password of {user}: ")).map_err(failed)?;
    let mut line = Vec::new();
    let read = until_end_of_line(&mut stdin.lock(), &mut line);
    drop(no_echo);
    // The line break that ended the input was not echoed either.
    ui.ask("\n").map_err(failed)?;
    read.map_err(failed)?;
    if line.last() == Some(&CTRL_C) {
        return Err(CliError::Interrupted { message: String::new() });
    }
    Ok(line)
}

fn until_end_of_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    for byte in input.bytes().take(PASSWORD_BYTES_MAX + 3) {
        line.push(byte?);
        if matches!(line.last(), Some(&(b'\n' | CTRL_C))) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: one line break at the end is removed, and nothing else; a password that the cluster would
    /// not accept is refused, and never printed.
    #[test]
    fn one_line_break_is_removed_from_a_password() {
        let read =
            |bytes: &[u8]| checked(bytes.to_vec(), "robot").map_err(|error| error.to_string());
        for (given, password) in [
            (&b"hunter2"[..], "hunter2"),
            (b"hunter2\n", "hunter2"),
            (b"hunter2\r\n", "hunter2"),
            (b" hunter2 \n\n", " hunter2 \n"),
            (b"{\n\"key\": 1\n}\n", "{\n\"key\": 1\n}"),
        ] {
            assert_eq!(read(given).as_deref(), Ok(password));
        }
        for nothing in [&b""[..], b"\n", b"\r\n"] {
            assert_eq!(read(nothing).unwrap_err(), "the password of robot is empty");
        }
        assert_eq!(read(b"hunter\xff").unwrap_err(), "the password of robot is not UTF-8");
        let long = read(&[b'x'; PASSWORD_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(long, "the password of robot has more than 16 KiB");
    }
}
