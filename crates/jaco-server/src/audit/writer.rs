//! Writes evicted audit events to the archive in a thread of its own, so that `apply` does not wait for a disk.
//! All events that it was given must be on stable storage when [`Archived::wait`] returns.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{io, mem};

use jaco_state::audit::{Evicted, KEPT_EVENTS};
use rustix::process::setpriority_process;
use tracing::{error, warn};

/// How long events are collected into one write.
const BATCH_PERIOD: Duration = Duration::from_millis(500);
/// A batch of this size is written at once.
const BATCH_MAX: usize = KEPT_EVENTS / 2;
/// With more queued events than this [`ArchiveWriter::keep`] blocks, to bound memory.
const QUEUE_MAX: usize = KEPT_EVENTS;

/// The niceness of the thread. It works in bursts, on all nodes at once, which must not delay the writes that
/// users wait for.
const NICE: i32 = 10;

/// A thread that writes events in the order in which it gets them. Dropping it writes and syncs all of them.
#[derive(Debug)]
pub(crate) struct ArchiveWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Waits until evicted events are durable. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Archived(Arc<Shared>);

/// What the thread asks the archive to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work<'a> {
    /// Append these events.
    Write(&'a Evicted),
    /// Make all appended events durable.
    Sync,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Evicted,
    /// Number of events that were given so far, and how many of them are durable.
    given: u64,
    synced: u64,
    /// A caller waits for space in the queue.
    is_full: bool,
    /// A caller waits until this many events are durable.
    awaited: u64,
    /// No more events will be given.
    closed: bool,
    /// The thread has ended.
    ended: bool,
}

/// What the thread does next.
struct Batch {
    events: Evicted,
    sync_wanted: bool,
}

impl ArchiveWriter {
    /// Starts the thread, which calls `work`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(work: impl FnMut(Work<'_>) + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let works = Arc::clone(&shared);
        let thread = Builder::new().name("audit-archive".to_owned()).spawn(move || works.run(work));
        Ok(Self { shared, thread: Some(thread?) })
    }

    /// Queues evicted events. Blocks only while the queue is full.
    pub(crate) fn keep(&self, gone: Evicted) {
        let mut queue = self.shared.lock();
        while queue.waiting.len() >= QUEUE_MAX && !queue.ended {
            queue.is_full = true;
            queue = self.shared.until_changed(queue);
        }
        if queue.ended {
            error!(
                events = gone.len(),
                "audit archive writer has ended: dropped audit events on this node"
            );
            return;
        }
        let was_empty = queue.waiting.is_empty();
        queue.given += count(&gone);
        queue.waiting.extend(gone);
        // The thread that gathers a batch ends that by itself; one that is woken for each event is switched to.
        if was_empty || queue.waiting.len() >= BATCH_MAX {
            self.shared.changed.notify_all();
        }
    }

    /// A handle to wait for the events that were given so far.
    pub(crate) fn archived(&self) -> Archived {
        Archived(Arc::clone(&self.shared))
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        let joined = self.thread.take().map(JoinHandle::join);
        if let Some(Err(_)) = joined {
            error!("audit archive writer panicked: unwritten audit events are lost on this node");
        }
    }
}

impl Archived {
    /// Blocks until all events that were evicted before this call are durable, or the archive is known to be
    /// unwritable.
    pub fn wait(&self) {
        let mut queue = self.0.lock();
        let given = queue.given;
        while queue.synced < given && !queue.ended {
            queue.awaited = queue.awaited.max(given);
            queue = self.0.until_changed(queue);
        }
    }
}

impl Queue {
    fn sync_wanted(&self) -> bool {
        self.awaited > self.synced
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the other side and waits for a change.
    fn until_changed<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.notify_all();
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut work: impl FnMut(Work<'_>)) {
        let _ended = Ended(self);
        // On Linux this sets the priority of the calling thread only.
        if let Err(error) = setpriority_process(None, NICE) {
            warn!(%error, "could not lower the priority of the audit archive writer");
        }
        let mut taken = 0;
        while let Some(Batch { events, sync_wanted }) = self.gather() {
            if !events.is_empty() {
                work(Work::Write(&events));
            }
            taken += count(&events);
            if sync_wanted {
                work(Work::Sync);
                self.lock().synced = taken;
                self.changed.notify_all();
            }
        }
    }

    /// The next batch; `None` once the queue is closed and everything is durable.
    fn gather(&self) -> Option<Batch> {
        let is_idle =
            |queue: &mut Queue| queue.waiting.is_empty() && !queue.sync_wanted() && !queue.closed;
        let queue = self.changed.wait_while(self.lock(), is_idle);
        let queue = queue.unwrap_or_else(PoisonError::into_inner);
        let can_wait = |queue: &mut Queue| {
            let is_asked = queue.is_full || queue.sync_wanted() || queue.closed;
            !is_asked && queue.waiting.len() < BATCH_MAX
        };
        let gathered = self.changed.wait_timeout_while(queue, BATCH_PERIOD, can_wait);
        let (mut queue, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        queue.is_full = false;
        let is_last = queue.closed && queue.synced < queue.given;
        let sync_wanted = queue.sync_wanted() || is_last;
        let events = mem::take(&mut queue.waiting);
        // Wake callers that wait for space.
        self.changed.notify_all();
        (sync_wanted || !events.is_empty()).then_some(Batch { events, sync_wanted })
    }
}

/// Marks the thread as ended, also when it panics, so that nobody waits for it.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

fn count(gone: &Evicted) -> u64 {
    u64::try_from(gone.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
    use std::thread;

    use jaco_state::audit::{AuditEvent, AuditKey, AuditKind};
    use jaco_types::{Identity, StateIndex, Timestamp};

    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(20);

    fn events(indexes: std::ops::Range<u64>) -> Evicted {
        let event = Arc::new(AuditEvent {
            kind: AuditKind::NodeLabels,
            at: Timestamp(1),
            by: Identity::Scheduler,
            origin: None,
            request: None,
            payload: BTreeMap::new(),
            previous: None,
        });
        let key = |index| AuditKey { index: StateIndex(index), number: 0 };
        indexes.map(|index| (key(index), Arc::clone(&event))).collect()
    }

    /// What a disk did.
    #[derive(Debug, PartialEq, Eq)]
    enum Did {
        Wrote(usize),
        Synced,
    }

    /// A disk that does one piece of work for each permit and reports it.
    fn disk() -> (ArchiveWriter, Sender<()>, Receiver<Did>) {
        let (permit, permits) = mpsc::channel();
        let (does, done) = mpsc::channel();
        let writer = ArchiveWriter::start(move |work| {
            if permits.recv().is_ok() {
                let did = match work {
                    Work::Write(gone) => Did::Wrote(gone.len()),
                    Work::Sync => Did::Synced,
                };
                does.send(did).unwrap();
            }
        });
        (writer.unwrap(), permit, done)
    }

    /// R-CLI-5: `apply` does not wait for a hung disk until the queue is full.
    #[test]
    fn a_hung_disk_blocks_only_when_the_queue_is_full() {
        let (writer, permit, done_by_disk) = disk();
        let full = QUEUE_MAX as u64;
        writer.keep(events(0..1));
        thread::sleep(BATCH_PERIOD + SOON);
        writer.keep(events(1..full));
        writer.keep(events(full..full + 1));
        let (done, over) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                writer.keep(events(full + 1..full + 2));
                done.send(()).unwrap();
            });
            assert_eq!(over.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
            permit.send(()).unwrap();
            over.recv_timeout(LONG).unwrap();
            assert_eq!(done_by_disk.recv_timeout(LONG), Ok(Did::Wrote(1)));
        });
        drop(permit);
        drop(writer);
        assert_eq!(done_by_disk.recv(), Err(mpsc::RecvError), "no sync was asked for before");
    }

    /// R-CLI-5: nothing is synced without a request, because a sync delays those of the log.
    #[test]
    fn nothing_is_synced_without_a_request() {
        let (writer, permit, done) = disk();
        permit.send(()).unwrap();
        writer.keep(events(0..1));
        assert_eq!(done.recv_timeout(LONG), Ok(Did::Wrote(1)));
        permit.send(()).unwrap();
        assert_eq!(done.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
        writer.archived().wait();
        assert_eq!(done.recv_timeout(LONG), Ok(Did::Synced));
        writer.archived().wait();
        drop(writer);
        assert_eq!(done.recv(), Err(mpsc::RecvError), "it was synced already");
    }

    /// R-CLI-5: `Archived::wait` returns once all earlier events are durable.
    #[test]
    fn waiting_covers_all_earlier_events() {
        let (writer, permit, disk) = disk();
        writer.archived().wait();
        for n in 0..5 {
            writer.keep(events(n..n + 1));
        }
        let archived = writer.archived();
        let (done, over) = mpsc::channel();
        let waits = thread::spawn(move || {
            archived.wait();
            done.send(()).unwrap();
        });
        assert_eq!(over.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
        permit.send(()).unwrap();
        assert_eq!(disk.recv_timeout(LONG), Ok(Did::Wrote(5)));
        assert_eq!(over.recv_timeout(SOON), Err(RecvTimeoutError::Timeout), "it is not synced");
        permit.send(()).unwrap();
        over.recv_timeout(LONG).unwrap();
        assert_eq!(disk.recv(), Ok(Did::Synced));
        waits.join().unwrap();
    }

    /// R-CLI-5: a shutdown writes and syncs the queue, and later waits return at once.
    #[test]
    fn the_queue_is_written_at_shutdown() {
        let (writer, permit, disk) = disk();
        writer.keep(events(0..3));
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        let archived = writer.archived();
        drop(writer);
        assert_eq!(disk.iter().collect::<Vec<_>>(), [Did::Wrote(3), Did::Synced]);
        archived.wait();
    }

    /// R-CLI-5: a writer that panicked blocks neither `apply` nor a snapshot.
    #[test]
    fn a_dead_writer_blocks_nobody() {
        let writer = ArchiveWriter::start(|_| panic!("the disk is gone")).unwrap();
        writer.keep(events(0..1));
        writer.archived().wait();
        writer.keep(events(1..QUEUE_MAX as u64 + 2));
        writer.keep(events(0..1));
    }
}
