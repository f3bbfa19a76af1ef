//! openraft's test suite for storage, run on the production engine.

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft_rt::AsyncRuntime as _;
use tempfile::TempDir;

use std::sync::Arc;

use crate::disk::Directory;
use crate::engine::queue::Driver;
use crate::engine::sled::SledEngine;
use crate::log_store::LogStore;
use crate::machine::{MachineStore, Shared};
use crate::snapshot::SnapshotStore;
use crate::testing::Journal;
use crate::types::{Runtime, TypeConfig};

/// Every store of the suite has its own log. They share the snapshot directory, because the suite
/// passes snapshots between stores as if they were already transferred.
struct OnSled {
    snapshots: TempDir,
}

impl StoreBuilder<TypeConfig, LogStore, MachineStore<Journal>, TempDir> for OnSled {
    async fn build(
        &self,
    ) -> Result<(TempDir, LogStore, MachineStore<Journal>), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let engine = SledEngine::open(&dir.path().join("log")).unwrap();
        let log = LogStore::open(Box::new(engine), Driver::Thread).unwrap();
        let disk = Arc::new(Directory::open(self.snapshots.path()).unwrap());
        let snapshots = SnapshotStore::new(disk, "suite");
        let shared = Shared::new(Journal::default());
        let machine =
            MachineStore::open(shared, snapshots, None, log.clone(), Driver::Thread).unwrap();
        Ok((dir, log, machine))
    }
}

#[test]
fn store_passes_the_openraft_suite() {
    let mut runtime = Runtime::new(2);
    runtime.block_on(async {
        let builder = OnSled { snapshots: tempfile::tempdir().unwrap() };
        Suite::test_all(builder).await.unwrap();
    });
}
