//! Simulated disks, an in-process network, and switches that break safety on purpose.
//!
//! Only for tests: behind the feature `testing`, which no shipped program turns on.

pub mod decoders;
mod disk;
mod journal;
mod log;
mod loopback;
mod random;
pub mod torture;

use std::sync::Arc;

pub use self::disk::SimDisk;
pub use self::journal::{Journal, Record};
pub use self::log::{SimLog, Syncing};
pub use self::loopback::Loopback;
pub use self::random::Random;

use crate::engine::LogEngine;
use crate::engine::queue::Driver;
use crate::error::OpenError;
use crate::machine::StateMachine;
use crate::network::Transport;
use crate::node::start::Storage;
use crate::node::{Options, Raft};
use crate::timing::LeaderRestore;
use crate::wire::History;

/// A safety property that is broken on purpose, to show that a test notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    None,
    /// A restarted node resumes its old term without an election.
    LeaderRestore,
    /// The same without comparing histories, so that the loss is not detected when it happens.
    LeaderRestoreUnnoticed,
}

/// The disk of one simulated node; it outlives the node's crashes.
#[derive(Debug, Clone)]
pub struct SimStorage {
    pub log: SimLog,
    pub files: SimDisk,
}

impl SimStorage {
    /// An empty disk whose latencies and torn writes derive from `seed`.
    pub fn new(seed: u64, syncing: Syncing) -> Self {
        Self { log: SimLog::new(seed, syncing), files: SimDisk::new(seed ^ 0x5eed) }
    }

    /// Loses unsynced data, as a power cut does: all of it, or all but a random prefix.
    pub fn crash(&self) {
        self.log.crash();
        self.files.crash();
    }
}

/// Opens a node on a simulated disk. All other code is the shipped one; blocking work runs on the
/// caller's task, because a simulated clock cannot wait for a thread.
///
/// # Errors
/// As [`Raft::open`].
pub async fn open<M: StateMachine>(
    options: Options,
    machine: M,
    transport: Arc<dyn Transport>,
    storage: &SimStorage,
    sabotage: Sabotage,
) -> Result<Raft<M>, OpenError> {
    let engine: Box<dyn LogEngine> = Box::new(storage.log.engine());
    let storage = Storage {
        engine,
        disk: Arc::new(storage.files.clone()),
        driver: Driver::Task,
        restore: match sabotage {
            Sabotage::None => LeaderRestore::Never,
            Sabotage::LeaderRestore | Sabotage::LeaderRestoreUnnoticed => LeaderRestore::Sabotage,
        },
        history: match sabotage {
            // Without syncs the loss of what was acknowledged is what is to be shown.
            _ if storage.log.syncing() == Syncing::Removed => History::Trusted,
            Sabotage::None | Sabotage::LeaderRestore => History::Compared,
            Sabotage::LeaderRestoreUnnoticed => History::Trusted,
        },
        log_id: String::new(),
        starts: 0,
        dir: None,
    };
    Raft::start(options, machine, transport, storage).await
}
