//! Why an attempt failed, and what to do. Never has anything of the address but what is shown, nor of what was answered but
//! words that are known: an answer may repeat the address.

use std::time::Duration;

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// This machine knows no authority.
    #[error("this machine trusts no authority: install the package ca-certificates on all nodes")]
    NoRoots,
    /// The address or the secret cannot be opened.
    #[error("its address cannot be opened: {0}")]
    Sealed(String),
    /// Nobody answers there, or not as who they should be.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// It took too long.
    #[error("no answer within {} s", limit.as_secs())]
    Timeout {
        /// How long it may take.
        limit: Duration,
    },
    /// The connection broke off.
    #[error("the answer broke off: {0}")]
    Broken(String),
    /// It would have to be sent somewhere else.
    #[error("answered {status}, which sends on to another address: notifications are not sent on")]
    Redirect {
        /// The status.
        status: u16,
    },
    /// Not accepted.
    #[error("answered {status}{}", word.map(|word| format!(" ({word})")).unwrap_or_default())]
    Status {
        /// The status.
        status: u16,
        /// A word of the answer, of those that are known.
        word: Option<&'static str>,
        /// How long the receiver asks to wait.
        retry_after: Option<Duration>,
    },
}

impl SendError {
    /// Whether the receiver works and does not want this, so that waiting alone does not help.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Redirect { .. } => true,
            Self::Status { status, .. } => {
                (400..500).contains(status) && ![408, 425, 429].contains(status)
            }
            Self::NoRoots
            | Self::Sealed(_)
            | Self::Connect(_)
            | Self::Timeout { .. }
            | Self::Broken(_) => false,
        }
    }

    /// How long the receiver asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::NoRoots
            | Self::Sealed(_)
            | Self::Connect(_)
            | Self::Timeout { .. }
            | Self::Broken(_)
            | Self::Redirect { .. } => None,
        }
    }

    /// The status that was answered; 0 without an answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Status { status, .. } | Self::Redirect { status } => *status,
            Self::NoRoots
            | Self::Sealed(_)
            | Self::Connect(_)
            | Self::Timeout { .. }
            | Self::Broken(_) => 0,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoRoots => {
                "install the package ca-certificates on all nodes: whoever leads sends"
            }
            Self::Sealed(_) => "remove the target and add it again",
            Self::Connect(_) => {
                "check the address, and that every node can reach it: whoever leads sends"
            }
            Self::Timeout { .. } => {
                "the receiver must answer sooner: let it accept first, and work afterwards"
            }
            Self::Broken(_) => "look into the log of the receiver",
            Self::Redirect { .. } => "replace the target with the address that it is sent on to",
            Self::Status { status: 401 | 403, .. } => {
                "check the secret and the address: the receiver does not know this cluster"
            }
            Self::Status { status: 404 | 410, .. } => {
                "the address does not exist any more: replace the target"
            }
            Self::Status { status: 429, .. } => "the receiver wants fewer: choose fewer events",
            Self::Status { status: 500.., .. } => "look into the log of the receiver",
            Self::Status { .. } => "the receiver does not take what it is sent: look into its log",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: each failure says what to do, and what waiting does not help is told from the rest.
    #[test]
    fn failures_are_told_apart() {
        let status = |status| SendError::Status { status, word: None, retry_after: None };
        for refused in [400, 401, 403, 404, 410, 413, 422] {
            assert!(status(refused).is_refusal(), "{refused}");
        }
        for trouble in [408, 425, 429, 500, 502, 503] {
            assert!(!status(trouble).is_refusal(), "{trouble}");
        }
        assert!(SendError::Redirect { status: 302 }.is_refusal());
        assert!(!SendError::Connect("refused".to_owned()).is_refusal());
        let word = SendError::Status { status: 404, word: Some("no_service"), retry_after: None };
        assert_eq!(word.to_string(), "answered 404 (no_service)");
        assert_eq!(word.advice(), "the address does not exist any more: replace the target");
    }
}
