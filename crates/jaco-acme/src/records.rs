//! What the cluster keeps about certificates that it orders: the rows that the controller reads, and the notes by which
//! it changes them.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use jaco_state::Table;
use jaco_state::acme::{IssueAttempt, IssuedCertificate};
use jaco_types::route::RouteDomain;
use jaco_types::{ChallengeKind, RenewalWindow, Timestamp};
use zeroize::Zeroizing;

/// The most characters of the reason of a failed attempt.
pub const REASON_CHARS_MAX: usize = 512;

/// All that the controller has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The domains of routes with `tls: auto`; no wildcards.
    pub wanted: BTreeSet<RouteDomain>,
    /// The account at the authority, once there is one.
    pub account: Option<Arc<AccountRecord>>,
    /// The certificates that were issued.
    pub issued: Table<RouteDomain, IssuedCertificate>,
    /// The domains whose last order failed.
    pub attempts: Table<RouteDomain, IssueAttempt>,
}

/// The account at an authority.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountRecord {
    /// The address of the authority's directory.
    pub directory: String,
    /// The address by which the authority knows the account.
    pub url: String,
    /// Its private key, as PKCS#8.
    pub key: Zeroizing<Vec<u8>>,
}

/// What every edge answers to an authority that asks for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The domain that is being proven.
    pub domain: RouteDomain,
    /// How.
    pub kind: ChallengeKind,
    /// What the authority asks for.
    pub token: String,
    /// What is answered. It proves nothing to anybody else, and is no secret.
    pub key_authorization: String,
    /// When nobody asks any more.
    pub expires: Timestamp,
}

/// A certificate that was issued just now.
#[derive(Clone, PartialEq, Eq)]
pub struct NewCertificate {
    /// The certificate and those above it, as PEM.
    pub chain: String,
    /// Its private key, as PEM.
    pub key: Zeroizing<String>,
    /// The address of the directory of the authority that issued it.
    pub directory: String,
    /// From when on it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// SHA-256 of the certificate, without those above it.
    pub fingerprint: [u8; 32],
}

/// A change of the records. Each is idempotent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// This is the account from now on.
    Account(AccountRecord),
    /// Every edge answers this from now on.
    Challenge(Challenge),
    /// The certificate of a domain; its attempts and challenges are forgotten.
    Issued {
        /// The domain.
        domain: RouteDomain,
        /// The certificate.
        certificate: NewCertificate,
    },
    /// The last order of a domain failed; its challenges are forgotten.
    Failed {
        /// The domain.
        domain: RouteDomain,
        /// Why, and when the next one is made.
        attempt: IssueAttempt,
    },
    /// When the authority wants the certificate of a domain to be renewed.
    Window {
        /// The domain.
        domain: RouteDomain,
        /// None: whenever the cluster wants.
        window: Option<RenewalWindow>,
    },
}

/// Why a note is not in the records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// This node does not lead any more; who does goes on from the records.
    #[error("this node does not lead the cluster any more")]
    NotLeading,
    /// The state refused it, for example because no route wants the domain any more.
    #[error("the cluster's state refused it: {0}")]
    Refused(String),
}

/// Where the controller records what it does.
pub trait Board: Send + Sync + 'static {
    /// Records a note. When this returns, a majority of the members has it, and the edges that can be reached
    /// answer a challenge in it.
    ///
    /// # Errors
    /// If it is not recorded.
    fn note(&self, note: Note) -> impl Future<Output = Result<(), NoteError>> + Send;
}

/// Whoever prints it sees no key.
impl fmt::Debug for AccountRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, url, key: _ } = self;
        f.debug_struct("AccountRecord")
            .field("directory", directory)
            .field("url", url)
            .finish_non_exhaustive()
    }
}

/// Whoever prints it sees no key.
impl fmt::Debug for NewCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, not_before, not_after, .. } = self;
        f.debug_struct("NewCertificate")
            .field("directory", directory)
            .field("not_before", not_before)
            .field("not_after", not_after)
            .finish_non_exhaustive()
    }
}
