//! When to ask again, and after how long. Pure: the time that has passed is an argument.

use std::time::Duration;

use jaco_types::ErrorCode;

use crate::error::ClientError;

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// One attempt, from sending to the answer.
    pub attempt: Duration,
    /// No new attempt begins later than this after the first one.
    pub retries: Duration,
}

impl Patience {
    /// For what is answered from memory or by one round of consensus.
    pub const SHORT: Self =
        Self { attempt: Duration::from_secs(10), retries: Duration::from_secs(10) };
    /// For what a daemon does with its disk or other nodes: creating and joining a cluster. Not
    /// repeated: these carry no request id.
    pub const LONG: Self = Self { attempt: Duration::from_secs(60), retries: Duration::ZERO };
}

/// Pauses that double: 50 ms, 100 ms, … up to 1 s. An election takes about a second, so the first
/// few attempts see its end at once, and a long outage costs one attempt per second.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(1);

    /// Starts with the shortest pause.
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

/// Whether this client ever had a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    /// It had: a daemon that is gone now may be restarting.
    Before,
    /// It had none: most likely nobody is there to wait for.
    Never,
}

/// Whether asking again can help. Safe for every call: reads change nothing and writes carry a
/// request id.
pub(crate) fn is_passing(error: &ClientError, met: Met) -> bool {
    match error {
        ClientError::NoConnection { .. } => {
            met == Met::Before && error.code() == ErrorCode::Unavailable
        }
        ClientError::Lost { .. } | ClientError::TimedOut { .. } => true,
        ClientError::Refused(rejection) => matches!(
            rejection.code,
            ErrorCode::NoLeader
                | ErrorCode::QuorumLost
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
    fn pauses_double_up_to_a_second() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = (0..7).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
    }

    /// R-CLI-9: a change of leader is waited out, a refusal is final.
    #[test]
    fn only_what_passes_is_asked_again() {
        let refused = |code| ClientError::Refused(Rejection::new(code, "so"));
        let passing: Vec<&str> = ErrorCode::ALL
            .iter()
            .filter(|code| is_passing(&refused(**code), Met::Before))
            .map(|code| code.as_str())
            .collect();
        let expected = ["no_leader", "quorum_lost", "unavailable", "overloaded", "timed_out"];
        assert_eq!(passing, expected);
    }

    #[test]
    fn nobody_is_waited_for_who_never_was_there() {
        let absent = ClientError::NoConnection {
            endpoint: "a.sock".to_owned(),
            source: ConnectError::Socket(io::ErrorKind::NotFound.into()),
        };
        assert!(!is_passing(&absent, Met::Never));
        assert!(is_passing(&absent, Met::Before));
    }
}
