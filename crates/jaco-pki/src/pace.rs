//! The pace at which strangers of one source are answered: a handshake costs both sides about the same, and whoever
//! connects again as soon as one ends could keep both busy for good.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::limiter::{Loopback, Source, SourceLimiter, SourceLimits};

/// Those of a source that come together are answered together, up to as many as have a place; further ones at 20 a second.
/// The first of them that shows a credential frees its source from the pace.
const LIMITS: SourceLimits = SourceLimits {
    burst: 64,
    forgiven_every: Duration::from_millis(50),
    sources_max: 4096,
    // Whoever is on this machine shares its processors, and shows a credential if it is one of ours.
    loopback: Loopback::Counted,
};

/// How many of one source wait. A further one takes the place of that which waits for longest: each is memory that a stranger
/// has cost.
const WAITING_MAX: usize = 16;

/// Lets the handshakes of each source begin one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Pace(Arc<Mutex<Queue>>);

/// Too many of its source came after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overtaken;

#[derive(Debug)]
struct Queue {
    limiter: SourceLimiter,
    /// First come, first served. A source is here for as long as a task lets its handshakes begin.
    waiting: BTreeMap<Source, VecDeque<oneshot::Sender<()>>>,
    started: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self::with(LIMITS)
    }

    fn with(limits: SourceLimits) -> Self {
        let limiter = SourceLimiter::new(limits);
        Self(Arc::new(Mutex::new(Queue {
            limiter,
            waiting: BTreeMap::new(),
            started: Instant::now(),
        })))
    }

    /// Waits until a handshake of this source may begin. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If too many came after it.
    pub(crate) async fn wait(&self, source: Source) -> Result<(), Overtaken> {
        let begins = {
            let mut queue = self.lock();
            if !queue.waiting.contains_key(&source) {
                if queue.begins(source).is_none() {
                    return Ok(());
                }
                queue.waiting.insert(source, VecDeque::new());
                tokio::spawn(self.clone().serve(source));
            }
            let (begin, begins) = oneshot::channel();
            let its = queue.waiting.entry(source).or_default();
            if its.len() >= WAITING_MAX {
                its.pop_front();
            }
            its.push_back(begin);
            begins
        };
        begins.await.map_err(|_| Overtaken)
    }

    /// Lets the handshakes of a source begin, each at its time, until none waits.
    async fn serve(self, source: Source) {
        loop {
            let Some(wait) = self.lock().next(source) else { return };
            tokio::time::sleep(wait).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().expect("nothing panics while holding the queue")
    }
}

impl Queue {
    /// Lets a handshake of the source begin, or says how long it has to wait.
    fn begins(&mut self, source: Source) -> Option<Duration> {
        let now = self.started.elapsed();
        let wait = self.limiter.blocked_for(source, now);
        if wait.is_none() {
            self.limiter.charge(source, now);
        }
        wait
    }

    /// Lets all begin that may, and says when to look again; not at all once none waits, and then the source is forgotten.
    fn next(&mut self, source: Source) -> Option<Duration> {
        loop {
            let its = self.waiting.get_mut(&source)?;
            // Those that were ended meanwhile wait no longer.
            while its.front().is_some_and(oneshot::Sender::is_closed) {
                its.pop_front();
            }
            if its.is_empty() {
                self.waiting.remove(&source);
                return None;
            }
            if let Some(wait) = self.begins(source) {
                return Some(wait);
            }
            let begin = self.waiting.get_mut(&source).and_then(VecDeque::pop_front);
            // If it has just gone, its time is lost: an attacker's, most often.
            let _gone = begin.map(|begin| begin.send(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::task::JoinSet;

    use super::*;

    const BURST: u32 = 4;
    const EVERY: Duration = Duration::from_millis(50);

    fn source(host: u8) -> Source {
        Source::from(IpAddr::from([192, 0, 2, host]))
    }

    fn pace() -> Pace {
        Pace::with(SourceLimits { burst: BURST, forgiven_every: EVERY, ..LIMITS })
    }

    /// R-FAULT-3: however many handshakes a source begins, they are let begin at its pace, and another source waits for
    /// none of them.
    #[tokio::test(start_paused = true)]
    async fn a_source_has_a_pace_of_its_own() {
        let (pace, begun) = (pace(), Instant::now());
        let mut waiting = JoinSet::new();
        for _ in 0..20 {
            let pace = pace.clone();
            waiting.spawn(async move { pace.wait(source(1)).await });
        }
        tokio::time::sleep(EVERY * 2).await;
        pace.wait(source(2)).await.unwrap();
        assert_eq!(begun.elapsed(), EVERY * 2, "another source waits for nothing");
        assert!(waiting.join_all().await.iter().all(Result::is_ok));
        // One more than the burst begins at once.
        let paced = 20 - BURST - 1;
        assert!(begun.elapsed() >= EVERY * paced, "{:?}", begun.elapsed());
        assert!(begun.elapsed() <= EVERY * (paced + 2), "{:?}", begun.elapsed());
    }

    /// Law: those that were ended take no time of those that wait, and a source that has nobody waiting is forgotten.
    #[tokio::test(start_paused = true)]
    async fn those_that_were_ended_are_passed_over() {
        let pace = exhausted().await;
        let mut ended = JoinSet::new();
        for _ in 0..WAITING_MAX {
            let pace = pace.clone();
            ended.spawn(async move { pace.wait(source(1)).await });
        }
        tokio::task::yield_now().await;
        assert_eq!(pace.lock().waiting[&source(1)].len(), WAITING_MAX);
        ended.shutdown().await;
        let begun = Instant::now();
        pace.wait(source(1)).await.unwrap();
        assert!(begun.elapsed() <= EVERY * 2, "{:?}", begun.elapsed());
        tokio::time::sleep(EVERY * 2).await;
        assert!(pace.lock().waiting.is_empty());
    }

    /// R-FAULT-3: however many of one source come, few of them wait; those that wait for longest make room.
    #[tokio::test(start_paused = true)]
    async fn few_of_a_source_wait() {
        let pace = exhausted().await;
        let mut waiting = Vec::new();
        for _ in 0..3 * WAITING_MAX {
            let pace = pace.clone();
            waiting.push(tokio::spawn(async move { pace.wait(source(1)).await }));
            // It takes its place, and the one that makes room ends.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            assert!(unfinished(&waiting) <= WAITING_MAX);
        }
        let mut came_of_them = Vec::new();
        for one in waiting {
            came_of_them.push(one.await.unwrap());
        }
        let (overtaken, let_in) = came_of_them.split_at(2 * WAITING_MAX);
        assert!(overtaken.iter().all(|one| *one == Err(Overtaken)));
        assert!(let_in.iter().all(Result::is_ok));
    }

    fn unfinished(waiting: &[tokio::task::JoinHandle<Result<(), Overtaken>>]) -> usize {
        waiting.iter().filter(|one| !one.is_finished()).count()
    }

    /// One whose first source has to wait.
    async fn exhausted() -> Pace {
        let pace = pace();
        for _ in 0..=BURST {
            pace.wait(source(1)).await.unwrap();
        }
        pace
    }
}
