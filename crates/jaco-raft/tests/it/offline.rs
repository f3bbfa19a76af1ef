//! R-FAULT-2: the data of a stopped node, and the survivor of a lost quorum.

use std::collections::BTreeSet;

use bytes::Bytes;
use jaco_raft::testing::{Journal, Loopback};
use jaco_raft::{Offline, OpenError, Options, Position, Raft, SnapshotLimits};

use crate::support::{Cluster, DEADLINE};

/// A snapshot every few entries, so that the log of a survivor begins after one.
fn frequent_snapshots() -> SnapshotLimits {
    SnapshotLimits { entries_between: 8, entries_kept: 2, ..SnapshotLimits::default() }
}

async fn offline(options: Options) -> Offline<Journal> {
    Offline::open(options, Journal::default()).await.unwrap()
}

/// One of three goes on alone: what it had is kept in its order, the command follows, it leads in a later term than
/// any before, and takes writes.
async fn survivor_goes_on(limits: SnapshotLimits) {
    let mut cluster = Cluster::of_three_with(limits).await;
    cluster.write_everywhere((0..30).map(|write| format!("w{write}"))).await;
    for id in 1..=3 {
        cluster.stop(id).await;
    }
    let options = cluster.options(2);
    let stopped = offline(options.clone()).await;
    let (before, term) = (stopped.position(), stopped.status().term);
    let recovered = stopped.recover("n2", vec![Bytes::from_static(b"removed")]).await.unwrap();
    assert_eq!(recovered.index, before.index + 2, "the command and the membership");
    assert!(recovered.term > term + 1000 && recovered > before);

    let transport = Loopback::<Journal>::default().transport(2);
    let alone = Raft::open(options.clone(), Journal::default(), transport).await.unwrap();
    alone.wait_for(jaco_raft::Status::is_leader, DEADLINE).await.expect("it elects itself");
    let status = alone.status();
    assert_eq!(status.voters, BTreeSet::from([2]));
    assert!(status.members.len() == 1 && status.term > term + 1000, "{status:?}");
    let written = alone.propose(Bytes::from_static(b"after")).await.unwrap();
    assert!(written.index > recovered.index);
    let payloads: Vec<String> = alone.with_state(|journal| {
        let records = journal.records();
        records.map(|(_, payload)| String::from_utf8_lossy(payload).into_owned()).collect()
    });
    let wanted = (0..30).map(|write| format!("w{write}"));
    let wanted: Vec<String> = wanted.chain(["removed".to_owned(), "after".to_owned()]).collect();
    assert_eq!(payloads, wanted);
    alone.shutdown().await.unwrap();
    let again = offline(options).await;
    assert_eq!(again.status().voters, BTreeSet::from([2]), "it stays after a restart");
}

/// R-FAULT-2: see [`survivor_goes_on`].
#[tokio::test(flavor = "multi_thread")]
async fn a_survivor_goes_on_with_its_log() {
    survivor_goes_on(SnapshotLimits::default()).await;
}

/// R-FAULT-2: see [`survivor_goes_on`].
#[tokio::test(flavor = "multi_thread")]
async fn a_survivor_goes_on_from_a_snapshot() {
    survivor_goes_on(frequent_snapshots()).await;
}

/// R-FAULT-2: looking changes nothing, and no daemon may run meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn looking_changes_nothing() {
    let mut cluster = Cluster::of_three().await;
    cluster.write("one").await;
    let running = Offline::open(cluster.options(1), Journal::default()).await;
    assert!(matches!(running, Err(OpenError::Locked { .. })), "{running:?}");
    cluster.stop(1).await;
    let first = offline(cluster.options(1)).await;
    let (position, term) = (first.position(), first.status().term);
    first.close().await.unwrap();
    let second = offline(cluster.options(1)).await;
    assert_eq!((second.position(), second.status().term), (position, term));
}

/// R-FAULT-2: the survivor with the most is told by its position.
#[test]
fn positions_compare_as_candidates_do() {
    let position = |text: &str| text.parse::<Position>().unwrap();
    assert!(position("3.10") > position("2.500") && position("3.11") > position("3.10"));
    assert_eq!(position("3.10").to_string(), "3.10");
    for text in ["", "3", "3.", ".3", "3.1.2", "-3.1", "a.b", "99999999999999999999.1"] {
        assert!(text.parse::<Position>().is_err(), "{text}");
    }
}
