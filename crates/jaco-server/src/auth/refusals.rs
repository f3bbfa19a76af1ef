//! Audits refused access, at a bounded rate: an unauthenticated client must not be able to make the cluster
//! write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jaco_state::audit::AuditKind;
use jaco_state::command::AuditNote;
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, Rejection};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Maximum number of queued refusals; further ones are only counted.
const WAITING_MAX: usize = 64;

/// Minimum pause between two writes: at most 12 a minute and node.
const INTERVAL: Duration = Duration::from_secs(5);

/// Queued refusals, oldest first. Those from one address with one code are merged and counted.
#[derive(Debug, Default)]
struct Waiting {
    refusals: VecDeque<Refusal>,
    /// Refusals that did not fit into the queue.
    others: u64,
}

/// A refusal to be audited.
#[derive(Debug)]
struct Refusal {
    from: String,
    rejection: Rejection,
    times: u64,
}

impl Waiting {
    fn add(&mut self, from: &str, rejection: &Rejection) {
        let same =
            |known: &&mut Refusal| known.from == from && known.rejection.code == rejection.code;
        if let Some(known) = self.refusals.iter_mut().find(same) {
            known.times += 1;
        } else if self.refusals.len() < WAITING_MAX {
            let (from, rejection) = (from.to_owned(), rejection.clone());
            self.refusals.push_back(Refusal { from, rejection, times: 1 });
        } else {
            self.others += 1;
        }
    }

    /// Removes the oldest refusal and makes an audit event of it.
    fn take(&mut self) -> Option<Proposal> {
        let Refusal { from, rejection, times } = self.refusals.pop_front()?;
        let mut payload: BTreeMap<String, String> = rejection.details;
        payload.insert("from".to_owned(), from);
        payload.insert("code".to_owned(), rejection.code.as_str().to_owned());
        payload.insert("message".to_owned(), rejection.message);
        if times > 1 {
            payload.insert("times".to_owned(), times.to_string());
        }
        if self.others > 0 {
            payload.insert("others".to_owned(), std::mem::take(&mut self.others).to_string());
        }
        let command = AuditNote::new(AuditKind::AccessRefused, payload).into();
        Some(Proposal { by: Identity::Anonymous, request: None, command })
    }
}

/// Queues refusals. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Refusals {
    shared: Arc<Shared>,
}

/// Writes queued refusals to the audit log.
#[derive(Debug)]
pub struct RefusalWriter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    added: Notify,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue of refusals and its writer.
#[must_use]
pub fn channel() -> (Refusals, RefusalWriter) {
    let shared = Arc::new(Shared::default());
    (Refusals { shared: Arc::clone(&shared) }, RefusalWriter { shared })
}

impl Refusals {
    /// Logs a refusal of access from `from` and queues it for the audit log.
    pub fn note(&self, from: &str, rejection: &Rejection) {
        warn!(from, code = %rejection.code, reason = %rejection.message, "access refused");
        self.shared.waiting().add(from, rejection);
        self.shared.added.notify_one();
    }
}

impl RefusalWriter {
    /// Writes queued refusals until `shutdown`.
    pub async fn run(self, store: Arc<dyn Store>, shutdown: CancellationToken) {
        loop {
            let oldest = self.shared.waiting().take();
            let Some(proposal) = oldest else {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.shared.added.notified() => continue,
                }
            };
            if let Err(error) = store.propose(proposal).await {
                warn!(%error, "could not audit refused access");
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jaco_state::Command;
    use jaco_types::ErrorCode;

    use super::*;

    /// R-CLI-5: the queue is bounded, and every refusal is counted.
    #[test]
    fn a_flood_of_refusals_is_counted() {
        let mut waiting = Waiting::default();
        let rejection = Rejection::new(ErrorCode::TokenInvalid, "no");
        let places = u64::try_from(WAITING_MAX).unwrap() + 36;
        for n in 0..1000 * places {
            waiting.add(&format!("192.0.2.{}", n % places), &rejection);
        }
        waiting.add("192.0.2.0", &Rejection::new(ErrorCode::CertificateInvalid, "no"));
        assert_eq!(waiting.refusals.len(), WAITING_MAX);
        let mut counted = 0;
        while let Some(Proposal { command, .. }) = waiting.take() {
            let Command::AuditNote(AuditNote { payload, .. }) = command else {
                panic!("{command:?}")
            };
            let count = |key: &str| payload.get(key).map(|count| count.parse::<u64>().unwrap());
            counted += count("times").unwrap_or(1) + count("others").unwrap_or(0);
        }
        assert_eq!(counted, 1000 * places + 1);
    }
}
