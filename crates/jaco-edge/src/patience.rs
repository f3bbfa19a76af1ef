//! How long instances are tried again, if none accepts and one of them does not answer at all: packets are lost for a moment where a router is
//! replaced, or where a machine is busy, and a request that was not sent yet can wait for that.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Pause before all instances are tried once more: a router may refuse at once what it has no way to yet.
const PAUSE: Duration = Duration::from_millis(50);

/// What is known of the connections that failed for one request.
#[derive(Debug)]
pub(crate) struct Patience {
    until: Instant,
    /// Of those since all instances were tried the last time, one got no answer.
    is_silent: bool,
}

impl Patience {
    /// It lasts so long from now.
    pub(crate) fn new(lasts: Duration) -> Self {
        Self { until: Instant::now() + lasts, is_silent: false }
    }

    /// Notes why a connection failed. A refusal is an answer.
    pub(crate) fn note(&mut self, error: &io::Error) {
        use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
        self.is_silent |= matches!(error.kind(), HostUnreachable | NetworkUnreachable | TimedOut);
    }

    /// Whether all instances may be tried once more, after a pause.
    pub(crate) async fn allows_more(&mut self) -> bool {
        if !std::mem::take(&mut self.is_silent) || Instant::now() + PAUSE > self.until {
            return false;
        }
        sleep(PAUSE).await;
        true
    }
}
