//! Notes of the controller as entries of the log. Private keys leave it sealed.

use std::sync::Arc;
use std::time::Duration;

use jaco_acme::{AccountRecord, Board, Challenge, NewCertificate, Note, NoteError};
use jaco_pki::KeyEncryptionKey;
use jaco_pki::sealed::{self, Purpose};
use jaco_server::Member;
use jaco_state::acme::{AcmeAccount, AcmeChallenge};
use jaco_state::command::{AcmeNote, CertificateIssue};
use jaco_state::edge::SealedKey;
use jaco_state::{Command, Outcome};
use jaco_store::{Proposal, ProposeError};
use jaco_types::route::RouteDomain;
use jaco_types::{ClusterId, Identity, Origin, StateIndex};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::edges;

/// How long a note is repeated that was not written, or of which that is not known: what an authority issued is not to
/// be lost to a moment without quorum, nor an order to go on for ever.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// Between two tries.
const RETRY: Duration = Duration::from_millis(200);

/// Writes for the leader that this node is. It never writes through another one.
pub(super) struct StateBoard {
    member: Arc<Member>,
    cluster: ClusterId,
    key: KeyEncryptionKey,
}

impl StateBoard {
    /// `key` is the cluster's.
    pub(super) fn new(member: Arc<Member>, cluster: ClusterId, key: KeyEncryptionKey) -> Self {
        Self { member, cluster, key }
    }

    fn command(&self, note: Note) -> AcmeNote {
        match note {
            Note::Account(account) => AcmeNote::Account(self.account(&account)),
            Note::Challenge(challenge) => challenge_note(challenge),
            Note::Issued { domain, certificate } => {
                AcmeNote::Issued(self.issue(domain, &certificate))
            }
            Note::Failed { domain, attempt } => AcmeNote::Failed { domain, attempt },
            Note::Window { domain, window } => AcmeNote::Window { domain, window },
        }
    }

    fn account(&self, account: &AccountRecord) -> AcmeAccount {
        let purpose = Purpose::AcmeAccountKey { directory: &account.directory };
        AcmeAccount {
            directory: account.directory.as_str().into(),
            url: account.url.as_str().into(),
            key: self.sealed(purpose, &account.key),
        }
    }

    fn issue(&self, domain: RouteDomain, certificate: &NewCertificate) -> CertificateIssue {
        let purpose = Purpose::IssuedKey { domain: domain.as_str() };
        let key = self.sealed(purpose, certificate.key.as_bytes());
        CertificateIssue {
            directory: certificate.directory.as_str().into(),
            chain: certificate.chain.as_str().into(),
            key,
            not_before: certificate.not_before,
            not_after: certificate.not_after,
            fingerprint: certificate.fingerprint,
            domain,
        }
    }

    fn sealed(&self, purpose: Purpose<'_>, key: &[u8]) -> SealedKey {
        SealedKey(sealed::seal(&self.key, &self.cluster, purpose, key).into())
    }

    /// Writes until it is written, refused, or too late. The same note again changes nothing.
    async fn write(&self, command: Command) -> Result<StateIndex, NoteError> {
        let deadline = Instant::now() + WRITE_LIMIT;
        loop {
            let command = command.clone();
            let proposal = Proposal { by: Identity::Scheduler, request: None, command };
            let origin = Origin::Member { node: self.member.id };
            let error = match self.member.store.propose_here(proposal, Some(origin)).await {
                Ok(applied) => return written(applied.index, applied.outcome),
                Err(error) => error,
            };
            match error {
                ProposeError::NoLeader => return Err(NoteError::NotLeading),
                ProposeError::TooLarge { .. } | ProposeError::Stopped { .. } => {
                    return Err(NoteError::Refused(error.to_string()));
                }
                ProposeError::QuorumLost | ProposeError::Overloaded | ProposeError::Unknown => {
                    if Instant::now() >= deadline {
                        return Err(NoteError::Refused(error.to_string()));
                    }
                    warn!(%error, "a step of an order was not written, will retry");
                    sleep(RETRY).await;
                }
            }
        }
    }
}

impl Board for StateBoard {
    async fn note(&self, note: Note) -> Result<(), NoteError> {
        let command = self.command(note);
        let is_challenge = matches!(command, AcmeNote::Challenge { .. });
        let index = self.write(command.into()).await?;
        if is_challenge {
            edges::await_plan_of(&self.member, index).await;
        }
        Ok(())
    }
}

fn challenge_note(challenge: Challenge) -> AcmeNote {
    let Challenge { domain, kind, token, key_authorization, expires } = challenge;
    let key_authorization = key_authorization.into();
    let challenge = AcmeChallenge { domain, kind, key_authorization, expires };
    AcmeNote::Challenge { token: token.into(), challenge }
}

fn written(index: StateIndex, outcome: Outcome) -> Result<StateIndex, NoteError> {
    match outcome {
        Outcome::Rejected(rejection) => Err(NoteError::Refused(rejection.message)),
        Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => Ok(index),
    }
}
