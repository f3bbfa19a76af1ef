//! Group commit: one owner drains a queue of operations, commits them as a group, then completes
//! them in order.
//!
//! Votes and log records share the queue, so they reach the disk in the order of submission; the
//! reverse order can lose a committed entry. Must never complete an operation before `commit` has
//! returned, and must never touch the engine after it has failed.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "testing")]
use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::{mpsc, oneshot};

use super::{LogEngine, Op, Reclaim};

/// Ops drained into one group.
const GROUP_OPS: usize = 1024;
/// Bytes drained into one group.
const GROUP_BYTES: usize = 8 << 20;
/// Operations that may wait. openraft limits its own in-flight entries; this only catches a stall.
const QUEUE_OPS: usize = 8192;
/// Under load, purged records are deleted once per so many groups.
const GROUPS_PER_RECLAIM: u32 = 16;

/// Groups between two committed marks: limits the extra replay after a restart.
const GROUPS_PER_MARK: u32 = 64;

/// Upper bounds of the buckets of commit times, in seconds: from a fast disk to one that makes elections.
const COMMIT_SECONDS: [f64; 12] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

/// Called once with the result, after the operation is durable.
pub(crate) type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

struct Request {
    op: Op,
    bytes: usize,
    done: Done,
}

enum Message {
    Request(Request),
    /// Commits earlier requests, then stops the owner.
    Stop(oneshot::Sender<io::Result<()>>),
}

/// Where the owner runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// An operating system thread, as a blocking disk needs.
    Thread,
    /// A task of the caller's runtime, as a simulated clock needs.
    #[cfg(feature = "testing")]
    Task,
}

/// The sending side. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LogQueue {
    sender: mpsc::Sender<Message>,
    /// The newest committed mark that the owner has not taken.
    newest_mark: Arc<Mutex<Option<Bytes>>>,
    failure: Arc<Mutex<Option<String>>>,
    times: Histogram,
}

impl LogQueue {
    /// Hands `engine` to its owner.
    pub(crate) fn start(engine: Box<dyn LogEngine>, driver: Driver) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE_OPS);
        let failure = Arc::new(Mutex::new(None));
        let newest_mark = Arc::default();
        let times = Histogram::new(COMMIT_SECONDS);
        let owner = Owner {
            engine,
            receiver,
            newest_mark: Arc::clone(&newest_mark),
            failure: Arc::clone(&failure),
            times: times.clone(),
            committed: None,
            groups: 0,
            unmarked: 0,
        };
        match driver {
            Driver::Thread => {
                std::thread::Builder::new()
                    .name("jaco-raft-log".to_owned())
                    .spawn(move || owner.run_blocking())?;
            }
            #[cfg(feature = "testing")]
            Driver::Task => drop(tokio::spawn(owner.run_simulated())),
        }
        Ok(Self { sender, newest_mark, failure, times })
    }

    /// Enqueues `op`; `done` is called when it is durable or has failed.
    pub(crate) async fn submit(&self, op: Op, done: Done) {
        let request = Request { bytes: size_of(&op), op, done };
        if let Err(unsent) = self.sender.send(Message::Request(request)).await
            && let Message::Request(Request { done, .. }) = unsent.0
        {
            done(Err(self.stopped()));
        }
    }

    /// Enqueues `op` and waits until it is durable.
    pub(crate) async fn commit(&self, op: Op) -> io::Result<()> {
        let (sender, receiver) = oneshot::channel();
        // The receiver is gone only if the caller was cancelled.
        let done = Box::new(move |result| drop(sender.send(result)));
        self.submit(op, done).await;
        receiver.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// Has the mark of what is committed written with a later group. What it covers must be queued. The owner is not woken:
    /// it would be after each entry, to write nothing.
    pub(crate) fn mark_committed(&self, mark: Bytes) -> io::Result<()> {
        if self.sender.is_closed() {
            return Err(self.stopped());
        }
        *lock(&self.newest_mark) = Some(mark);
        Ok(())
    }

    /// Commits queued operations and stops the owner; the engine is closed when this returns.
    pub(crate) async fn stop(&self) -> io::Result<()> {
        let (sender, receiver) = oneshot::channel();
        if self.sender.send(Message::Stop(sender)).await.is_err() {
            return self.failure().map_or(Ok(()), |reason| Err(io::Error::other(reason)));
        }
        receiver.await.unwrap_or(Ok(()))
    }

    /// How long groups took to become durable, in seconds; as they are counted.
    pub(crate) fn times(&self) -> Histogram {
        self.times.clone()
    }

    /// The first error of the engine, if it has failed.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    fn stopped(&self) -> io::Error {
        io::Error::other(self.failure().unwrap_or_else(|| "the log is closed".to_owned()))
    }
}

/// Whether the owner continues after a group.
enum Next {
    Continue,
    /// The engine has failed, or a stop was requested.
    Stop(Option<Stopping>),
}

/// Who waits for the engine to be closed, and the result of the last group.
struct Stopping {
    sender: oneshot::Sender<io::Result<()>>,
    result: io::Result<()>,
}

/// The one thread or task that may touch the engine.
struct Owner {
    engine: Box<dyn LogEngine>,
    receiver: mpsc::Receiver<Message>,
    newest_mark: Arc<Mutex<Option<Bytes>>>,
    failure: Arc<Mutex<Option<String>>>,
    times: Histogram,
    /// The newest committed mark that was not written yet, of entries that were. It is written with a later group: a
    /// stale mark costs a longer replay, and its own sync per commit would double the syncs.
    committed: Option<Bytes>,
    groups: u32,
    /// Groups since the committed mark was last written.
    unmarked: u32,
}

/// Requests that are committed together.
#[derive(Default)]
struct Group {
    ops: Vec<Op>,
    done: Vec<Done>,
    bytes: usize,
    stop: Option<oneshot::Sender<io::Result<()>>>,
}

impl Group {
    fn is_full(&self) -> bool {
        self.stop.is_some() || self.ops.len() >= GROUP_OPS || self.bytes >= GROUP_BYTES
    }
}

impl Owner {
    fn run_blocking(mut self) {
        let mut garbage = Reclaim::More;
        loop {
            let first = match (garbage, self.receiver.try_recv()) {
                (_, Ok(message)) => Some(message),
                (Reclaim::More, Err(mpsc::error::TryRecvError::Empty)) => {
                    match self.reclaim() {
                        Ok(next) => garbage = next,
                        Err(error) => return self.poison(&error),
                    }
                    continue;
                }
                (_, Err(_)) => self.receiver.blocking_recv(),
            };
            let group = self.collect(first);
            if group.ops.iter().any(|op| matches!(op, Op::Purge { .. })) {
                garbage = Reclaim::More;
            }
            if let Next::Stop(stopping) = self.finish(group) {
                return self.end(stopping);
            }
            self.groups = self.groups.wrapping_add(1);
            if garbage == Reclaim::More && self.groups.is_multiple_of(GROUPS_PER_RECLAIM) {
                match self.reclaim() {
                    Ok(next) => garbage = next,
                    Err(error) => return self.poison(&error),
                }
            }
        }
    }

    #[cfg(feature = "testing")]
    async fn run_simulated(mut self) {
        loop {
            let first = self.receiver.recv().await;
            let group = self.collect(first);
            let latency = self.engine.stage(&group.ops);
            if latency > Duration::ZERO {
                tokio::time::sleep(latency).await;
            }
            if let Next::Stop(stopping) = self.finish(group) {
                return self.end(stopping);
            }
        }
    }

    /// Drains the queue into a group, after the message that woke the owner.
    fn collect(&mut self, first: Option<Message>) -> Group {
        let mut group = Group::default();
        // Before the queue is drained: what the mark covers was queued before it was set.
        let newest_mark = lock(&self.newest_mark).take();
        match first {
            Some(first) => self.add(&mut group, first),
            // All handles are dropped: nobody waits, but acknowledged operations must stay.
            None => group.stop = Some(oneshot::channel().0),
        }
        while !group.is_full() {
            match self.receiver.try_recv() {
                Ok(message) => self.add(&mut group, message),
                Err(_) => break,
            }
        }
        match newest_mark {
            Some(mark) if self.receiver.is_empty() => self.committed = Some(mark),
            // It may cover what is left in the queue, unless there is a newer one.
            Some(mark) => {
                lock(&self.newest_mark).get_or_insert(mark);
            }
            None => {}
        }
        self.with_committed(group)
    }

    fn add(&mut self, group: &mut Group, message: Message) {
        match message {
            Message::Stop(sender) => group.stop = Some(sender),
            Message::Request(request) => {
                group.bytes += request.bytes;
                group.ops.push(request.op);
                group.done.push(request.done);
            }
        }
    }

    /// The committed mark only saves replay after a restart, and a stale one is harmless: it is
    /// written with some groups, and at the end. Writing it with every group took a third of a
    /// single client's commit latency.
    fn with_committed(&mut self, mut group: Group) -> Group {
        self.unmarked += 1;
        if group.stop.is_some() || self.unmarked >= GROUPS_PER_MARK {
            self.unmarked = 0;
            group.ops.extend(self.committed.take().map(Op::Committed));
        }
        group
    }

    /// Commits the group, then completes its operations in order.
    fn finish(&mut self, group: Group) -> Next {
        let result = self.commit(&group.ops);
        if let Err(error) = &result {
            self.record(error);
        }
        for done in group.done {
            done(copy(&result));
        }
        let failed = result.is_err();
        if let Some(sender) = group.stop {
            return Next::Stop(Some(Stopping { sender, result }));
        }
        if failed {
            self.fail_queued();
            return Next::Stop(None);
        }
        Next::Continue
    }

    /// A panic of the engine is handled as an I/O error: callers must get a result.
    fn commit(&mut self, ops: &[Op]) -> io::Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let committed = catch_unwind(AssertUnwindSafe(|| self.engine.commit(ops)))
            .unwrap_or_else(|_| Err(io::Error::other("the log engine panicked")));
        self.times.observe(begun.elapsed().as_secs_f64());
        committed
    }

    /// Closes the engine before completing the stop, because the next owner may be waiting for it.
    fn end(self, stopping: Option<Stopping>) {
        drop(self.engine);
        if let Some(Stopping { sender, result }) = stopping {
            drop(sender.send(result));
        }
    }

    fn reclaim(&mut self) -> io::Result<Reclaim> {
        catch_unwind(AssertUnwindSafe(|| self.engine.reclaim()))
            .unwrap_or_else(|_| Err(io::Error::other("the log engine panicked")))
    }

    fn poison(mut self, error: &io::Error) {
        self.record(error);
        self.fail_queued();
    }

    fn record(&self, error: &io::Error) {
        tracing::error!(%error, "log write failed, this node must stop");
        lock(&self.failure).get_or_insert_with(|| error.to_string());
    }

    /// Fails all queued requests; later senders find the queue closed.
    fn fail_queued(&mut self) {
        self.receiver.close();
        while let Ok(message) = self.receiver.try_recv() {
            match message {
                Message::Request(request) => {
                    (request.done)(Err(io::Error::other("the log has failed")));
                }
                Message::Stop(sender) => {
                    drop(sender.send(Err(io::Error::other("the log has failed"))));
                }
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `io::Error` cannot be cloned; its kind and text can.
fn copy(result: &io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

fn size_of(op: &Op) -> usize {
    match op {
        Op::Append(records) => records.iter().map(|(_, record)| record.len()).sum(),
        Op::TruncateFrom(_) => 0,
        Op::Purge { mark, .. } | Op::Vote(mark) | Op::Committed(mark) => mark.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::super::{LogReader, Recovered};
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Performs a group for each permit, and says which one.
    struct Slow {
        permits: Receiver<()>,
        groups: Sender<Vec<Op>>,
    }

    impl LogEngine for Slow {
        fn recovered(&self) -> Recovered {
            Recovered::default()
        }

        fn commit(&mut self, ops: &[Op]) -> io::Result<()> {
            self.groups.send(ops.to_vec()).expect("the test reads all of them");
            self.permits.recv().map_err(io::Error::other)
        }

        fn reader(&self) -> Arc<dyn LogReader> {
            unreachable!("nothing is read")
        }
    }

    fn slow() -> (LogQueue, Sender<()>, Receiver<Vec<Op>>) {
        let ((permit, permits), (groups, committed)) = (channel(), channel());
        let queue = LogQueue::start(Box::new(Slow { permits, groups }), Driver::Thread).unwrap();
        (queue, permit, committed)
    }

    fn entry(index: u64) -> Op {
        Op::Append(vec![(index, Bytes::from_static(b"entry"))])
    }

    async fn submit(queue: &LogQueue, op: Op) {
        queue.submit(op, Box::new(|result| result.unwrap())).await;
    }

    /// The marks in a group.
    fn marks(ops: &[Op]) -> Vec<Bytes> {
        let mark = |op: &Op| if let Op::Committed(mark) = op { Some(mark.clone()) } else { None };
        ops.iter().filter_map(mark).collect()
    }

    /// What is committed is no work of its own; the newest mark is written with the last of 64 groups, and at the end.
    #[tokio::test]
    async fn a_committed_mark_waits_for_a_group() {
        let (queue, permit, groups) = slow();
        queue.mark_committed(Bytes::from_static(b"first")).unwrap();
        assert!(groups.recv_timeout(Duration::from_millis(50)).is_err(), "nobody was woken");
        let mut written = Vec::new();
        for index in 1..=u64::from(GROUPS_PER_MARK) {
            queue.mark_committed(Bytes::from(index.to_string())).unwrap();
            submit(&queue, entry(index)).await;
            let group = groups.recv_timeout(LONG).unwrap();
            assert_eq!(group[0], entry(index));
            written.extend(marks(&group).into_iter().map(|mark| (index, mark)));
            permit.send(()).unwrap();
        }
        assert_eq!(written, [(64, Bytes::from_static(b"64"))]);
        queue.mark_committed(Bytes::from_static(b"last")).unwrap();
        permit.send(()).unwrap();
        queue.stop().await.unwrap();
        assert_eq!(marks(&groups.recv_timeout(LONG).unwrap()), [Bytes::from_static(b"last")]);
    }

    /// A mark never reaches the disk before an entry that it covers: not even where a group is full before that entry.
    #[tokio::test]
    async fn a_committed_mark_is_not_written_before_its_entries() {
        let (queue, permit, groups) = slow();
        for index in 1..u64::from(GROUPS_PER_MARK) - 1 {
            submit(&queue, entry(index)).await;
            groups.recv_timeout(LONG).unwrap();
            permit.send(()).unwrap();
        }
        // The disk is busy with the last group before the one that would have a mark.
        submit(&queue, entry(63)).await;
        groups.recv_timeout(LONG).unwrap();
        let many = u64::try_from(GROUP_OPS).unwrap();
        for index in 64..=64 + many {
            submit(&queue, entry(index)).await;
        }
        let mark = Bytes::from((64 + many).to_string());
        queue.mark_committed(mark.clone()).unwrap();
        permit.send(()).unwrap();
        let full = groups.recv_timeout(LONG).unwrap();
        assert_eq!((full.len(), marks(&full)), (GROUP_OPS, Vec::new()));
        permit.send(()).unwrap();
        let rest = groups.recv_timeout(LONG).unwrap();
        assert_eq!(rest, [entry(64 + many)]);
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        queue.stop().await.unwrap();
        assert_eq!(marks(&groups.recv_timeout(LONG).unwrap()), [mark]);
    }
}
