//! Disks that fail and files that are damaged: loud, and never a wrong answer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use jaco_raft::testing::{self, Journal, Loopback, Sabotage, SimStorage, Syncing};
use jaco_raft::{OpenError, Options, ProposeError, Raft, Role, SnapshotLimits};

use crate::support::{Cluster, DEADLINE};

/// An IO error stops the node for good: nothing is acknowledged after it, and it says why.
#[tokio::test]
async fn failed_write_stops_the_node() {
    let network = Loopback::default();
    let mut nodes = Vec::new();
    let storages: Vec<SimStorage> =
        (1..=3).map(|id| SimStorage::new(id, Syncing::Honest)).collect();
    for (id, storage) in (1..).zip(&storages) {
        let options = Options::new(id, "faults", "unused");
        let transport = network.transport(id);
        let opening =
            testing::open(options, Journal::default(), transport, storage, Sabotage::None);
        let node = opening.await.unwrap();
        network.attach(node.clone());
        nodes.push(node);
    }
    nodes[0].initialize("n1").await.unwrap();
    for id in 2..=3 {
        nodes[0].add_learner(id, format!("n{id}")).await.unwrap();
    }
    nodes[0].set_voters(BTreeSet::from([1, 2, 3])).await.unwrap();
    nodes[0].propose("kept".into()).await.unwrap();

    storages[0].log.fail();
    let outcome = nodes[0].propose("not by this leader".into()).await;
    // The followers may have taken the entry before the leader's disk failed.
    assert!(
        matches!(outcome, Ok(_) | Err(ProposeError::Unknown | ProposeError::Stopped { .. })),
        "{outcome:?}"
    );
    let stopped = nodes[0].wait_for(|status| status.role == Role::Stopped, DEADLINE).await;
    assert!(stopped.expect("the node stops").failure.is_some());
    let failure = nodes[0].failure().expect("it says why");
    assert!(failure.contains("simulated disk failure"), "{failure}");
    let refused = nodes[0].propose("no".into()).await.unwrap_err();
    assert!(matches!(refused, ProposeError::Stopped { .. }), "{refused:?}");

    // The others go on.
    let took_over =
        |status: &jaco_raft::Status| status.leader.as_ref().is_some_and(|leader| leader.id != 1);
    let status = nodes[1].wait_for(took_over, DEADLINE).await.expect("another leader");
    let leader = usize::try_from(status.leader.unwrap().id).unwrap() - 1;
    nodes[leader].linearizable().await.unwrap();
    nodes[leader].propose("goes on".into()).await.unwrap();
}

async fn open(dir: &Path) -> Result<Raft<Journal>, OpenError> {
    let network = Loopback::default();
    let mut options = Options::new(1, "faults", dir);
    options.snapshots =
        SnapshotLimits { entries_between: 20, entries_kept: 40, ..SnapshotLimits::default() };
    let raft = Raft::open(options, Journal::default(), network.transport(1)).await?;
    network.attach(raft.clone());
    Ok(raft)
}

async fn fill(raft: &Raft<Journal>, writes: usize) {
    for n in 0..writes {
        raft.propose(Bytes::from(format!("{n}"))).await.unwrap();
    }
}

fn snapshots(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir.join("snapshots")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "snap"));
    found.sort();
    found
}

/// Bit rot in the newest snapshot: the older one and the log, which reaches back to it, give the
/// same state; the damaged file is kept for an operator to look at.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_snapshot_is_replaced_by_the_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let raft = open(dir.path()).await.unwrap();
    raft.initialize("n1").await.unwrap();
    for _ in 0..3 {
        let before = raft.status().snapshot;
        fill(&raft, 25).await;
        raft.wait_for(|status| status.snapshot > before, DEADLINE).await.unwrap();
    }
    raft.shutdown().await.unwrap();
    drop(raft);
    let files = snapshots(dir.path());
    assert_eq!(files.len(), 2, "two are kept");
    let newest = files.last().unwrap();
    let mut bytes = fs::read(newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(newest, bytes).unwrap();

    let raft = open(dir.path()).await.unwrap();
    raft.wait_for(|status| status.is_leader(), DEADLINE).await.unwrap();
    raft.linearizable().await.unwrap();
    assert_eq!(raft.with_state(Journal::len), 75);
    assert!(newest.with_extension("snap.damaged").exists());
}

/// Without any snapshot a log that was purged cannot rebuild the state, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn purged_log_without_snapshot_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let raft = open(dir.path()).await.unwrap();
    raft.initialize("n1").await.unwrap();
    fill(&raft, 150).await;
    raft.wait_for(|status| status.purged.is_some(), DEADLINE).await.expect("a purge");
    raft.shutdown().await.unwrap();
    drop(raft);
    for file in snapshots(dir.path()) {
        fs::remove_file(file).unwrap();
    }
    let refused = open(dir.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
}

/// An idle cluster keeps its heartbeats and writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_cluster_commits_nothing() {
    let cluster = Cluster::of_three().await;
    let index = cluster.write("last").await;
    cluster.all_applied(index).await;
    // The status follows what is applied.
    for node in cluster.nodes.values() {
        let follows = node.wait_for(|status| status.last_log >= Some(index), DEADLINE).await;
        follows.expect("the status follows");
    }
    let before: Vec<_> = cluster.statuses().iter().map(|status| status.last_log).collect();
    let heartbeats = || cluster.network.calls().get(&jaco_raft::RpcKind::Heartbeat).copied();
    let start = heartbeats().unwrap_or(0);
    let beating = async {
        while heartbeats().unwrap_or(0) < start + 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, beating).await.expect("heartbeats go on");
    let after: Vec<_> = cluster.statuses().iter().map(|status| status.last_log).collect();
    assert_eq!(before, after);
}

/// Pre-vote: a node that was cut off and campaigned in vain does not disturb the leader when it
/// returns, because it never raised the term. Who leads at the moment of the cut is not cut off; the
/// others may elect whom they like.
#[tokio::test(flavor = "multi_thread")]
async fn isolated_node_does_not_depose_the_leader() {
    let cluster = Cluster::of_three().await;
    let leader = cluster.leader().await.id();
    let away = (1..=3).find(|id| *id != leader).unwrap();
    for other in (1..=3).filter(|id| *id != away) {
        cluster.network.cut(other, away);
        cluster.network.cut(away, other);
    }
    let away = &cluster.nodes[&away];
    // What was on its way to it has arrived by then.
    campaigns(&cluster, 1).await;
    let term = away.status().term;
    campaigns(&cluster, 6).await;
    assert_eq!(away.status().term, term, "a campaign in vain raises no term");

    cluster.network.heal();
    let index = cluster.write("undisturbed").await;
    // The one that was away among them: it follows whom the others elected.
    cluster.all_applied(index).await;
}

/// Waits until so many more pre-votes were asked for.
async fn campaigns(cluster: &Cluster, more: u64) {
    let asked = || cluster.network.calls().get(&jaco_raft::RpcKind::PreVote).copied().unwrap_or(0);
    let before = asked();
    let campaigning = async {
        while asked() < before + more {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, campaigning).await.expect("it asks for pre-votes");
}

/// A second daemon on the same directory is refused before it touches anything.
#[tokio::test(flavor = "multi_thread")]
async fn directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let raft = open(dir.path()).await.unwrap();
    let refused = open(dir.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    raft.shutdown().await.unwrap();
    drop(Arc::new(raft));
    open(dir.path()).await.unwrap();
}
