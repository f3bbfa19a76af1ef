//! Every envelope in the state, and every one that a command brings. Each part of the state and each command is named
//! here, so that the compiler asks about a new one.

use std::fmt;

use jaco_types::route::RouteDomain;
use jaco_types::{CertificateName, ContentId, KekId, RegistryName};

use crate::acme::{Acme, AcmeAccount, IssuedCertificate};
use crate::command::{AcmeNote, CertificateIssue, CertificateStore, KekRotate, RegistryStore};
use crate::contents::{Content, Form, Piece};
use crate::edge::{Certificate, Edges};
use crate::kek::Sealing;
use crate::registries::RegistryLogin;
use crate::rotation::{AuthorityRotation, RotatedAuthority};
use crate::state::ClusterState;
use crate::{ClusterMeta, Command};

/// Where an envelope is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The key that names secrets.
    NamingKey,
    /// The private key of an authority: of the cluster's, or of one of the two in a rotation.
    AuthorityKey,
    /// A piece of a secret.
    Content(ContentId),
    /// The password at a registry.
    Registry(RegistryName),
    /// The private key of a user's certificate.
    Certificate(CertificateName),
    /// The private key of the account at an ACME authority.
    AcmeAccount,
    /// The private key of a certificate that was ordered for a domain.
    Issued(RouteDomain),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamingKey => f.write_str("the key that names secrets"),
            Self::AuthorityKey => f.write_str("the private key of the authority"),
            Self::Content(id) => write!(f, "the piece {id} of a secret"),
            Self::Registry(name) => write!(f, "the password at {name}"),
            Self::Certificate(name) => write!(f, "the private key of the certificate {name}"),
            Self::AcmeAccount => f.write_str("the private key of the ACME account"),
            Self::Issued(domain) => {
                write!(f, "the private key of the certificate that was ordered for {domain}")
            }
        }
    }
}

/// Every envelope in the state, with its place. The authority's key may be there twice.
pub fn envelopes(state: &ClusterState) -> impl Iterator<Item = (Place, &[u8])> {
    let ClusterState {
        index: _,
        meta,
        constraints: _,
        nodes: _,
        disabled: _,
        deployments: _,
        scheduling: _,
        slots: _,
        observed: _,
        consumers: _,
        terminating: _,
        operator_tokens: _,
        join_tokens: _,
        requests: _,
        audit: _,
        contents,
        named: _,
        registries,
        networks: _,
        edges,
        policy: _,
        rotation,
        sealing,
    } = state;
    let Sealing { naming_key, rotation: _ } = sealing;
    let naming = naming_key.iter().map(|key| (Place::NamingKey, &*key.0));
    let authorities = authority_keys(meta.as_ref(), rotation.as_ref());
    let authorities = authorities.into_iter().map(|key| (Place::AuthorityKey, key));
    let contents = contents.iter().filter_map(|(id, row)| {
        let Content { bytes, form, hold: _ } = row;
        match form {
            Form::Sealed => Some((Place::Content(*id), &*bytes.0)),
            Form::Plain => None,
        }
    });
    let registries = registries.iter().map(|(name, login)| {
        let RegistryLogin { username: _, password, stored_at: _, by: _ } = login;
        (Place::Registry(name.clone()), &*password.0)
    });
    naming.chain(authorities).chain(contents).chain(registries).chain(served_keys(edges))
}

/// The sealed keys of the authorities, none of which is empty.
fn authority_keys<'s>(
    meta: Option<&'s ClusterMeta>,
    rotation: Option<&'s AuthorityRotation>,
) -> Vec<&'s [u8]> {
    let signing = meta.map(|meta| {
        let ClusterMeta { id: _, name: _, ca_certificate: _, sealed_ca_key, created_at: _ } = meta;
        sealed_ca_key.as_slice()
    });
    let rotated = rotation.map(|rotation| {
        let AuthorityRotation { id: _, begun_at: _, phase: _, since: _, old, new, reports: _ } =
            rotation;
        [old, new].map(|authority| {
            let RotatedAuthority { certificate: _, fingerprint: _, sealed_key } = authority;
            sealed_key.as_slice()
        })
    });
    let all = signing.into_iter().chain(rotated.into_iter().flatten());
    all.filter(|key| !key.is_empty()).collect()
}

fn served_keys(edges: &Edges) -> impl Iterator<Item = (Place, &[u8])> {
    let Edges { begun: _, claims: _, certificates, ports: _, acme } = edges;
    let Acme { account, issued, challenges: _, attempts: _ } = acme;
    let certificates = certificates.iter().map(|(name, row)| {
        let Certificate {
            chain: _,
            key,
            names: _,
            not_before: _,
            not_after: _,
            fingerprint: _,
            stored_at: _,
            by: _,
        } = row;
        (Place::Certificate(name.clone()), &*key.0)
    });
    let account = account.iter().map(|account| {
        let AcmeAccount { directory: _, url: _, key } = account;
        (Place::AcmeAccount, &*key.0)
    });
    let issued = issued.iter().map(|(domain, row)| {
        let IssuedCertificate {
            directory: _,
            chain: _,
            key,
            not_before: _,
            not_after: _,
            fingerprint: _,
            issued_at: _,
            window: _,
        } = row;
        (Place::Issued(domain.clone()), &*key.0)
    });
    certificates.chain(account).chain(issued)
}

/// The envelopes in the state that the key `of` has sealed.
pub fn envelopes_of(state: &ClusterState, of: KekId) -> impl Iterator<Item = (Place, &[u8])> {
    envelopes(state).filter(move |(_, envelope)| KekId::of_envelope(envelope) == Some(of))
}

/// The envelopes that a command brings into the state, but for those that replace others there.
pub(crate) fn brought(command: &Command) -> Vec<&[u8]> {
    let of_pieces = |pieces| -> Vec<&[u8]> { sealed_pieces(pieces).collect() };
    match command {
        Command::ContentPut(command) => of_pieces(&command.pieces),
        Command::NamedContentPut(command) => of_pieces(&command.pieces),
        Command::RegistryStore(RegistryStore { registry: _, username: _, password }) => {
            vec![&password.0]
        }
        Command::CertificateStore(CertificateStore { key, .. }) => vec![&key.0],
        Command::AcmeNote(AcmeNote::Account(AcmeAccount { key, .. })) => vec![&key.0],
        Command::AcmeNote(AcmeNote::Issued(CertificateIssue { key, .. })) => vec![&key.0],
        Command::AcmeNote(
            AcmeNote::Challenge { .. } | AcmeNote::Failed { .. } | AcmeNote::Window { .. },
        ) => Vec::new(),
        Command::AuthorityRotate(command) => vec![&command.new.sealed_key],
        Command::KekRotate(KekRotate { naming_key, .. }) => {
            naming_key.iter().map(|key| &*key.0).collect()
        }
        Command::ClusterInit(_)
        | Command::NodeAdmit(_)
        | Command::NodeReport(_)
        | Command::NodeSetAvailability(_)
        | Command::NodeDrain(_)
        | Command::NodeSetLabels(_)
        | Command::NodeRemove(_)
        | Command::ConstraintsSet(_)
        | Command::DisabledSet(_)
        | Command::DeploymentApply(_)
        | Command::DeploymentRollback(_)
        | Command::RevisionPin(_)
        | Command::DeploymentDelete(_)
        | Command::NamedContentRemove(_)
        | Command::RegistryRemove(_)
        | Command::Batch(_)
        | Command::Rebalance(_)
        | Command::RebalanceRevert(_)
        | Command::Observe(_)
        | Command::OperatorTokenIssue(_)
        | Command::OperatorTokenRevoke(_)
        | Command::TokensUsed(_)
        | Command::JoinTokenIssue(_)
        | Command::JoinTokenRevoke(_)
        | Command::ConsumerAttach(_)
        | Command::ConsumerDetach(_)
        | Command::AuditBegin
        | Command::AuditRetention(_)
        | Command::AuditNote(_)
        | Command::NetworkBegin(_)
        | Command::NetworkCreate(_)
        | Command::NetworkRemove(_)
        | Command::NetworkResize(_)
        | Command::EdgeBegin(_)
        | Command::CertificateRemove(_)
        | Command::PolicySet(_)
        | Command::PolicyAllow(_)
        | Command::PolicyRevoke(_)
        | Command::AuthorityReport(_)
        | Command::AuthorityContinue(_)
        | Command::AuthoritySettle(_)
        | Command::AuthorityAbandon(_)
        | Command::KekReport(_)
        | Command::KekAdvance(_)
        | Command::KekReseal(_)
        | Command::KekAbandon(_) => Vec::new(),
    }
}

fn sealed_pieces(pieces: &[Piece]) -> impl Iterator<Item = &[u8]> {
    pieces.iter().filter_map(|piece| match piece.form {
        Form::Sealed => Some(&*piece.bytes.0),
        Form::Plain => None,
    })
}
