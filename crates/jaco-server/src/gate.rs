//! Bounds how much a node computes for requests at a time, and at what priority, so that consensus keeps its share of the
//! processors.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jaco_types::{ErrorCode, Rejection};
use prometheus_client::metrics::counter::Counter;
use rustix::process::nice;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How many requests may wait for one that computes. Each holds its message, of up to 4 MB.
const QUEUE: usize = 32;

/// How long one waits. An apply may wait twice, for its admission and its forecast, and one that was forwarded is given
/// up after 4 s.
const PATIENCE: Duration = Duration::from_millis(1500);

/// From when on others do not wait for a computation. Most take a few milliseconds, and the forecast of a large cluster a
/// second.
const LONG: Duration = Duration::from_millis(200);

/// How much later than the other threads of the daemon one that computes has its turn, in the units of nice(2): where both
/// want a processor, it gets a quarter of it.
const NICENESS: i32 = 5;

/// The sizes of a gate.
#[derive(Debug, Clone, Copy)]
pub struct GateOptions {
    /// How many requests compute at a time, without those that have become long.
    pub computing: usize,
    /// How many of those that have become long are not counted any more.
    pub long: usize,
    /// When one has become long.
    pub long_after: Duration,
    /// How many further ones wait.
    pub queue: usize,
    /// How long one waits.
    pub patience: Duration,
}

impl Default for GateOptions {
    /// Half of the processors for what is short, so that the other half is there for all that does not compute.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let half = (processors / 2).max(1);
        Self { computing: half, long: half, long_after: LONG, queue: QUEUE, patience: PATIENCE }
    }
}

/// Lets a bounded number of requests compute, each on a thread of its own.
#[derive(Debug)]
pub struct Gate {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    long: Arc<Semaphore>,
    long_after: Duration,
    patience: Duration,
    overloaded: Counter,
}

/// The turn of one request. It lasts until its computation has ended, even if nobody waits for it any more.
#[derive(Debug)]
pub struct Turn {
    turn: OwnedSemaphorePermit,
    long: Arc<Semaphore>,
    long_after: Duration,
    _place: OwnedSemaphorePermit,
}

impl Gate {
    /// A gate of these sizes.
    #[must_use]
    pub fn new(options: GateOptions) -> Self {
        let GateOptions { computing, long, long_after, queue, patience } = options;
        let places = computing.saturating_add(long).saturating_add(queue);
        Self {
            places: Arc::new(Semaphore::new(places)),
            turns: Arc::new(Semaphore::new(computing)),
            long: Arc::new(Semaphore::new(long)),
            long_after,
            patience,
            overloaded: Counter::default(),
        }
    }

    /// How many requests were refused so far.
    #[must_use]
    pub fn overloaded(&self) -> u64 {
        self.overloaded.get()
    }

    /// Waits for a turn. What is computed is best read after that, so that it is current.
    ///
    /// # Errors
    /// `overloaded` at once if too many wait, or after the patience.
    pub async fn turn(&self) -> Result<Turn, Rejection> {
        self.wait().await.ok_or_else(|| {
            self.overloaded.inc();
            overloaded()
        })
    }

    async fn wait(&self) -> Option<Turn> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let turn = Arc::clone(&self.turns).acquire_owned();
        let turn = tokio::time::timeout(self.patience, turn).await.ok()?.ok()?;
        let (long, long_after) = (Arc::clone(&self.long), self.long_after);
        Some(Turn { turn, long, long_after, _place: place })
    }
}

impl Turn {
    /// Computes on a thread that ends with it: one that was kept for the next request could not be given the priority of
    /// the others again, and would keep the memory that it has worked with.
    ///
    /// # Errors
    /// `overloaded` if the system starts no further thread, `internal` if the computation panicked.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let Self { turn, long, long_after, _place: place } = self;
        let (answer, answered) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let compute = move || {
            // Any thread may lower its own priority.
            let _lowered = nice(NICENESS);
            let done = jaco_heap::computing(work);
            drop((end, place));
            // Nobody may wait for it any more.
            drop(answer.send(done));
        };
        let started = thread::Builder::new().name("compute".to_owned()).spawn(compute);
        started.map_err(|error| {
            let message = format!(
                "this node cannot start a thread for the request ({error}): ask again in a moment"
            );
            Rejection::new(ErrorCode::Overloaded, message)
        })?;
        tokio::spawn(hold(turn, long, long_after, ended));
        let panicked = "the computation of the answer panicked: the log of this node says where";
        answered.await.map_err(|_| Rejection::new(ErrorCode::Internal, panicked))
    }
}

/// Holds the turn of a computation until it has ended, or one of the long ones once it has become long.
async fn hold(
    turn: OwnedSemaphorePermit,
    long: Arc<Semaphore>,
    long_after: Duration,
    mut ended: oneshot::Receiver<()>,
) {
    if tokio::time::timeout(long_after, &mut ended).await.is_ok() {
        return;
    }
    let _turn = tokio::select! {
        _ = &mut ended => return,
        long = long.acquire_owned() => {
            drop(turn);
            long
        }
    };
    let _ended = ended.await;
}

fn overloaded() -> Rejection {
    let message = "this node computes the answers of as many requests as it may: ask again in a second, with fewer \
                   requests at a time";
    Rejection::new(ErrorCode::Overloaded, message)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt;

    use super::*;

    const LONG_TIME: Duration = Duration::from_secs(3600);

    fn gate(patience: Duration) -> Gate {
        let long_after = LONG_TIME;
        Gate::new(GateOptions { computing: 2, long: 0, long_after, queue: 1, patience })
    }

    /// Occupies both turns until the returned senders are dropped.
    async fn occupied(gate: &Gate) -> Vec<mpsc::Sender<()>> {
        let mut held = Vec::new();
        for _ in 0..2 {
            let (release, released) = mpsc::channel::<()>();
            let turn = gate.turn().await.unwrap();
            tokio::spawn(turn.run(move || released.recv()));
            held.push(release);
        }
        held
    }

    /// What computes does not occupy the only async worker, and one more than may wait is refused at once.
    #[tokio::test]
    async fn slow_requests_leave_the_workers_free_and_one_too_many_is_refused() {
        let gate = Arc::new(gate(LONG_TIME));
        let held = occupied(&gate).await;
        let mut waiting = Box::pin(gate.turn());
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits for a turn");
        assert_eq!(gate.turn().await.unwrap_err().code, ErrorCode::Overloaded);
        drop(held);
        assert_eq!(waiting.await.unwrap().run(|| 7).await.unwrap(), 7);
        let again = gate.turn().await.unwrap();
        assert_eq!(again.run(|| 8).await.unwrap(), 8, "the places are free again");
    }

    /// A long computation is not waited for, nor are so many at a time that they take all processors.
    #[tokio::test]
    async fn a_long_computation_lets_the_next_begin() {
        let long_after = Duration::from_millis(1);
        let gate = Gate::new(GateOptions {
            computing: 1,
            long: 1,
            long_after,
            queue: 9,
            patience: LONG_TIME,
        });
        let (release, released) = mpsc::channel::<()>();
        let first = tokio::spawn(gate.turn().await.unwrap().run(move || released.recv()));
        let (release_second, released) = mpsc::channel::<()>();
        let second = tokio::spawn(gate.turn().await.unwrap().run(move || released.recv()));
        tokio::time::sleep(20 * long_after).await;
        let mut third = Box::pin(gate.turn());
        assert!(third.as_mut().now_or_never().is_none(), "two are computed already");
        drop(release);
        assert_eq!(third.await.unwrap().run(|| 3).await.unwrap(), 3);
        drop(release_second);
        for done in [first, second] {
            done.await.unwrap().unwrap().unwrap_err();
        }
        assert_eq!(gate.turn().await.unwrap().run(|| 4).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused() {
        let gate = gate(Duration::from_millis(1));
        let _held = occupied(&gate).await;
        assert_eq!(gate.turn().await.unwrap_err().code, ErrorCode::Overloaded);
    }

    /// A caller who hangs up does not make room: else a flood of aborted requests computes without a limit.
    #[tokio::test]
    async fn an_abandoned_computation_keeps_its_turn() {
        let gate = gate(LONG_TIME);
        let (release, released) = mpsc::channel::<()>();
        let mut run = Box::pin(gate.turn().await.unwrap().run(move || released.recv()));
        assert!(run.as_mut().now_or_never().is_none());
        drop(run);
        assert_eq!(gate.turns.available_permits(), 1, "it still computes");
        let _other = gate.turn().await.unwrap();
        let mut waiting = Box::pin(gate.turn());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(gate.places.available_permits(), 0);
        drop(waiting);
        assert_eq!(gate.places.available_permits(), 1, "who left the queue made room in it");
        drop(release);
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_gives_the_turn_back() {
        let gate = gate(LONG_TIME);
        for _ in 0..5 {
            let turn = gate.turn().await.unwrap();
            let failed = turn.run(|| assert_eq!(1, 2, "as planned")).await;
            assert_eq!(failed.unwrap_err().code, ErrorCode::Internal);
        }
    }
}
