//! What is run beside the server in its container: to see that input, output, ends and terminals get through.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::thread;

use rustix::termios::tcgetwinsize;
use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::Signals;

use crate::say;

/// Writes the words.
pub(crate) fn echo(words: &[String]) -> ExitCode {
    say::line(&words.join(" "));
    ExitCode::SUCCESS
}

/// Gives back what comes, at once.
pub(crate) fn cat() -> ExitCode {
    let mut piece = vec![0; 64 << 10];
    loop {
        let written = match io::stdin().read(&mut piece) {
            Ok(0) => return ExitCode::SUCCESS,
            Ok(length) => io::stdout().write_all(&piece[..length]),
            Err(error) => Err(error),
        };
        if let Err(error) = written.and_then(|()| io::stdout().flush()) {
            say::error(&format!("cat: {error}"));
            return ExitCode::FAILURE;
        }
    }
}

/// Writes the size of the terminal whenever it changes.
pub(crate) fn size() -> ExitCode {
    let mut changes = match Signals::new([SIGWINCH]) {
        Ok(changes) => changes,
        Err(error) => {
            say::error(&format!("cannot catch signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let end = changes.handle();
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        end.close();
    });
    if let Err(error) = say_size() {
        say::error(&format!("there is no terminal: {error}"));
        return ExitCode::FAILURE;
    }
    for _ in changes.forever() {
        say_size().ok();
    }
    ExitCode::SUCCESS
}

fn say_size() -> io::Result<()> {
    let size = tcgetwinsize(io::stdout())?;
    say::line(&format!("{}x{}", size.ws_col, size.ws_row));
    Ok(())
}
