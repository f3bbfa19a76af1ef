//! Notes of the controller as entries of the log. Private keys leave it sealed.

use std::sync::Arc;
use std::time::Duration;

use jaco_acme::{AccountRecord, Board, Challenge, NewCertificate, Note, NoteError};
use jaco_pki::sealed::Purpose;
use jaco_server::{Member, Sealer};
use jaco_state::Outcome;
use jaco_state::acme::{AcmeAccount, AcmeChallenge};
use jaco_state::command::{AcmeNote, CertificateIssue};
use jaco_state::edge::SealedKey;
use jaco_store::{Proposal, ProposeError};
use jaco_types::route::RouteDomain;
use jaco_types::{Identity, KekId, Origin, StateIndex};
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
}

impl StateBoard {
    pub(super) fn new(member: Arc<Member>) -> Self {
        Self { member }
    }
}

/// A note as an entry, sealed.
fn command(sealer: &Sealer<'_>, note: &Note) -> AcmeNote {
    match note {
        Note::Account(record) => AcmeNote::Account(account(sealer, record)),
        Note::Challenge(challenge) => challenge_note(challenge.clone()),
        Note::Issued { domain, certificate } => {
            AcmeNote::Issued(issue(sealer, domain.clone(), certificate))
        }
        Note::Failed { domain, attempt } => {
            AcmeNote::Failed { domain: domain.clone(), attempt: attempt.clone() }
        }
        Note::Window { domain, window } => {
            AcmeNote::Window { domain: domain.clone(), window: *window }
        }
    }
}

fn account(sealer: &Sealer<'_>, account: &AccountRecord) -> AcmeAccount {
    let purpose = Purpose::AcmeAccountKey { directory: &account.directory };
    AcmeAccount {
        directory: account.directory.as_str().into(),
        url: account.url.as_str().into(),
        key: SealedKey(sealer.seal(purpose, &account.key).into()),
    }
}

fn issue(
    sealer: &Sealer<'_>,
    domain: RouteDomain,
    certificate: &NewCertificate,
) -> CertificateIssue {
    let purpose = Purpose::IssuedKey { domain: domain.as_str() };
    let key = SealedKey(sealer.seal(purpose, certificate.key.as_bytes()).into());
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

impl StateBoard {
    /// Writes until it is written, refused, or too late. The same note again changes nothing, so it is sealed only once,
    /// unless another key seals by then.
    async fn write(&self, note: &Note) -> Result<StateIndex, NoteError> {
        let deadline = Instant::now() + WRITE_LIMIT;
        let mut sealed: Option<(KekId, AcmeNote)> = None;
        loop {
            let sealer = self.member.sealer().await;
            let sealer = sealer.map_err(|refusal| NoteError::Refused(refusal.message))?;
            let kept = sealed.take().filter(|(key, _)| *key == sealer.key_id());
            let kept = kept.unwrap_or_else(|| (sealer.key_id(), command(&sealer, note)));
            let command = sealed.insert(kept).1.clone().into();
            let proposal = Proposal { by: Identity::Scheduler, request: None, command };
            let origin = Origin::Member { node: self.member.id };
            let error = match self.member.store.propose_here(proposal, Some(origin)).await {
                Ok(applied) => return written(applied.index, applied.outcome),
                Err(error) => error,
            };
            drop(sealer);
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
        let index = self.write(&note).await?;
        if matches!(note, Note::Challenge(_)) {
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
