//! Modes of the user's terminal: raw while a remote command uses it, without echo while a password is
//! typed.

use std::io;
use std::os::fd::AsFd;

use jaco_proto::v1::TerminalSize;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// A terminal in another mode. Dropping the guard restores the mode before.
pub(crate) struct TerminalMode<F: AsFd> {
    terminal: F,
    before: Termios,
}

impl<F: AsFd> TerminalMode<F> {
    /// Raw mode: every key is forwarded unchanged.
    ///
    /// # Errors
    /// If it is no terminal.
    pub(crate) fn raw(terminal: F) -> io::Result<Self> {
        Self::begin(terminal, OptionalActions::Now, Termios::make_raw)
    }

    /// Line mode without echo; input typed before is discarded. `end` ends a line instead of the process,
    /// which would leave the terminal without echo.
    ///
    /// # Errors
    /// If it is no terminal.
    pub(crate) fn without_echo(terminal: F, end: u8) -> io::Result<Self> {
        Self::begin(terminal, OptionalActions::Flush, |modes| {
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG);
            modes.special_codes[SpecialCodeIndex::VEOL] = end;
        })
    }

    /// Keys are read one by one and not shown; Ctrl-C still ends the process.
    ///
    /// # Errors
    /// If it is no terminal.
    pub(crate) fn keys(terminal: F) -> io::Result<Self> {
        Self::begin(terminal, OptionalActions::Now, |modes| {
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
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

impl<F: AsFd> Drop for TerminalMode<F> {
    fn drop(&mut self) {
        // Fails only if the terminal is gone.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.before).ok();
    }
}

/// The size of a terminal; 80 by 24 where it is unknown.
pub(crate) fn size(terminal: impl AsFd) -> TerminalSize {
    let known = tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (columns, rows) = known.map_or((80, 24), |size| (size.ws_col, size.ws_row));
    TerminalSize { columns: columns.into(), rows: rows.into() }
}
