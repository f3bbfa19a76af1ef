//! Turns at computing: handshakes cost far more of the processor than anything else that a stranger can ask for, so few of
//! them compute at a time, with rests, and sources take turns. Requests of those who have been let in find the processor free.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::limiter::Source;

/// A number of turns that sources share.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<Queue>>);

/// The shortest rest: timers are no finer.
const REST_MIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Queue {
    free: usize,
    /// How many times as long as it has computed a turn rests.
    rests: u32,
    /// Rests that are still to be taken.
    owed: Duration,
    /// Whose turn was last.
    last: Option<Source>,
    /// No empty ones; first come, first served.
    waiting: BTreeMap<Source, VecDeque<oneshot::Sender<Turn>>>,
}

/// Permission to compute. Dropping it forwards it.
#[derive(Debug)]
struct Turn(Turns);

impl Turns {
    /// So many at a time, each of which rests for so many times as long as it has computed.
    pub(crate) fn new(at_a_time: usize, rests: u32) -> Self {
        Self(Arc::new(Mutex::new(Queue {
            free: at_a_time.max(1),
            rests,
            owed: Duration::ZERO,
            last: None,
            waiting: BTreeMap::new(),
        })))
    }

    /// Drives `work` of a source to its end, waiting for a turn before each step. No turn is held while it waits for
    /// anything else.
    pub(crate) async fn drive<F: Future>(&self, source: Source, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            let turn = self.take(source).await;
            let begun = Instant::now();
            let step = poll_fn(|task| Poll::Ready(work.as_mut().poll(task))).await;
            turn.end(begun.elapsed());
            if let Poll::Ready(done) = step {
                return done;
            }
            woken().await;
        }
    }

    async fn take(&self, source: Source) -> Turn {
        let turn = {
            let mut queue = self.lock();
            if queue.free > 0 {
                queue.free -= 1;
                queue.last = Some(source);
                return Turn(self.clone());
            }
            let (pass, turn) = oneshot::channel();
            queue.waiting.entry(source).or_default().push_back(pass);
            turn
        };
        turn.await.expect("a turn is forwarded for as long as there are turns")
    }

    fn forward(&self) {
        let next = {
            let mut queue = self.lock();
            let next = queue.next();
            queue.free += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // If it has just gone, the turn comes back, and is forwarded as it is dropped.
            drop(next.send(Turn(self.clone())));
        }
    }

    /// How many are not taken.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.lock().free
    }

    /// The rest that is due after so much was computed: none before it is long enough.
    fn rest(&self, computed: Duration) -> Duration {
        let mut queue = self.lock();
        let rests = queue.rests;
        queue.owed += computed * rests;
        if queue.owed < REST_MIN { Duration::ZERO } else { std::mem::take(&mut queue.owed) }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().expect("nothing panics while holding the queue")
    }
}

impl Queue {
    /// The one that waits for longest of the source after that of the last turn.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        loop {
            let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
            let (&source, _) = (self.waiting.range((after, Bound::Unbounded)).next())
                .or_else(|| self.waiting.first_key_value())?;
            self.last = Some(source);
            let its = self.waiting.get_mut(&source)?;
            let next = its.pop_front();
            if its.is_empty() {
                self.waiting.remove(&source);
            }
            // Those that were ended meanwhile wait no longer.
            if let Some(next) = next.filter(|next| !next.is_closed()) {
                return Some(next);
            }
        }
    }
}

impl Turn {
    /// Ends it, after its rest if one is due.
    fn end(self, computed: Duration) {
        let rest = self.0.rest(computed);
        if rest > Duration::ZERO {
            tokio::spawn(async move {
                tokio::time::sleep(rest).await;
                drop(self);
            });
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.forward();
    }
}

/// Waits until the task is woken, by whatever its last step waits for.
async fn woken() {
    let mut is_idle = true;
    poll_fn(|_| if std::mem::take(&mut is_idle) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::{JoinSet, yield_now};

    use super::*;

    fn source(host: u8) -> Source {
        Source::from(IpAddr::from([192, 0, 2, host]))
    }

    /// R-FAULT-3: the work of one source waits for one step of each other source, not for all that they have.
    #[tokio::test]
    async fn sources_take_turns() {
        let turns = Turns::new(1, 0);
        let held = turns.take(source(0)).await;
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut working = JoinSet::new();
        for host in [1, 1, 1, 1, 2, 2, 9] {
            let (turns, done) = (turns.clone(), Arc::clone(&done));
            working.spawn(async move {
                let work = async { done.lock().expect("no panic").push(host) };
                turns.drive(source(host), work).await;
            });
            yield_now().await;
        }
        drop(held);
        working.join_all().await;
        assert_eq!(*done.lock().unwrap(), [1, 2, 9, 1, 2, 1, 1]);
    }

    /// Law: no more steps at a time than there are turns; work that is given up takes no turn with it, and all the rest
    /// comes to its end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn turns_are_bounded_and_never_lost() {
        const AT_A_TIME: usize = 2;
        let turns = Turns::new(AT_A_TIME, 1);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut working = JoinSet::new();
        for number in 0..200_u8 {
            let (turns, running, most) = (turns.clone(), Arc::clone(&running), Arc::clone(&most));
            working.spawn(async move {
                let mut steps = 0;
                let work = poll_fn(move |task| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_micros(50));
                    running.fetch_sub(1, Ordering::SeqCst);
                    steps += 1;
                    task.waker().wake_by_ref();
                    if steps < 5 { Poll::Pending } else { Poll::Ready(()) }
                });
                let driven = turns.drive(source(number % 7), work);
                // A third of them is given up on the way.
                let patience = Duration::from_millis(if number % 3 == 0 { 5 } else { 60_000 });
                tokio::time::timeout(patience, driven).await.is_ok()
            });
        }
        let done = working.join_all().await.into_iter().filter(|done| *done).count();
        assert!(done >= 133, "{done}");
        assert!(most.load(Ordering::SeqCst) <= AT_A_TIME);
        // The last ones rest.
        while turns.free() < AT_A_TIME {
            tokio::time::sleep(REST_MIN).await;
        }
    }

    /// R-FAULT-3: whatever strangers have to compute, it is done in a part of the time.
    #[tokio::test]
    async fn turns_rest_as_they_have_computed() {
        const STEP: Duration = Duration::from_millis(2);
        let (turns, begun) = (Turns::new(1, 3), Instant::now());
        for host in 0..20 {
            turns.drive(source(host), async { std::thread::sleep(STEP) }).await;
        }
        assert!(begun.elapsed() >= STEP * (20 + 19 * 3), "{:?}", begun.elapsed());
    }
}
