//! Which errors are retried, and after which pause. Pure: the elapsed time is an argument.

use std::time::Duration;

use jaco_types::ErrorCode;

use crate::error::ClientError;

/// The deadlines of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For one attempt, from sending the request to receiving the response.
    pub attempt: Duration,
    /// No attempt begins later than this after the first one.
    pub retries: Duration,
}

impl Patience {
    /// For requests that are answered from memory or by one round of consensus.
    pub const SHORT: Self =
        Self { attempt: Duration::from_secs(10), retries: Duration::from_secs(10) };
    /// For requests that use the disk or other nodes (`slow` in the proto). Not repeated, because they
    /// have no request id.
    pub const LONG: Self = Self { attempt: Duration::from_secs(60), retries: Duration::ZERO };
}

/// Exponential back-off: 50 ms, 100 ms, … up to 1 s. An election takes about a second, so its end is
/// noticed soon, and a long outage costs one attempt per second.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(1);

    /// Begins with the shortest pause.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// The pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(Self::LONGEST);
        pause
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a client has ever had a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connected {
    /// It has: a daemon that is unreachable now may be restarting.
    Before,
    /// It has not: most likely no daemon is running, so the caller should learn that at once.
    Never,
}

impl ClientError {
    /// Whether the same call may succeed later, as after an election or with fewer requests at a time. Calls of a
    /// [`Client`](crate::Client) were repeated already; whoever has more time asks again after a pause ([`Backoff`]).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        is_transient(self, Connected::Before)
    }
}

/// Whether a retry can help. Retries are safe for every call: reads change nothing, writes carry a
/// request id.
pub(crate) fn is_transient(error: &ClientError, connected: Connected) -> bool {
    match error {
        ClientError::NoConnection { .. } => {
            connected == Connected::Before && error.code() == ErrorCode::Unavailable
        }
        ClientError::Lost { .. } | ClientError::TimedOut { .. } => true,
        ClientError::Refused(rejection) => matches!(
            rejection.code,
            ErrorCode::NoLeader
                | ErrorCode::QuorumLost
                | ErrorCode::NotCaughtUp
                | ErrorCode::Unavailable
                | ErrorCode::Overloaded
                | ErrorCode::TimedOut
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ConnectError;
    use jaco_types::Rejection;
    use std::io;

    #[test]
    fn pauses_double_up_to_one_second() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = (0..7).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
    }

    /// R-CLI-9: a change of leader is retried, a refusal is final.
    #[test]
    fn only_transient_codes_are_retried() {
        let refused = |code| ClientError::Refused(Rejection::new(code, "so"));
        let retried: Vec<&str> = ErrorCode::ALL
            .iter()
            .filter(|code| is_transient(&refused(**code), Connected::Before))
            .map(|code| code.as_str())
            .collect();
        let expected =
            ["no_leader", "quorum_lost", "not_caught_up", "unavailable", "overloaded", "timed_out"];
        assert_eq!(retried, expected);
    }

    #[test]
    fn a_daemon_that_never_answered_is_not_retried() {
        let unreachable = ClientError::NoConnection {
            endpoint: "a.sock".to_owned(),
            source: ConnectError::Socket(io::ErrorKind::NotFound.into()),
        };
        assert!(!is_transient(&unreachable, Connected::Never));
        assert!(is_transient(&unreachable, Connected::Before));
    }
}
