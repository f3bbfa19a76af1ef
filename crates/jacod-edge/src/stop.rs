//! The signals that stop the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// `SIGTERM` and `SIGINT`, from when this is made.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Returns once for each time that the process is told to stop. Safe to be dropped and called again.
    pub(crate) async fn wanted(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
