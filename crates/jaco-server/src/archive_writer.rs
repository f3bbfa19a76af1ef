//! Takes audit events to their files behind `apply`'s back, so that no entry waits for a disk. Must have
//! all that it was given on stable storage when somebody asks for that ([`Archived::wait`]).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{io, mem};

use jaco_state::audit::{KEPT_EVENTS, LetGo};
use rustix::process::setpriority_process;
use tracing::{error, warn};

/// How long events are gathered before they are written together.
const GATHERED_FOR: Duration = Duration::from_millis(500);
/// So many are written at once, however short they waited.
const GATHERED_MAX: usize = KEPT_EVENTS / 2;
/// Whoever brings more waits for the disk: memory has an end.
const WAITING_MAX: usize = KEPT_EVENTS;

/// How much it steps back for others, as `nice` counts: what it has to do for half a second of writes comes
/// all at once, on all nodes, and whoever waits for a write must not wait for that.
const NICE: i32 = 10;

/// A thread that writes what it is given, in that order. When it is dropped, all of it is on stable
/// storage.
#[derive(Debug)]
pub(crate) struct ArchiveWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What somebody waits for who needs the files to be whole.
#[derive(Debug, Clone)]
pub struct Archived(Arc<Shared>);

/// What there is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work<'a> {
    /// These go to the files, after those of before.
    Write(&'a LetGo),
    /// All that was written has to survive a power cut.
    Sync,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: LetGo,
    /// Events ever given, and how many of them are on stable storage.
    given: u64,
    synced: u64,
    /// Somebody waits for room.
    is_full: bool,
    /// Somebody waits until so many of them are.
    awaited: u64,
    /// Nothing more is given.
    closed: bool,
    /// The thread has ended: nothing is written any more.
    ended: bool,
}

/// What the thread does next.
struct Gathered {
    events: LetGo,
    sync_wanted: bool,
}

impl ArchiveWriter {
    /// Starts the thread, which has `work` do what there is to do.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(work: impl FnMut(Work<'_>) + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let works = Arc::clone(&shared);
        let thread = Builder::new().name("audit-archive".to_owned()).spawn(move || works.run(work));
        Ok(Self { shared, thread: Some(thread?) })
    }

    /// Takes these over. Waits only if [`WAITING_MAX`] events have not been written yet.
    pub(crate) fn keep(&self, gone: LetGo) {
        let mut queue = self.shared.lock();
        while queue.waiting.len() >= WAITING_MAX && !queue.ended {
            queue.is_full = true;
            queue = self.shared.until_changed(queue);
        }
        if queue.ended {
            error!(
                events = gone.len(),
                "audit events are lost to this node's archive: its writer died"
            );
            return;
        }
        queue.given += count(&gone);
        queue.waiting.extend(gone);
        self.shared.changed.notify_all();
    }

    /// For somebody who has to wait for what was given up to now and later.
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
            error!(
                "the writer of the audit archive died; what it had not written is lost to this node"
            );
        }
    }
}

impl Archived {
    /// Blocks until all that was let go of before this call is on stable storage, or is known to wait
    /// for a disk that cannot be written.
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

    /// Says that something is wanted, and waits until something has changed.
    fn until_changed<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.notify_all();
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut work: impl FnMut(Work<'_>)) {
        let _ended = Ended(self);
        // Of this thread alone, as Linux takes it.
        if let Err(error) = setpriority_process(None, NICE) {
            warn!(%error, "the writer of the audit archive does not step back for others");
        }
        let mut taken = 0;
        while let Some(Gathered { events, sync_wanted }) = self.gather() {
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

    /// What is to be done next; nothing when no more will come and all of it is on stable storage.
    fn gather(&self) -> Option<Gathered> {
        let rests =
            |queue: &mut Queue| queue.waiting.is_empty() && !queue.sync_wanted() && !queue.closed;
        let queue = self.changed.wait_while(self.lock(), rests);
        let queue = queue.unwrap_or_else(PoisonError::into_inner);
        let can_wait = |queue: &mut Queue| {
            let is_asked = queue.is_full || queue.sync_wanted() || queue.closed;
            !is_asked && queue.waiting.len() < GATHERED_MAX
        };
        let gathered = self.changed.wait_timeout_while(queue, GATHERED_FOR, can_wait);
        let (mut queue, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        queue.is_full = false;
        let is_last = queue.closed && queue.synced < queue.given;
        let sync_wanted = queue.sync_wanted() || is_last;
        let events = mem::take(&mut queue.waiting);
        // There is room again.
        self.changed.notify_all();
        (sync_wanted || !events.is_empty()).then_some(Gathered { events, sync_wanted })
    }
}

/// Says that the thread has ended, also when it panics: nobody may wait for it then.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

fn count(gone: &LetGo) -> u64 {
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

    fn events(indexes: std::ops::Range<u64>) -> LetGo {
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

    /// A disk that does one thing for each permit, and says what.
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

    /// R-CLI-5: an entry does not wait for the disk, until there is too much in memory.
    #[test]
    fn a_disk_that_hangs_holds_up_nobody_until_memory_is_full() {
        let (writer, permit, done_by_disk) = disk();
        let full = WAITING_MAX as u64;
        writer.keep(events(0..1));
        thread::sleep(GATHERED_FOR + SOON);
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

    /// R-CLI-5: what is written is not synced until somebody asks: a sync holds up those of the log.
    #[test]
    fn nothing_is_synced_unasked() {
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

    /// R-CLI-5: who needs the files to be whole waits for all that was given before.
    #[test]
    fn who_waits_for_the_files_has_all_that_went_before() {
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

    /// R-CLI-5: a daemon that ends writes what waits; nobody waits for one that has ended.
    #[test]
    fn what_waits_is_written_at_the_end() {
        let (writer, permit, disk) = disk();
        writer.keep(events(0..3));
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        let archived = writer.archived();
        drop(writer);
        assert_eq!(disk.iter().collect::<Vec<_>>(), [Did::Wrote(3), Did::Synced]);
        archived.wait();
    }

    /// R-CLI-5: a writer that has died hangs neither an entry nor a snapshot.
    #[test]
    fn nobody_waits_for_a_writer_that_died() {
        let writer = ArchiveWriter::start(|_| panic!("the disk is gone")).unwrap();
        writer.keep(events(0..1));
        writer.archived().wait();
        writer.keep(events(1..WAITING_MAX as u64 + 2));
        writer.keep(events(0..1));
    }
}
