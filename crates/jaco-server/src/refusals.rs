//! Puts refused access into the audit log, at a bounded rate: whoever knocks must not be able to
//! make the cluster write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, Rejection};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How many refusals may wait to be written; more are counted and dropped.
const WAITING_MAX: usize = 64;

/// At most this often is a refusal written: 12 a minute and node, however hard somebody knocks.
const INTERVAL: Duration = Duration::from_secs(5);

/// A refusal to be audited.
#[derive(Debug)]
struct Refusal {
    from: String,
    rejection: Rejection,
}

/// Takes refusals; cheap to clone.
#[derive(Debug, Clone)]
pub struct Refusals {
    sender: mpsc::Sender<Refusal>,
}

/// Writes them.
#[derive(Debug)]
pub struct RefusalWriter {
    receiver: mpsc::Receiver<Refusal>,
}

/// Makes a pair: one side notes refusals, the other writes them.
#[must_use]
pub fn channel() -> (Refusals, RefusalWriter) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Refusals { sender }, RefusalWriter { receiver })
}

impl Refusals {
    /// Notes that somebody at `from` was refused. Always in the node's log; in the audit log as far
    /// as the rate allows.
    pub fn note(&self, from: &str, rejection: &Rejection) {
        warn!(from, code = %rejection.code, reason = %rejection.message, "access refused");
        let refusal = Refusal { from: from.to_owned(), rejection: rejection.clone() };
        // Full means that somebody knocks hard; the node's log has it.
        let _dropped = self.sender.try_send(refusal).is_err();
    }
}

impl RefusalWriter {
    /// Writes what is noted until `shutdown`.
    pub async fn run(mut self, store: Arc<dyn Store>, shutdown: CancellationToken) {
        loop {
            let refusal = tokio::select! {
                () = shutdown.cancelled() => return,
                refusal = self.receiver.recv() => refusal,
            };
            let Some(refusal) = refusal else { return };
            let proposal = proposal(refusal);
            if let Err(error) = store.propose(proposal).await {
                warn!(%error, "refused access could not be audited");
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }
}

fn proposal(refusal: Refusal) -> Proposal {
    let Refusal { from, rejection } = refusal;
    let mut payload: BTreeMap<String, String> = rejection.details;
    payload.insert("from".to_owned(), from);
    payload.insert("code".to_owned(), rejection.code.as_str().to_owned());
    payload.insert("message".to_owned(), rejection.message);
    let command = Command::AuditNote { kind: AuditKind::AccessRefused, payload };
    Proposal { by: Identity::Anonymous, request: None, command }
}
