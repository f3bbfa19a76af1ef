//! The user's terminal, changed for a while: lent to a command that runs elsewhere, or silent while a
//! password is typed.

use std::io;
use std::os::fd::AsFd;

use jaco_proto::v1::TerminalSize;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// A terminal in another mode. Dropping it gives the terminal back as it was.
pub(crate) struct Changed<F: AsFd> {
    terminal: F,
    before: Termios,
}

impl<F: AsFd> Changed<F> {
    /// Hands on every key from now on.
    ///
    /// # Errors
    /// When it is no terminal.
    pub(crate) fn raw(terminal: F) -> io::Result<Self> {
        Self::begin(terminal, OptionalActions::Now, Termios::make_raw)
    }

    /// Shows nothing of what is typed from now on, nor takes what was typed before. `end` ends a line
    /// instead of the process, which would leave the terminal like this.
    ///
    /// # Errors
    /// When it is no terminal.
    pub(crate) fn silent(terminal: F, end: u8) -> io::Result<Self> {
        Self::begin(terminal, OptionalActions::Flush, |modes| {
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG);
            modes.special_codes[SpecialCodeIndex::VEOL] = end;
        })
    }

    fn begin(
        terminal: F,
        when: OptionalActions,
        change: impl FnOnce(&mut Termios),
    ) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut changed = before.clone();
        change(&mut changed);
        tcsetattr(&terminal, when, &changed)?;
        Ok(Self { terminal, before })
    }
}

impl<F: AsFd> Drop for Changed<F> {
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
