//! The user's terminal, lent to a command that runs elsewhere: what is typed goes there as it is typed.

use std::io;
use std::os::fd::AsFd;

use jaco_proto::v1::TerminalSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// A terminal that hands on every key. Dropping it gives the terminal back as it was.
pub(crate) struct RawTerminal<F: AsFd> {
    terminal: F,
    before: Termios,
}

impl<F: AsFd> RawTerminal<F> {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn take(terminal: F) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl<F: AsFd> Drop for RawTerminal<F> {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.before).ok();
    }
}

/// How large a terminal is; the usual size where it does not know.
pub(crate) fn size(terminal: impl AsFd) -> TerminalSize {
    let known = tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (columns, rows) = known.map_or((80, 24), |size| (size.ws_col, size.ws_row));
    TerminalSize { columns: columns.into(), rows: rows.into() }
}
