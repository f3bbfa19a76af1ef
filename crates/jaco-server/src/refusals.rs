//! Puts refused access into the audit log, at a bounded rate: whoever knocks must not be able to
//! make the cluster write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, Rejection};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How many different refusals may wait to be written; what is more is counted with the last of them.
const WAITING_MAX: usize = 64;

/// At most this often is a refusal written: 12 a minute and node, however hard somebody knocks.
const INTERVAL: Duration = Duration::from_secs(5);

/// Refusals that wait to be audited, oldest first, each with how often it was: those from one place for
/// one reason are one.
#[derive(Debug, Default)]
struct Waiting {
    refusals: VecDeque<Refusal>,
    /// How often somebody was refused for whom there was no room.
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

    /// The oldest, as it is written.
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
        let command = Command::AuditNote { kind: AuditKind::AccessRefused, payload };
        Some(Proposal { by: Identity::Anonymous, request: None, command })
    }
}

/// Takes refusals; cheap to clone.
#[derive(Debug, Clone)]
pub struct Refusals {
    shared: Arc<Shared>,
}

/// Writes them.
#[derive(Debug)]
pub struct RefusalWriter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    noted: Notify,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a pair: one side notes refusals, the other writes them.
#[must_use]
pub fn channel() -> (Refusals, RefusalWriter) {
    let shared = Arc::new(Shared::default());
    (Refusals { shared: Arc::clone(&shared) }, RefusalWriter { shared })
}

impl Refusals {
    /// Notes that somebody at `from` was refused. Always in the node's log; in the audit log together
    /// with what else was refused from there for the same reason, as far as the rate allows.
    pub fn note(&self, from: &str, rejection: &Rejection) {
        warn!(from, code = %rejection.code, reason = %rejection.message, "access refused");
        self.shared.waiting().add(from, rejection);
        self.shared.noted.notify_one();
    }
}

impl RefusalWriter {
    /// Writes what is noted until `shutdown`.
    pub async fn run(self, store: Arc<dyn Store>, shutdown: CancellationToken) {
        loop {
            let oldest = self.shared.waiting().take();
            let Some(proposal) = oldest else {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.shared.noted.notified() => continue,
                }
            };
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

#[cfg(test)]
mod tests {
    use jaco_types::ErrorCode;

    use super::*;

    /// R-CLI-5: a flood from many places waits in bounded room, and every refusal is in some count.
    #[test]
    fn a_flood_is_counted() {
        let mut waiting = Waiting::default();
        let rejection = Rejection::new(ErrorCode::TokenInvalid, "no");
        let places = u64::try_from(WAITING_MAX).unwrap() + 36;
        for n in 0..1000 * places {
            waiting.add(&format!("192.0.2.{}", n % places), &rejection);
        }
        waiting.add("192.0.2.0", &Rejection::new(ErrorCode::CertificateInvalid, "no"));
        assert_eq!(waiting.refusals.len(), WAITING_MAX);
        let mut told = 0;
        while let Some(Proposal { command, .. }) = waiting.take() {
            let Command::AuditNote { payload, .. } = command else { panic!("{command:?}") };
            let count = |key: &str| payload.get(key).map(|count| count.parse::<u64>().unwrap());
            told += count("times").unwrap_or(1) + count("others").unwrap_or(0);
        }
        assert_eq!(told, 1000 * places + 1);
    }
}
