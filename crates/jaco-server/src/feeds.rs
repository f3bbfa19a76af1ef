//! What callers who ask for the same at a time share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt as _;
use jaco_proto::v1::StatusScope;
use jaco_types::{ErrorCode, Rejection};
use tokio::sync::{Mutex as Turn, Notify, OwnedMutexGuard, watch};
use tokio::time::Instant;

use crate::answers::{Answer, Answers};

/// How many different subjects are watched at a time on one node, however many watch each.
const FEEDS_MAX: usize = 64;

/// How long renderings may take without a rest: some commands one after another do not wait for it, in the largest cluster.
const UNRESTED_MAX: Duration = Duration::from_secs(4);

/// The open feeds of a node.
#[derive(Debug, Default)]
pub struct Feeds {
    open: Mutex<HashMap<Subject, Arc<Feed>>>,
    turn: Arc<Turn<RenderBudget>>,
    pub(crate) answers: Answers,
}

/// How long renderings took, less the time in which there were none. Beyond [`UNRESTED_MAX`] they rest: so watchers of a large
/// state that changes all the time take half a processor at most.
#[derive(Debug)]
pub(crate) struct RenderBudget {
    time: Duration,
    /// The end of the last rendering.
    since: Instant,
}

impl Default for RenderBudget {
    fn default() -> Self {
        Self { time: Duration::ZERO, since: Instant::now() }
    }
}

impl RenderBudget {
    /// Counts a rendering, and says how long to rest after it.
    pub(crate) fn count(&mut self, begun: Instant, ended: Instant) -> Duration {
        let rested = self.time.saturating_sub(begun.duration_since(self.since));
        self.time = rested + ended.duration_since(begun);
        self.since = ended;
        self.time.saturating_sub(UNRESTED_MAX)
    }
}

/// Gives the turn back after a rest, and at once without one: the clock of the runtime counts milliseconds, so that waiting for
/// no time at all takes one.
pub(crate) fn give_back(turn: OwnedMutexGuard<RenderBudget>, rest: Duration) {
    if rest.is_zero() {
        return drop(turn);
    }
    tokio::spawn(async move {
        tokio::time::sleep(rest).await;
        drop(turn);
    });
}

/// What is watched; empty names are all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) deployment: String,
    pub(crate) service: String,
    pub(crate) scope: StatusScope,
}

/// What watchers of one subject share.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) newest: watch::Sender<Rendering>,
    /// A watcher came.
    pub(crate) joined: Notify,
    begun: AtomicU64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Rendering {
    /// Counts the renderings, from 1 on.
    pub(crate) number: u64,
    /// Grows with each rendering that shows something new.
    pub(crate) version: u64,
    pub(crate) answer: Arc<Answer>,
}

impl Feeds {
    /// The renderings of a subject, and the number of the first that begins after this call: what was rendered before
    /// may lack a change that the caller has seen elsewhere. A new feed is given to `start`, which renders it.
    ///
    /// # Errors
    /// `overloaded` if too many different subjects are watched.
    pub(crate) fn join(
        &self,
        subject: Subject,
        start: impl FnOnce(Subject, Arc<Feed>),
    ) -> Result<(watch::Receiver<Rendering>, u64), Rejection> {
        let mut open = self.lock();
        if open.len() >= FEEDS_MAX && !open.contains_key(&subject) {
            let message = format!(
                "{FEEDS_MAX} different deployments and services are watched on this node: watch all at once, without \
                 a name, or ask another node"
            );
            return Err(Rejection::new(ErrorCode::Overloaded, message));
        }
        let feed = open.entry(subject.clone()).or_insert_with(|| {
            let (newest, _) = watch::channel(Rendering::default());
            let feed = Arc::new(Feed { newest, joined: Notify::new(), begun: AtomicU64::new(0) });
            start(subject, Arc::clone(&feed));
            feed
        });
        let newest = feed.newest.subscribe();
        let wanted = feed.begun.load(Ordering::SeqCst) + 1;
        feed.joined.notify_one();
        Ok((newest, wanted))
    }

    /// Waits until no other feed renders. Whoever renders counts that, and gives the turn back after the rest.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<RenderBudget> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Whether the feed ends: nobody has joined since the last one left.
    pub(crate) fn end_unwatched(&self, subject: &Subject, feed: &Feed) -> bool {
        let mut open = self.lock();
        let is_unwatched = feed.newest.receiver_count() == 0;
        if is_unwatched {
            open.remove(subject);
        }
        is_unwatched
    }

    /// Ends a feed; its watchers end once its sender is dropped.
    pub(crate) fn end(&self, subject: &Subject, feed: &Arc<Feed>) {
        let mut open = self.lock();
        if open.get(subject).is_some_and(|other| Arc::ptr_eq(other, feed)) {
            open.remove(subject);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Arc<Feed>>> {
        self.open.lock().expect("nothing panics while holding the feeds")
    }
}

impl Feed {
    /// The number of a rendering that begins now: all who have joined so far wait for it, and for no further one.
    pub(crate) fn begin(&self) -> u64 {
        // It is there only if a caller has joined.
        let _joined = self.joined.notified().now_or_never();
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-3: those who join before a rendering begins share it and cause no second one; who joins while it is made
    /// gets the next.
    #[test]
    fn one_rendering_serves_all_who_joined_before_it() {
        let feeds = Feeds::default();
        let subject = || Subject {
            deployment: "shop".to_owned(),
            service: String::new(),
            scope: StatusScope::All,
        };
        let mut opened = None;
        let (_first, wanted) = feeds.join(subject(), |_, feed| opened = Some(feed)).unwrap();
        let feed = opened.unwrap();
        let (_second, same) = feeds.join(subject(), |_, _| panic!("it is open")).unwrap();
        assert_eq!((wanted, same, feed.begin()), (1, 1, 1));
        assert!(feed.joined.notified().now_or_never().is_none(), "nobody waits for another");
        let (_late, next) = feeds.join(subject(), |_, _| panic!("it is open")).unwrap();
        assert_eq!(next, 2);
        assert!(feed.joined.notified().now_or_never().is_some(), "one is asked for");
    }

    /// R-CLI-4: a status that follows another waits for no timer; where there is a rest, it waits for that.
    #[tokio::test(start_paused = true)]
    async fn a_turn_without_a_rest_is_free_at_once() {
        let feeds = Feeds::default();
        give_back(feeds.turn().await, Duration::ZERO);
        let next = feeds.turn().now_or_never().expect("it is free");
        let rest = Duration::from_secs(1);
        let begun = Instant::now();
        give_back(next, rest);
        assert!(feeds.turn().now_or_never().is_none(), "the rest goes on");
        drop(feeds.turn().await);
        assert!(begun.elapsed() >= rest);
    }

    /// R-FAULT-3, R-CLI-10: commands one after another do not wait for a rest, and renderings that never end take half of the
    /// time.
    #[test]
    fn renderings_rest_once_there_are_many() {
        let ms = Duration::from_millis;
        let mut budget = RenderBudget::default();
        let mut now = budget.since;
        let mut render = |pause: Duration, took: Duration| {
            let begun = now + pause;
            now = begun + took;
            let rest = budget.count(begun, now);
            now += rest;
            rest
        };
        for _ in 0..8 {
            assert_eq!(render(ms(0), ms(500)), ms(0));
        }
        for _ in 0..20 {
            assert_eq!(render(ms(0), ms(500)), ms(500), "half of the time");
        }
        assert_eq!(render(ms(300), ms(500)), ms(200), "a pause counts as a rest");
        for _ in 0..20 {
            assert_eq!(render(ms(500), ms(500)), ms(0));
        }
        assert_eq!(render(ms(3_600_000), ms(4001)), ms(1), "a long pause is no more than a rest");
    }
}
