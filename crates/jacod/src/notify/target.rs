//! The deliveries to one target: one at a time, in the order of the events. A target that hangs costs one task and one
//! notification, whatever waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jaco_notify::{Jitter, Roots, SEND_LIMIT, SendError, Sender, delay, gives_up};
use jaco_server::Member;
use jaco_server::notify::{Subject, event_letter, open_endpoint};
use jaco_state::ClusterState;
use jaco_state::audit::{AuditEvent, AuditKey};
use jaco_state::command::{GivenUp, Retried, RetryEnd};
use jaco_state::notify::{Delivered, Failing, NotifyTarget, UndeliveredKey};
use jaco_state::view::{NextNotification, next_notification, undelivered_of};
use jaco_store::Store;
use jaco_types::{ClusterId, NotifyTargetName, StateIndex};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::reports::{News, Reports};

/// Delivers to a target.
pub(super) struct TargetLoop {
    member: Arc<Member>,
    cluster: ClusterId,
    /// Made with the first attempt, and after each failure.
    sender: Option<Arc<Sender>>,
}

/// How far the deliveries are.
struct Progress {
    /// The last event that is settled.
    position: AuditKey,
    /// The first event behind it, and how often it was sent.
    attempted: (AuditKey, u32),
    /// Failures in a row, of whatever events.
    failures: u32,
    /// Until when no event is sent.
    pause: Option<Instant>,
    failing: Option<Failing>,
    /// What users asked for and was sent, until the state says so.
    retried: BTreeMap<AuditKey, StateIndex>,
}

impl TargetLoop {
    pub(super) fn new(member: Arc<Member>, cluster: ClusterId) -> Self {
        Self { member, cluster, sender: None }
    }

    /// Delivers until the target is gone or another one has its name.
    pub(super) async fn run(
        mut self,
        name: NotifyTargetName,
        id: StateIndex,
        reports: Arc<Reports>,
    ) {
        let member = Arc::clone(&self.member);
        let mut index = member.store.watch_index();
        let Some(target) = member.store.read(|state| present(state, &name, id).cloned()) else {
            return;
        };
        let mut progress = Progress {
            position: target.cursor,
            attempted: (AuditKey::default(), 0),
            failures: 0,
            pause: None,
            failing: target.failing,
            retried: BTreeMap::new(),
        };
        let note = |progress: &Progress, news| {
            reports.note((&name, id), progress.position, progress.failing.clone(), news);
        };
        loop {
            index.borrow_and_update();
            let next = member.store.read(|state| {
                let target = present(state, &name, id)?;
                progress.forget_retried(state, &name);
                let is_done = |key, asked| progress.retried.get(&key) == Some(&asked);
                let next = next_notification(state, (&name, target), progress.position, is_done);
                Some((next, target.clone()))
            });
            let Some((next, target)) = next else { return };
            match next {
                NextNotification::Nothing { seen } => {
                    progress.position = seen;
                    if index.changed().await.is_err() {
                        return;
                    }
                }
                NextNotification::Again { key, asked, undelivered } => {
                    let sent = self.send((&name, &target), key, &undelivered.event).await;
                    let end = match &sent {
                        Ok(()) => RetryEnd::Delivered,
                        Err(error) => RetryEnd::Failed { reason: error.to_string() },
                    };
                    self.count(&mut progress, (&name, &target), sent.as_ref().err());
                    progress.retried.insert(key, asked);
                    note(&progress, News::Retried(Retried { event: key, asked, end }));
                }
                NextNotification::Event { .. } if progress.is_paused() => {
                    let pause = progress.pause.unwrap_or_else(Instant::now);
                    tokio::select! {
                        () = tokio::time::sleep_until(pause) => progress.pause = None,
                        () = self.asked(&mut index, &name, &progress) => {}
                    }
                }
                NextNotification::Event { key, event } => {
                    let attempts = progress.attempt(key);
                    let sent = self.send((&name, &target), key, &event).await;
                    let reason = progress.failing.as_ref().map(|failing| failing.reason.clone());
                    self.count(&mut progress, (&name, &target), sent.as_ref().err());
                    let age = self.member.clock.now().since(event.at);
                    match sent {
                        Ok(()) => {
                            progress.is_settled(key);
                            let at = self.member.clock.now();
                            note(&progress, News::Delivered(Delivered { event: key, at }));
                        }
                        Err(error) if gives_up(&error, attempts, Duration::from_millis(age.0)) => {
                            progress.is_settled(key);
                            let reason = error.to_string();
                            warn!(target = %name, attempts, %reason, "notification given up");
                            let given_up = GivenUp { event: key, attempts, reason };
                            note(&progress, News::GivenUp(given_up));
                        }
                        // A failure like the one before is no news.
                        Err(error) if reason.as_deref() != Some(&error.to_string()) => {
                            note(&progress, News::Failed);
                        }
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// Counts an attempt, and says in the log when a target begins to fail and when it works again.
    fn count(
        &self,
        progress: &mut Progress,
        (name, target): (&NotifyTargetName, &NotifyTarget),
        error: Option<&SendError>,
    ) {
        let address = &*target.shown;
        let Some(error) = error else {
            if progress.failing.take().is_some() {
                info!(target = %name, address, "notification target accepts again");
            }
            (progress.failures, progress.pause) = (0, None);
            return;
        };
        let reason = error.to_string();
        if progress.failing.is_none() {
            warn!(target = %name, address, %reason, advice = error.advice(), "notification failed");
        }
        progress.failures = progress.failures.saturating_add(1);
        let jitter = Jitter(fastrand::u16(0..=1000));
        let pause = delay(progress.failures, error.retry_after(), jitter);
        progress.pause = Some(Instant::now() + pause);
        let now = self.member.clock.now();
        let since = progress.failing.as_ref().map_or(now, |failing| failing.since);
        progress.failing = Some(Failing { since, reason });
    }

    /// Sends an event once.
    async fn send(
        &mut self,
        (name, target): (&NotifyTargetName, &NotifyTarget),
        key: AuditKey,
        event: &AuditEvent,
    ) -> Result<(), SendError> {
        let sent = self.attempt((name, target), key, event).await;
        if sent.is_err() {
            self.sender = None;
        }
        sent
    }

    async fn attempt(
        &mut self,
        (name, target): (&NotifyTargetName, &NotifyTarget),
        key: AuditKey,
        event: &AuditEvent,
    ) -> Result<(), SendError> {
        let ring = self.member.cluster_key.ring();
        // Opened for this attempt alone: the key may be another one by the next.
        let endpoint = open_endpoint(ring, &self.cluster, name, target)?;
        let meta = self.member.store.read(|state| state.meta.clone());
        let meta = meta.ok_or_else(|| SendError::Sealed("there is no cluster".to_owned()))?;
        let subject = Subject { meta: &meta, target: name, form: target.form };
        let message = event_letter(subject, key, event, target.pruned);
        let sender = match &self.sender {
            Some(sender) => Arc::clone(sender),
            None => {
                // Reads files of the machine.
                let made = tokio::task::spawn_blocking(|| Sender::new(Roots::System)).await;
                let made = made.map_err(|error| SendError::Broken(error.to_string()))?;
                Arc::clone(self.sender.insert(Arc::new(made)))
            }
        };
        let now_secs = self.member.clock.now().0 / 1000;
        sender.send(&endpoint, &message, now_secs, SEND_LIMIT).await.map(drop)
    }

    /// Waits until a user asks for something that was given up.
    async fn asked(
        &self,
        index: &mut watch::Receiver<StateIndex>,
        name: &NotifyTargetName,
        progress: &Progress,
    ) {
        let is_asked = |state: &ClusterState| {
            undelivered_of(state, name).any(|(key, row)| {
                row.retry.is_some_and(|asked| progress.retried.get(&key.event) != Some(&asked))
            })
        };
        while !self.member.store.read(is_asked) {
            if index.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

impl Progress {
    fn is_paused(&self) -> bool {
        self.pause.is_some_and(|until| Instant::now() < until)
    }

    /// Counts an attempt of an event, and returns which one it is. The event before may have been evicted meanwhile.
    fn attempt(&mut self, key: AuditKey) -> u32 {
        let (last, attempts) = self.attempted;
        let attempts = if last == key { attempts.saturating_add(1) } else { 1 };
        self.attempted = (key, attempts);
        attempts
    }

    fn is_settled(&mut self, key: AuditKey) {
        self.position = key;
    }

    /// Forgets what the state knows to be over.
    fn forget_retried(&mut self, state: &ClusterState, name: &NotifyTargetName) {
        self.retried.retain(|event, asked| {
            let key = UndeliveredKey { target: name.clone(), event: *event };
            let row = state.notify.undelivered.get(&key);
            row.is_some_and(|row| row.retry == Some(*asked))
        });
    }
}

/// The target, if it is still this one.
fn present<'s>(
    state: &'s ClusterState,
    name: &NotifyTargetName,
    id: StateIndex,
) -> Option<&'s NotifyTarget> {
    state.notify.targets.get(name).filter(|target| target.id == id)
}
