//! States of before, made again of what a node keeps.

use std::io::ErrorKind;

use bytes::Bytes;
use jaco_raft::testing::{Journal, Random};
use jaco_raft::{PastEntry, Raft, SnapshotLimits, StateMachine as _};

use crate::support::{Cluster, DEADLINE};

/// The journal at an index, as a node makes it again; none if it says that it cannot.
async fn rebuilt(node: &Raft<Journal>, index: u64) -> Option<Journal> {
    let base = node.past_base(index).expect("the folder is readable")?;
    let mut journal = Journal::default();
    let restored = base.restore(|state| journal.restore(state));
    restored.expect("the snapshot is whole");
    let mut next = base.next();
    while next <= index {
        let entries = node.past_entries(next, index).await.expect("what is kept can be read");
        for PastEntry { index, command } in entries {
            assert_eq!(index, next, "no entry is missing between them");
            match command {
                Some(command) => drop(journal.apply(index, &command).expect("it was applied once")),
                None => journal.advance(index),
            }
            next += 1;
        }
    }
    Some(journal)
}

/// Compares all that a node says it keeps with what was written.
async fn check(node: &Raft<Journal>, written: &[(u64, Bytes)]) {
    let kept = node.past().expect("the folder is readable");
    for index in kept.clone() {
        let journal = rebuilt(node, index).await.expect("it is kept");
        let expected: Vec<_> = written.iter().filter(|(at, _)| *at <= index).cloned().collect();
        let found: Vec<_> = journal.records().cloned().collect();
        assert_eq!(found, expected, "index {index} of {kept:?}");
        assert_eq!(journal.applied(), index);
    }
    let newest = *kept.end();
    let beyond = node.past_entries(newest + 1, newest + 1).await;
    assert_eq!(beyond.expect_err("it is not applied").kind(), ErrorKind::NotFound);
}

/// R-OPS-1: the state at each index that a node says it keeps is the one that there was, on each node, whatever was written,
/// through snapshots and a restart; what a snapshot took the place of is not made up.
#[tokio::test(flavor = "multi_thread")]
async fn kept_states_are_those_that_there_were() {
    for seed in 1..=4 {
        let mut random = Random::new(seed);
        let limits = SnapshotLimits {
            entries_between: 10 + random.below(30),
            entries_kept: random.below(12),
            ..SnapshotLimits::default()
        };
        let mut cluster = Cluster::of_three_with(limits).await;
        let mut written = Vec::new();
        for number in 0..30 + random.below(60) {
            let bytes = usize::try_from(random.below(300)).unwrap();
            let payload = format!("{seed}/{number}/{}", "x".repeat(bytes));
            let index = cluster.write(&payload).await;
            written.push((index, Bytes::from(payload)));
        }
        let last = written.last().expect("something was written").0;
        cluster.all_applied(last).await;
        for id in 1..=3 {
            check(&cluster.nodes[&id], &written).await;
        }
        cluster.stop(2).await;
        cluster.start(2).await;
        cluster.all_applied(last).await;
        check(&cluster.nodes[&2], &written).await;
    }
}

/// R-OPS-1: with a snapshot the range begins later, and the state of before is refused; that of the snapshot itself is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_shortens_what_is_kept() {
    let limits = SnapshotLimits { entries_between: 100, entries_kept: 0, ..Default::default() };
    let cluster = Cluster::of_three_with(limits).await;
    let first = cluster.write("first").await;
    let node = cluster.nodes[&1].clone();
    assert_eq!(*node.past().unwrap().start(), 0);
    assert!(rebuilt(&node, first).await.is_some());
    let mut last = first;
    for number in 0..120 {
        last = cluster.write(&number.to_string()).await;
    }
    cluster.all_applied(last).await;
    let purged = node.wait_for(|status| status.purged > Some(first), DEADLINE).await;
    let snapshot = purged.expect("the log is purged").snapshot.expect("there is a snapshot");
    assert_eq!(*node.past().unwrap().start(), snapshot);
    assert!(rebuilt(&node, first).await.is_none());
    assert!(rebuilt(&node, snapshot - 1).await.is_none());
    let journal = rebuilt(&node, snapshot).await.expect("it is the snapshot's own state");
    assert_eq!(journal.applied(), snapshot);
    let gone = node.past_entries(first, last).await;
    assert_eq!(gone.expect_err("the log begins later").kind(), ErrorKind::NotFound);
}
