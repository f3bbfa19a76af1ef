//! Commands about what edges serve.

use jaco_state::command::{
    AcmeNote, CertificateIssue, CertificateRemove, CertificateStore, EdgeBegin,
};
use jaco_types::Timestamp;

use crate::storage::acme::{from_attempt, from_challenge, to_attempt, to_challenge};
use crate::storage::convert::{Wire, optional};
use crate::storage::edge::{from_names, to_names};
use crate::storage::error::Problem;
use crate::storage::wire::{self, acme_note::Kind};

impl Wire for EdgeBegin {
    type Message = wire::EdgeBegin;

    fn to_wire(&self) -> wire::EdgeBegin {
        wire::EdgeBegin {}
    }

    fn from_wire(wire::EdgeBegin {}: wire::EdgeBegin) -> Result<Self, Problem> {
        Ok(Self)
    }
}

impl Wire for CertificateStore {
    type Message = wire::CertificateStore;

    fn to_wire(&self) -> wire::CertificateStore {
        let Self { name, chain, key, names, not_before, not_after, fingerprint } = self;
        wire::CertificateStore {
            name: name.to_wire(),
            chain: chain.to_string(),
            key: key.to_wire(),
            names: from_names(names),
            not_before_ms: not_before.0,
            not_after_ms: not_after.0,
            fingerprint: fingerprint.to_wire(),
        }
    }

    fn from_wire(message: wire::CertificateStore) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            chain: message.chain.into(),
            key: Wire::from_wire(message.key)?,
            names: to_names(message.names)?,
            not_before: Timestamp(message.not_before_ms),
            not_after: Timestamp(message.not_after_ms),
            fingerprint: Wire::from_wire(message.fingerprint)?,
        })
    }
}

impl Wire for CertificateRemove {
    type Message = wire::CertificateRemove;

    fn to_wire(&self) -> wire::CertificateRemove {
        wire::CertificateRemove { name: self.name.to_wire() }
    }

    fn from_wire(message: wire::CertificateRemove) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)? })
    }
}

impl Wire for AcmeNote {
    type Message = wire::AcmeNote;

    fn to_wire(&self) -> wire::AcmeNote {
        let kind = match self {
            Self::Account(account) => Kind::Account(account.to_wire()),
            Self::Challenge { token, challenge } => {
                Kind::Challenge(from_challenge(token, challenge))
            }
            Self::Issued(issue) => Kind::Issued(issue.to_wire()),
            Self::Failed { domain, attempt } => Kind::Failed(from_attempt(domain, attempt)),
            Self::Window { domain, window } => Kind::Window(wire::RenewalWindowSet {
                domain: domain.to_wire(),
                window: window.as_ref().map(Wire::to_wire),
            }),
        };
        wire::AcmeNote { kind: Some(kind) }
    }

    fn from_wire(message: wire::AcmeNote) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of a note"))? {
            Kind::Account(account) => Self::Account(Wire::from_wire(account)?),
            Kind::Challenge(challenge) => {
                let (token, challenge) = to_challenge(challenge)?;
                Self::Challenge { token, challenge }
            }
            Kind::Issued(issue) => Self::Issued(Wire::from_wire(issue)?),
            Kind::Failed(attempt) => {
                let (domain, attempt) = to_attempt(attempt)?;
                Self::Failed { domain, attempt }
            }
            Kind::Window(wire::RenewalWindowSet { domain, window }) => {
                Self::Window { domain: Wire::from_wire(domain)?, window: optional(window)? }
            }
        })
    }
}

impl Wire for CertificateIssue {
    type Message = wire::CertificateIssue;

    fn to_wire(&self) -> wire::CertificateIssue {
        let Self { domain, directory, chain, key, not_before, not_after, fingerprint } = self;
        wire::CertificateIssue {
            domain: domain.to_wire(),
            directory: directory.to_string(),
            chain: chain.to_string(),
            key: key.to_wire(),
            not_before_ms: not_before.0,
            not_after_ms: not_after.0,
            fingerprint: fingerprint.to_wire(),
        }
    }

    fn from_wire(message: wire::CertificateIssue) -> Result<Self, Problem> {
        Ok(Self {
            domain: Wire::from_wire(message.domain)?,
            directory: message.directory.into(),
            chain: message.chain.into(),
            key: Wire::from_wire(message.key)?,
            not_before: Timestamp(message.not_before_ms),
            not_after: Timestamp(message.not_after_ms),
            fingerprint: Wire::from_wire(message.fingerprint)?,
        })
    }
}
