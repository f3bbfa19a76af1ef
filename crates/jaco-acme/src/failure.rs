//! Why an order did not end with a certificate, in words for whoever has to do something about it.

use std::error::Error as StdError;

use instant_acme::Error as AcmeError;
use jaco_pki::served::ServedError;
use jaco_types::Millis;

use crate::authority::RootsError;
use crate::problem::Problem;
use crate::records::{NoteError, REASON_CHARS_MAX};

/// Why an order failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The operator has not agreed to the terms.
    #[error("the terms of service of the authority are not agreed to")]
    Terms,
    /// No authority could be trusted.
    #[error(transparent)]
    Roots(#[from] RootsError),
    /// It does not answer, or not in the protocol.
    #[error("the authority does not answer: {0}")]
    Unreachable(String),
    /// It refused.
    #[error("the authority refused: {0}")]
    Refused(Problem),
    /// It neither agreed nor refused in the time that an order has.
    #[error("the authority has not decided in time")]
    Undecided,
    /// It offers no challenge that the cluster can answer.
    #[error("the authority offers neither http-01 nor tls-alpn-01 for this domain")]
    NoChallenge,
    /// What it sent is no certificate that could be used.
    #[error("the certificate that the authority sent cannot be used: {0}")]
    Certificate(#[from] ServedError),
    /// The certificate is for other names.
    #[error("the certificate that the authority sent is not for this domain")]
    OtherNames,
    /// A key or a request for a certificate could not be made.
    #[error("no key could be made: {0}")]
    Key(String),
    /// What was done could not be recorded.
    #[error("it could not be recorded: {0}")]
    Note(#[from] NoteError),
}

/// Who has to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Who owns the domain.
    Domain,
    /// The same, by letting connections in at the port of the challenge.
    Port,
    /// Nobody here.
    Authority,
}

impl Failure {
    /// Who has to do something.
    pub(crate) fn blame(&self) -> Blame {
        match self {
            Self::Refused(problem) => match problem.kind.as_str() {
                "connection" | "tls" => Blame::Port,
                "serverInternal" | "badNonce" | "accountDoesNotExist" => Blame::Authority,
                kind if kind.starts_with("HTTP 5") => Blame::Authority,
                _ => Blame::Domain,
            },
            Self::Roots(_)
            | Self::Unreachable(_)
            | Self::Undecided
            | Self::Certificate(_)
            | Self::OtherNames
            | Self::Key(_)
            | Self::Note(_) => Blame::Authority,
            Self::Terms | Self::NoChallenge => Blame::Domain,
        }
    }

    /// Whether other orders would fail for the same reason now.
    pub(crate) const fn concerns_all(&self) -> bool {
        matches!(self, Self::Roots(_) | Self::Unreachable(_))
    }

    /// Whether the authority has forgotten the account.
    pub(crate) fn is_account_lost(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.kind == "accountDoesNotExist")
    }

    /// Whether the order would be taken if it were sent again.
    pub(crate) fn is_bad_nonce(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.kind == "badNonce")
    }

    /// How long the authority wants to hear nothing more of it.
    pub(crate) fn retry_after(&self) -> Option<Millis> {
        if let Self::Refused(problem) = self { problem.retry_after } else { None }
    }

    /// What happened and what to do, in one line.
    pub(crate) fn reason(&self) -> String {
        let text = match self.advice() {
            Some(advice) => format!("{self}; {advice}"),
            None => self.to_string(),
        };
        text.chars().take(REASON_CHARS_MAX).collect()
    }

    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Terms => Some(
                "read them and set `edge.acme.agree_terms: true` in jacod.yaml of all nodes, or give the route a \
                 certificate of your own, or `tls: off`",
            ),
            Self::Unreachable(_) => {
                Some("let the leader reach `edge.acme.directory`, by name and at its port")
            }
            Self::Refused(problem) => problem.advice(),
            Self::NoChallenge => Some("set another `edge.acme.directory`"),
            Self::Roots(_)
            | Self::Undecided
            | Self::Certificate(_)
            | Self::OtherNames
            | Self::Key(_)
            | Self::Note(_) => None,
        }
    }
}

impl From<AcmeError> for Failure {
    fn from(error: AcmeError) -> Self {
        if let AcmeError::Api(problem) = &error {
            return Self::Refused(Problem::of_object(problem));
        }
        if matches!(error, AcmeError::Timeout(_)) {
            return Self::Undecided;
        }
        if let AcmeError::Other(cause) = &error
            && let Some(problem) = cause.downcast_ref::<Problem>()
        {
            return Self::Refused(problem.clone());
        }
        Self::Unreachable(chain(&error))
    }
}

/// An error with all its causes, in one line.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        // Some errors repeat their cause.
        if !parts.last().is_some_and(|last| last.contains(&text)) {
            parts.push(text);
        }
        next = error.source();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_what_was_said_and_what_to_do() {
        let problem = Problem {
            kind: "dns".into(),
            detail: "NXDOMAIN looking up A for shop.example.org".into(),
            retry_after: None,
        };
        let failure = Failure::Refused(problem);
        assert_eq!(
            failure.reason(),
            "the authority refused: dns: NXDOMAIN looking up A for shop.example.org; set the A or AAAA record of the \
             domain to nodes of this cluster"
        );
        assert_eq!(failure.blame(), Blame::Domain);
    }

    #[test]
    fn a_reason_is_short_whatever_was_said() {
        let failure = Failure::Unreachable("ö".repeat(4000));
        assert_eq!(failure.reason().chars().count(), REASON_CHARS_MAX);
    }

    #[test]
    fn terms_are_named_with_the_setting() {
        assert!(Failure::Terms.reason().contains("edge.acme.agree_terms: true"));
    }
}
