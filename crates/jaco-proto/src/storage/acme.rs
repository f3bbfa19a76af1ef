//! Certificates that the cluster orders, their keys sealed as they are.

use std::sync::Arc;

use jaco_state::acme::{AcmeAccount, AcmeChallenge, IssueAttempt, IssuedCertificate};
use jaco_types::route::RouteDomain;
use jaco_types::{ChallengeKind, RenewalWindow, Timestamp};

use super::convert::{Wire, optional, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(ChallengeKind, "kind of a challenge", [Http01, TlsAlpn01]);

impl Wire for AcmeAccount {
    type Message = wire::AcmeAccount;

    fn to_wire(&self) -> wire::AcmeAccount {
        let Self { directory, url, key } = self;
        let (directory, url) = (directory.to_string(), url.to_string());
        wire::AcmeAccount { directory, url, key: key.to_wire() }
    }

    fn from_wire(message: wire::AcmeAccount) -> Result<Self, Problem> {
        let wire::AcmeAccount { directory, url, key } = message;
        Ok(Self { directory: directory.into(), url: url.into(), key: Wire::from_wire(key)? })
    }
}

impl Wire for RenewalWindow {
    type Message = wire::RenewalWindow;

    fn to_wire(&self) -> wire::RenewalWindow {
        wire::RenewalWindow { start_ms: self.start().0, end_ms: self.end().0 }
    }

    fn from_wire(message: wire::RenewalWindow) -> Result<Self, Problem> {
        let window = Self::new(Timestamp(message.start_ms), Timestamp(message.end_ms));
        window.ok_or(Problem::Unordered("times of a renewal"))
    }
}

pub(super) fn from_challenge(token: &str, challenge: &AcmeChallenge) -> wire::AcmeChallenge {
    wire::AcmeChallenge {
        token: token.to_owned(),
        domain: challenge.domain.to_wire(),
        kind: challenge.kind.to_wire(),
        key_authorization: challenge.key_authorization.to_string(),
        expires_ms: challenge.expires.0,
    }
}

pub(super) fn to_challenge(
    message: wire::AcmeChallenge,
) -> Result<(Arc<str>, AcmeChallenge), Problem> {
    let challenge = AcmeChallenge {
        domain: Wire::from_wire(message.domain)?,
        kind: Wire::from_wire(message.kind)?,
        key_authorization: message.key_authorization.into(),
        expires: Timestamp(message.expires_ms),
    };
    Ok((message.token.into(), challenge))
}

pub(super) fn from_attempt(domain: &RouteDomain, attempt: &IssueAttempt) -> wire::IssueAttempt {
    wire::IssueAttempt {
        domain: domain.to_wire(),
        failures: attempt.failures,
        reason: attempt.reason.to_string(),
        next_try_ms: attempt.next_try.0,
        kind: attempt.kind.to_wire(),
    }
}

pub(super) fn to_attempt(
    message: wire::IssueAttempt,
) -> Result<(RouteDomain, IssueAttempt), Problem> {
    let attempt = IssueAttempt {
        failures: message.failures,
        reason: message.reason.into(),
        next_try: Timestamp(message.next_try_ms),
        kind: Wire::from_wire(message.kind)?,
    };
    Ok((Wire::from_wire(message.domain)?, attempt))
}

pub(super) fn from_issued(
    domain: &RouteDomain,
    issued: &IssuedCertificate,
) -> wire::IssuedCertificate {
    wire::IssuedCertificate {
        domain: domain.to_wire(),
        directory: issued.directory.to_string(),
        chain: issued.chain.to_string(),
        key: issued.key.to_wire(),
        not_before_ms: issued.not_before.0,
        not_after_ms: issued.not_after.0,
        fingerprint: issued.fingerprint.to_wire(),
        issued_at_ms: issued.issued_at.0,
        window: issued.window.as_ref().map(Wire::to_wire),
    }
}

pub(super) fn to_issued(
    message: wire::IssuedCertificate,
) -> Result<(RouteDomain, IssuedCertificate), Problem> {
    let issued = IssuedCertificate {
        directory: message.directory.into(),
        chain: message.chain.into(),
        key: Wire::from_wire(message.key)?,
        not_before: Timestamp(message.not_before_ms),
        not_after: Timestamp(message.not_after_ms),
        fingerprint: Wire::from_wire(message.fingerprint)?,
        issued_at: Timestamp(message.issued_at_ms),
        window: optional(message.window)?,
    };
    Ok((Wire::from_wire(message.domain)?, issued))
}
