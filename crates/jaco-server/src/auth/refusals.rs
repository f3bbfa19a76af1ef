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
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Maximum number of queued refusals; further ones are only counted.
const WAITING_MAX: usize = 64;

/// Minimum pause between two writes.
const INTERVAL: Duration = Duration::from_secs(5);

/// Writes that are so close to each other, after a time without refusals.
const BURST: u32 = 20;

/// One more of them is allowed each time this has passed: a lasting flood writes 288 events a day and node, which
/// leaves room in the audit log for what operators do.
const REGAINED_EVERY: Duration = Duration::from_secs(300);

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
    by: Identity,
    rejection: Rejection,
    times: u64,
}

impl Waiting {
    /// Whether it is the first of its kind in the queue, as opposed to counted.
    fn add(&mut self, from: &str, by: &Identity, rejection: &Rejection) -> bool {
        let same = |known: &&mut Refusal| {
            known.from == from && known.by == *by && known.rejection.code == rejection.code
        };
        if let Some(known) = self.refusals.iter_mut().find(same) {
            known.times += 1;
            false
        } else if self.refusals.len() < WAITING_MAX {
            let (from, by, rejection) = (from.to_owned(), by.clone(), rejection.clone());
            self.refusals.push_back(Refusal { from, by, rejection, times: 1 });
            true
        } else {
            self.others += 1;
            false
        }
    }

    /// Removes the oldest refusal and makes an audit event of it.
    fn take(&mut self) -> Option<Proposal> {
        let Refusal { from, by, rejection, times } = self.refusals.pop_front()?;
        if times > 1 || self.others > 0 {
            let (code, others) = (rejection.code, self.others);
            warn!(from, %code, times, others, "access refused repeatedly");
        }
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
        Some(Proposal { by, request: None, command })
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
    /// Queues a refusal of access to `by`, who asked from `from`, for the audit log, and logs it. One that is merged with a queued one, or
    /// finds the queue full, is only counted: the log has as many lines as the audit log has events.
    pub fn note(&self, from: &str, by: &Identity, rejection: &Rejection) {
        if self.shared.waiting().add(from, by, rejection) {
            warn!(from, code = %rejection.code, reason = %rejection.message, "access refused");
        }
        self.shared.added.notify_one();
    }
}

impl RefusalWriter {
    /// Writes queued refusals until `shutdown`.
    pub async fn run(self, store: Arc<dyn Store>, shutdown: CancellationToken) {
        let mut pace = Pace::new(Instant::now());
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
                () = tokio::time::sleep(pace.after_write(Instant::now())) => {}
            }
        }
    }
}

/// When events may be written: a burst, then as fast as the burst is regained.
#[derive(Debug)]
struct Pace {
    left: u32,
    regained_at: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { left: BURST, regained_at: now }
    }

    /// The pause after a write at `now`.
    fn after_write(&mut self, now: Instant) -> Duration {
        while self.left < BURST && now.duration_since(self.regained_at) >= REGAINED_EVERY {
            self.left += 1;
            self.regained_at += REGAINED_EVERY;
        }
        if self.left == BURST {
            self.regained_at = now;
        }
        self.left = self.left.saturating_sub(1);
        match self.left {
            0 => REGAINED_EVERY.saturating_sub(now.duration_since(self.regained_at)).max(INTERVAL),
            _ => INTERVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use jaco_state::Command;
    use jaco_types::ErrorCode;

    use super::*;

    /// R-FAULT-3: a flood that lasts a day does not displace what operators do from the audit log.
    #[test]
    fn a_day_of_refusals_writes_few_events() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let (mut passed, mut written) = (Duration::ZERO, 0);
        while passed < Duration::from_secs(86_400) {
            written += 1;
            passed += pace.after_write(start + passed);
        }
        assert!((288..=310).contains(&written), "{written}");
        let quiet = start + passed + Duration::from_secs(86_400);
        assert_eq!(
            pace.after_write(quiet),
            INTERVAL,
            "after a quiet day the first ones are written at once"
        );
    }

    /// R-FAULT-3: lines are logged for what is queued only.
    #[test]
    fn repeated_refusals_are_not_logged_each() {
        let mut waiting = Waiting::default();
        let rejection = Rejection::new(ErrorCode::TokenInvalid, "no");
        let logged = (0..10_000).filter(|n| {
            waiting.add(&format!("192.0.2.{}", n % 200), &Identity::Anonymous, &rejection)
        });
        assert_eq!(logged.count(), WAITING_MAX);
    }

    /// R-CLI-5: a refusal is by the user who was refused, also where several share an address.
    #[test]
    fn refusals_are_by_who_was_refused() {
        let mut waiting = Waiting::default();
        let rejection = Rejection::new(ErrorCode::PermissionDenied, "no");
        let [alice, bob] = [1000, 1001].map(|uid| Identity::Local { uid });
        for by in [&alice, &bob, &alice] {
            waiting.add("192.0.2.1", by, &rejection);
        }
        let taken: Vec<_> = std::iter::from_fn(|| waiting.take()).map(|one| one.by).collect();
        assert_eq!(taken, [alice, bob]);
    }

    /// R-CLI-5: the queue is bounded, and every refusal is counted.
    #[test]
    fn a_flood_of_refusals_is_counted() {
        let mut waiting = Waiting::default();
        let rejection = Rejection::new(ErrorCode::TokenInvalid, "no");
        let places = u64::try_from(WAITING_MAX).unwrap() + 36;
        for n in 0..1000 * places {
            waiting.add(&format!("192.0.2.{}", n % places), &Identity::Anonymous, &rejection);
        }
        let other = Rejection::new(ErrorCode::CertificateInvalid, "no");
        waiting.add("192.0.2.0", &Identity::Anonymous, &other);
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
