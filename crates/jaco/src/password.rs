//! Reads a password: from a terminal without showing it, or from stdin. Never from the command line,
//! which other users of the machine can see.

use std::io::{self, BufRead, IsTerminal, Read, Stdin};

use crate::error::CliError;
use crate::terminal::Changed;
use crate::ui::Ui;

/// The most bytes that the cluster keeps of one.
const PASSWORD_BYTES_MAX: usize = 16 << 10;

/// What Ctrl-C types where it ends a line.
const CTRL_C: u8 = 3;

/// Whether the password is on stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Whoever is at the terminal is asked.
    Prompt,
    /// All of stdin is it, but for a line break at its end.
    Stdin,
}

/// Reads the password of `whom`.
///
/// # Errors
/// If there is none, it is too long or no text, nobody can be asked, or Ctrl-C was the answer.
pub(crate) fn read(ui: &mut Ui, whom: &str, source: Source) -> Result<String, CliError> {
    let stdin = io::stdin();
    // On a terminal nobody wants to see it, even where stdin was asked for.
    let bytes = match (stdin.is_terminal(), source) {
        (true, Source::Prompt | Source::Stdin) => prompt(ui, whom, &stdin)?,
        (false, Source::Stdin) => whole(&stdin)?,
        (false, Source::Prompt) => {
            let message = format!("there is no terminal to ask for the password of {whom}");
            return Err(CliError::usage(message, "pipe it in: … | jaco … --password-stdin"));
        }
    };
    checked(bytes, whom)
}

fn checked(mut bytes: Vec<u8>, whom: &str) -> Result<String, CliError> {
    for end in [b'\n', b'\r'] {
        bytes.pop_if(|last| *last == end);
    }
    if bytes.is_empty() {
        let message = format!("the password of {whom} is empty");
        return Err(CliError::usage(message, "type it, or pipe it in with --password-stdin"));
    }
    if bytes.len() > PASSWORD_BYTES_MAX {
        let message = format!("the password of {whom} has more than 16 KiB");
        return Err(CliError::usage(message, "the cluster keeps passwords of up to 16 KiB"));
    }
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("the password of {whom} is no text");
        CliError::usage(message, "registries take passwords in UTF-8")
    })
}

fn whole(stdin: &Stdin) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    // One byte more and its line break are enough to see that it is too long.
    let limit = PASSWORD_BYTES_MAX as u64 + 3;
    let read = stdin.lock().take(limit).read_to_end(&mut bytes);
    read.map_err(|error| CliError::local("cannot read the password from stdin".to_owned(), error))?;
    Ok(bytes)
}

fn prompt(ui: &mut Ui, whom: &str, stdin: &Stdin) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::local("cannot read the password".to_owned(), error);
    let silence = Changed::silent(stdin, CTRL_C).map_err(failed)?;
    ui.ask(&format!("Password of {whom}: ")).map_err(failed)?;
    let mut line = Vec::new();
    let read = until_end_of_line(&mut stdin.lock(), &mut line);
    drop(silence);
    // The line break that was typed is not shown either.
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

    /// R-CLI-6: one line break at the end is not part of it, everything else is; what the cluster could
    /// not keep is refused, and never repeated.
    #[test]
    fn a_password_is_taken_as_it_is() {
        let taken =
            |bytes: &[u8]| checked(bytes.to_vec(), "robot").map_err(|error| error.to_string());
        for (given, password) in [
            (&b"hunter2"[..], "hunter2"),
            (b"hunter2\n", "hunter2"),
            (b"hunter2\r\n", "hunter2"),
            (b" hunter2 \n\n", " hunter2 \n"),
            (b"{\n\"key\": 1\n}\n", "{\n\"key\": 1\n}"),
        ] {
            assert_eq!(taken(given).as_deref(), Ok(password));
        }
        for nothing in [&b""[..], b"\n", b"\r\n"] {
            assert_eq!(taken(nothing).unwrap_err(), "the password of robot is empty");
        }
        assert_eq!(taken(b"hunter\xff").unwrap_err(), "the password of robot is no text");
        let long = taken(&[b'x'; PASSWORD_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(long, "the password of robot has more than 16 KiB");
    }
}
