//! A cluster of nodes in one process, on real directories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use jaco_raft::testing::{Journal, Loopback};
use jaco_raft::{Options, ProposeError, Raft, Reconciler, SnapshotLimits, Status, Timing};
use tempfile::TempDir;

/// Far above what anything here should take, so that it only ends what hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Cluster {
    pub(crate) network: Loopback<Journal>,
    pub(crate) nodes: BTreeMap<u64, Raft<Journal>>,
    dirs: BTreeMap<u64, TempDir>,
    snapshots: SnapshotLimits,
    timing: Timing,
    /// Those of nodes that were moved; the others say nothing of theirs.
    addresses: BTreeMap<u64, String>,
}

impl Cluster {
    pub(crate) fn new(snapshots: SnapshotLimits) -> Self {
        Self {
            network: Loopback::default(),
            nodes: BTreeMap::new(),
            dirs: BTreeMap::new(),
            snapshots,
            timing: Timing::default(),
            addresses: BTreeMap::new(),
        }
    }

    /// Three voters, led by node 1.
    pub(crate) async fn of_three() -> Self {
        Self::of_three_with(SnapshotLimits::default()).await
    }

    pub(crate) async fn of_three_with(snapshots: SnapshotLimits) -> Self {
        Self::new(snapshots).started().await
    }

    pub(crate) async fn of_three_timed(timing: Timing) -> Self {
        let cluster = Self { timing, ..Self::new(SnapshotLimits::default()) };
        cluster.started().await
    }

    async fn started(mut self) -> Self {
        let cluster = &mut self;
        for id in 1..=3 {
            cluster.start(id).await;
        }
        cluster.nodes[&1].initialize("n1").await.unwrap();
        for id in 2..=3 {
            cluster.nodes[&1].add_learner(id, format!("n{id}")).await.unwrap();
        }
        cluster.nodes[&1].set_voters(BTreeSet::from([1, 2, 3])).await.unwrap();
        self
    }

    pub(crate) fn options(&mut self, id: u64) -> Options {
        let dir = self.dirs.entry(id).or_insert_with(|| tempfile::tempdir().unwrap());
        let mut options = Options::new(id, "test", dir.path());
        options.snapshots = self.snapshots;
        options.timing = self.timing;
        options.address = self.addresses.get(&id).cloned().unwrap_or_default();
        options
    }

    pub(crate) async fn start(&mut self, id: u64) {
        let options = self.options(id);
        let transport = self.network.transport(id);
        let raft = Raft::open(options, Journal::default(), transport).await.unwrap();
        self.network.attach(raft.clone());
        self.nodes.insert(id, raft);
    }

    /// Gives a node that is off another address: it is reached nowhere else.
    pub(crate) fn move_to(&mut self, id: u64, address: &str) {
        self.network.move_to(id, address);
        self.addresses.insert(id, address.to_owned());
    }

    pub(crate) async fn stop(&mut self, id: u64) {
        self.network.detach(id);
        self.nodes.remove(&id).unwrap().shutdown().await.unwrap();
    }

    /// Waits until one of the running nodes leads.
    pub(crate) async fn leader(&self) -> Raft<Journal> {
        let search = async {
            loop {
                for node in self.nodes.values() {
                    if node.linearizable().await.is_ok() {
                        return node.clone();
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, search).await.expect("a leader within the deadline")
    }

    /// Writes through whichever node leads.
    pub(crate) async fn write(&self, payload: &str) -> u64 {
        let write = async {
            loop {
                let leader = self.leader().await;
                match leader.propose(Bytes::copy_from_slice(payload.as_bytes())).await {
                    Ok(applied) => return applied.index,
                    Err(ProposeError::NotLeader { .. } | ProposeError::QuorumLost) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        };
        tokio::time::timeout(DEADLINE, write).await.expect("a write within the deadline")
    }

    /// Writes one after another until every running node has them: a majority, which acknowledges, need not be the
    /// node that a test looks at.
    pub(crate) async fn write_everywhere(&self, payloads: impl IntoIterator<Item = String>) {
        let mut last = 0;
        for payload in payloads {
            last = self.write(&payload).await;
        }
        self.all_applied(last).await;
    }

    /// Waits until every running node has applied `index`.
    pub(crate) async fn all_applied(&self, index: u64) {
        for node in self.nodes.values() {
            let mut applied = node.watch_applied();
            let reached = applied.wait_for(|applied| *applied >= index);
            let reached = tokio::time::timeout(DEADLINE, reached).await;
            reached.unwrap_or_else(|_| panic!("node stuck: {:?}", node.status())).unwrap();
        }
    }

    pub(crate) fn texts(&self, id: u64) -> Vec<String> {
        self.nodes[&id].with_state(|journal| {
            journal
                .records()
                .map(|(_, payload)| String::from_utf8_lossy(payload).into_owned())
                .collect()
        })
    }

    /// Ticks the reconciler of whichever node leads until the membership looks as wanted.
    pub(crate) async fn reconcile(&self, leaving: &[u64], wanted: impl Fn(&Status) -> bool) {
        let leaving: BTreeSet<u64> = leaving.iter().copied().collect();
        let steady = Duration::from_millis(100);
        let mut reconcilers: Vec<_> =
            self.nodes.values().map(|node| Reconciler::new(node.clone(), steady)).collect();
        let work = async {
            loop {
                for reconciler in &mut reconcilers {
                    // A refused step is decided anew at the next tick, as in the daemon.
                    drop(reconciler.tick(&leaving).await);
                }
                let leads = |node: &&Raft<Journal>| node.status().is_leader();
                let leader = self.nodes.values().find(leads);
                if leader.is_some_and(|leader| wanted(&leader.status())) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let done = tokio::time::timeout(DEADLINE, work).await;
        done.unwrap_or_else(|_| panic!("stuck: {:?}", self.statuses()));
    }

    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.nodes.values().map(Raft::status).collect()
    }
}
