//! The state machine interface, and the adapter that openraft drives.
//!
//! Must never let an entry be skipped: what cannot be applied stops the node.

use std::error::Error;
use std::io::{self, Read};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use bytes::Bytes;
use futures::{Stream, TryStreamExt as _};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{OptionalSend, Snapshot};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;

use crate::codec::{GENESIS, UNKNOWN, invalid};
use crate::engine::queue::Driver;
use crate::log_store::{LogStore, run_blocking};
use crate::snapshot::{SnapshotFile, SnapshotSource, SnapshotStore};
use crate::types::{EntryPayload, LogId, SnapshotMeta, StoredMembership, TypeConfig};

/// The replicated state machine. A pure function of (index, payload) pairs in order: no clock, no
/// randomness, no hash-map order. Two machines with the same prefix write equal snapshots.
pub trait StateMachine: Send + Sync + 'static {
    /// Applies the command at `index`; the result goes to the proposer.
    ///
    /// # Errors
    /// Only if the command cannot be decoded, because a newer version wrote it or it is damaged.
    /// The node then stops: skipping would fork the state. A rejected command is an outcome, not an
    /// error.
    fn apply(&mut self, index: u64, payload: &[u8]) -> Result<Bytes, Box<dyn Error + Send + Sync>>;

    /// Notes that everything up to `index` is applied; called for entries that hold no command.
    fn advance(&mut self, index: u64);

    /// Returns the current state, to be serialised later. Called under the lock, so it must be
    /// cheap.
    fn snapshot(&self) -> Box<dyn SnapshotSource>;

    /// Replaces the state by one written by `SnapshotSource::write`.
    ///
    /// # Errors
    /// If the bytes are not a valid state. The node then stops, so a partially replaced state is
    /// never read.
    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()>;
}

/// The machine and its last applied entry.
struct Applied<M> {
    machine: M,
    last: Option<LogId>,
    membership: StoredMembership,
}

/// Read access to the machine. Cheap to clone.
pub(crate) struct Shared<M> {
    applied: Arc<RwLock<Applied<M>>>,
    index: watch::Sender<u64>,
}

impl<M> Clone for Shared<M> {
    fn clone(&self) -> Self {
        Self { applied: Arc::clone(&self.applied), index: self.index.clone() }
    }
}

impl<M: StateMachine> Shared<M> {
    pub(crate) fn new(machine: M) -> Self {
        let applied = Applied { machine, last: None, membership: StoredMembership::default() };
        Self { applied: Arc::new(RwLock::new(applied)), index: watch::Sender::new(0) }
    }

    /// Runs `read` on the state, under a lock that blocks `apply`: keep it short.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        read(&self.lock_read().machine)
    }

    pub(crate) fn watch_applied(&self) -> watch::Receiver<u64> {
        self.index.subscribe()
    }

    fn lock_read(&self) -> RwLockReadGuard<'_, Applied<M>> {
        // A machine that panicked while applying has already stopped the node.
        self.applied.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_write(&self) -> RwLockWriteGuard<'_, Applied<M>> {
        self.applied.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the machine for an entry. A reader may be a thread of lower priority that gets no
    /// processor for as long as a heartbeat may take, so it is waited for beside other tasks.
    fn lock_for_entry(&self) -> RwLockWriteGuard<'_, Applied<M>> {
        for _ in 0..TURNS_FOR_A_SHORT_READ {
            match self.applied.try_write() {
                Ok(applied) => return applied,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        beside_others(|| self.lock_write())
    }

    fn publish(&self, last: Option<&LogId>) {
        if let Some(last) = last {
            self.index.send_replace(last.index);
        }
    }
}

/// openraft's state machine, backed by ours.
pub(crate) struct MachineStore<M> {
    shared: Shared<M>,
    snapshots: SnapshotStore,
    current: Arc<std::sync::Mutex<Option<SnapshotFile>>>,
    log: LogStore,
    driver: Driver,
}

impl<M: StateMachine> MachineStore<M> {
    /// Restores the newest valid snapshot, if there is one.
    pub(crate) fn open(
        shared: Shared<M>,
        snapshots: SnapshotStore,
        newest: Option<SnapshotFile>,
        log: LogStore,
        driver: Driver,
    ) -> io::Result<Self> {
        if let Some(file) = &newest {
            restore(&shared, &snapshots, file)?;
        }
        let current = Arc::new(std::sync::Mutex::new(newest));
        Ok(Self { shared, snapshots, current, log, driver })
    }
}

/// How often a lock is tried before others are allowed to go on, which takes two threads that change
/// places: about as long as a read takes that looks up one thing.
const TURNS_FOR_A_SHORT_READ: usize = 100;

/// From this length on an entry may take longer than a heartbeat waits for.
const LARGE_ENTRY_BYTES: usize = 64 << 10;

/// Does what takes long while other tasks of its runtime go on: those that this thread would have run next get another one.
fn beside_others<T>(work: impl FnOnce() -> T) -> T {
    // A runtime of one thread, as that of the simulation, has no other.
    let has_others =
        Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_others { tokio::task::block_in_place(work) } else { work() }
}

fn restore<M: StateMachine>(
    shared: &Shared<M>,
    snapshots: &SnapshotStore,
    file: &SnapshotFile,
) -> io::Result<()> {
    let meta = file.meta()?;
    let mut applied = shared.lock_write();
    snapshots.restore_from(file, |state| applied.machine.restore(state))?;
    applied.last = meta.last_log_id;
    applied.membership = meta.last_membership;
    shared.publish(applied.last.as_ref());
    Ok(())
}

impl<M: StateMachine> RaftStateMachine<TypeConfig> for MachineStore<M> {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = self.shared.lock_read();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut last = None;
        while let Some((entry, responder)) = entries.try_next().await? {
            let outcome = {
                let mut applied = self.shared.lock_for_entry();
                let index = entry.log_id.index;
                let outcome = match entry.payload {
                    EntryPayload::Normal(payload) => {
                        let mut apply = || applied.machine.apply(index, &payload.0);
                        let is_large = payload.0.len() >= LARGE_ENTRY_BYTES;
                        let outcome = if is_large { beside_others(apply) } else { apply() };
                        outcome
                            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
                    }
                    EntryPayload::Blank => {
                        applied.machine.advance(index);
                        Bytes::new()
                    }
                    EntryPayload::Membership(membership) => {
                        applied.machine.advance(index);
                        applied.membership = StoredMembership::new(Some(entry.log_id), membership);
                        Bytes::new()
                    }
                };
                applied.last = Some(entry.log_id);
                outcome
            };
            last = Some(entry.log_id);
            if let Some(responder) = responder {
                // A proposer may read its own write as soon as it has its answer, so the index is
                // published first.
                self.shared.publish(last.as_ref());
                responder.send(outcome);
            }
        }
        self.shared.publish(last.as_ref());
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        let applied = self.shared.lock_read();
        Builder {
            last: applied.last,
            membership: applied.membership.clone(),
            chain: applied.last.map_or(GENESIS, |last| self.log.chain_at(&last).unwrap_or(UNKNOWN)),
            source: std::sync::Mutex::new(Some(applied.machine.snapshot())),
            snapshots: self.snapshots.clone(),
            current: Arc::clone(&self.current),
            driver: self.driver,
        }
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta,
        snapshot: SnapshotFile,
    ) -> io::Result<()> {
        let (shared, snapshots, file) =
            (self.shared.clone(), self.snapshots.clone(), snapshot.clone());
        run_blocking(self.driver, move || restore(&shared, &snapshots, &file)).await?;
        let last = snapshot.last().map(|last| last.index);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
        tracing::info!(raft_index = last, "snapshot installed");
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        current.map(snapshot_of).transpose()
    }
}

pub(crate) fn snapshot_of(
    file: SnapshotFile,
) -> io::Result<openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>> {
    Ok(Snapshot { meta: file.meta()?, snapshot: file })
}

/// A state captured under the lock and written outside it.
pub(crate) struct Builder {
    last: Option<LogId>,
    membership: StoredMembership,
    chain: u64,
    /// `None` once built. The mutex is never contended; it makes the builder `Sync` without
    /// requiring that of every source.
    source: std::sync::Mutex<Option<Box<dyn SnapshotSource>>>,
    snapshots: SnapshotStore,
    current: Arc<std::sync::Mutex<Option<SnapshotFile>>>,
    driver: Driver,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(
        &mut self,
    ) -> io::Result<openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>> {
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let source = source.ok_or_else(|| invalid("built twice".to_owned()))?;
        let (last, chain) = (self.last, self.chain);
        let (snapshots, membership) = (self.snapshots.clone(), self.membership.clone());
        let build = move || snapshots.build(last, &membership, chain, source);
        let file = run_blocking(self.driver, build).await?;
        tracing::info!(raft_index = last.map(|last| last.index), "snapshot created");
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // An install may have overtaken the build.
        if current.as_ref().is_none_or(|known| known.last() < last) {
            *current = Some(file.clone());
        }
        drop(current);
        snapshot_of(file)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    struct Nothing;

    impl StateMachine for Nothing {
        fn apply(
            &mut self,
            _index: u64,
            _payload: &[u8],
        ) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
            Ok(Bytes::new())
        }

        fn advance(&mut self, _index: u64) {}

        fn snapshot(&self) -> Box<dyn SnapshotSource> {
            unreachable!("nobody asks for it")
        }

        fn restore(&mut self, _state: &mut dyn Read) -> io::Result<()> {
            Ok(())
        }
    }

    /// A reader that gets no processor holds the lock; what else runs on raft's one thread is heard
    /// meanwhile, as a heartbeat must be.
    #[test]
    fn an_entry_waits_for_a_reader_beside_other_tasks() {
        let shared = Shared::new(Nothing);
        let (is_read, reads) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let reader = std::thread::spawn({
            let shared = shared.clone();
            move || {
                shared.read(|_| {
                    is_read.send(()).expect("the test waits for it");
                    released.recv().expect("the test lets go");
                });
            }
        });
        reads.recv().expect("the reader reads");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .expect("a runtime");
        let (begun, begins) = mpsc::channel();
        let entry = runtime.spawn(async move {
            begun.send(()).expect("the test waits for it");
            shared.lock_for_entry().last = None;
        });
        begins.recv().expect("the entry is on the one thread");
        let (beat, beats) = mpsc::channel();
        runtime.spawn(async move { beat.send(()) });
        let heard = beats.recv_timeout(Duration::from_secs(20));
        assert!(!entry.is_finished(), "the reader still reads");
        release.send(()).expect("the reader waits for it");
        runtime.block_on(entry).expect("the entry is applied");
        reader.join().expect("the reader ended");
        assert_eq!(heard, Ok(()));
    }
}
