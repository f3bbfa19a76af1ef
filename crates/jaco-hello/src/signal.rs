//! Stop signals. PID 1 has no default reaction to them, so whoever does not ask for them cannot be stopped politely.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Every signal that an image may name as its stop signal and that can be caught.
const STOP: [(i32, &str); 6] = [
    (SIGTERM, "SIGTERM"),
    (SIGINT, "SIGINT"),
    (SIGQUIT, "SIGQUIT"),
    (SIGHUP, "SIGHUP"),
    (SIGUSR1, "SIGUSR1"),
    (SIGUSR2, "SIGUSR2"),
];

/// Asked-for stop signals, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct StopSignals(Signals);

impl StopSignals {
    /// Starts to catch; does so before the work begins, so that an early stop is not lost.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub(crate) fn catch() -> io::Result<Self> {
        Signals::new(STOP.map(|(number, _)| number)).map(Self)
    }

    /// Blocks until a stop signal arrives and returns its name.
    pub(crate) fn wait(&mut self) -> &'static str {
        let number = self.0.forever().next().expect("the iterator ends only when it is closed");
        name_of(number)
    }
}

fn name_of(number: i32) -> &'static str {
    STOP.iter().find(|(known, _)| *known == number).map_or("an unknown signal", |(_, name)| name)
}
