//! Why an attempt failed, and what to do. Never has anything of the address but what is shown, nor of what was answered but
//! numbers and words that are known: an answer may repeat the address.

use std::fmt;
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
    /// A mail server does not want something, and so nothing of it.
    #[error("answered {code} to {step}")]
    Smtp {
        /// To what.
        step: SmtpStep,
        /// What it answered: from 500 on it does not want it at all.
        code: u16,
    },
    /// A mail server would have to be told everything in clear text.
    #[error("the server offers no encryption (STARTTLS), and nothing is sent without")]
    NoStartTls,
    /// A mail server offers no way of signing in that is known.
    #[error("the server offers no sign-in that is known (PLAIN, LOGIN)")]
    NoSignIn,
}

/// A part of the conversation with a mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SmtpStep {
    /// The connection, until it is encrypted.
    Hello,
    /// User and password.
    SignIn,
    /// From whom.
    Sender,
    /// To this one.
    Recipient(String),
    /// The mail itself.
    Message,
}

impl fmt::Display for SmtpStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello => f.write_str("the connection"),
            Self::SignIn => f.write_str("user and password"),
            Self::Sender => f.write_str("the sender"),
            Self::Recipient(address) => write!(f, "the recipient {address}"),
            Self::Message => f.write_str("the mail"),
        }
    }
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
            Self::Smtp { code, .. } => *code >= 500,
            // Whoever is between may have taken the offer out.
            Self::NoStartTls
            | Self::NoSignIn
            | Self::NoRoots
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
            Self::Smtp { .. }
            | Self::NoStartTls
            | Self::NoSignIn
            | Self::NoRoots
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
            Self::Smtp { code, .. } => *code,
            Self::NoStartTls
            | Self::NoSignIn
            | Self::NoRoots
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
            Self::Smtp { step: SmtpStep::SignIn, code: 500.. } => {
                "check user and password: replace the target with those that the mail server knows"
            }
            Self::Smtp { step: SmtpStep::Sender, code: 500.. } => {
                "the mail server does not send for this sender: replace the target with another --from"
            }
            Self::Smtp { step: SmtpStep::Recipient(_), code: 500.. } => {
                "the mail goes to all recipients or to none: replace the target without this one, or ask the postmaster"
            }
            Self::Smtp { .. } => "ask the postmaster, who finds it in the log of the mail server",
            Self::NoStartTls => {
                "use smtps:// with the port for it, mostly 465, or a server that has STARTTLS"
            }
            Self::NoSignIn => {
                "check the port: servers for users, mostly on 465 and 587, offer a sign-in; leave the user out if there is none"
            }
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
        let smtp = |code| SendError::Smtp { step: SmtpStep::SignIn, code };
        assert!(smtp(535).is_refusal() && !smtp(421).is_refusal() && !smtp(454).is_refusal());
        assert_eq!(smtp(535).to_string(), "answered 535 to user and password");
        assert!(smtp(535).advice().contains("check user and password"));
        assert!(!SendError::NoStartTls.is_refusal() && !SendError::NoSignIn.is_refusal());
        assert!(SendError::Redirect { status: 302 }.is_refusal());
        assert!(!SendError::Connect("refused".to_owned()).is_refusal());
        let word = SendError::Status { status: 404, word: Some("no_service"), retry_after: None };
        assert_eq!(word.to_string(), "answered 404 (no_service)");
        assert_eq!(word.advice(), "the address does not exist any more: replace the target");
    }
}
