//! Whole clusters: writing, failing over, restarting, catching up, changing members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jaco_raft::testing::{self, Journal, Loopback, Sabotage, SimStorage, Syncing};
use jaco_raft::{Contact, Options, ProposeError, RpcKind, SnapshotLimits};
use jaco_types::voter_target;

use crate::support::{Cluster, DEADLINE};

#[tokio::test(flavor = "multi_thread")]
async fn write_reaches_every_node() {
    let cluster = Cluster::of_three().await;
    let index = cluster.write("hello").await;
    cluster.all_applied(index).await;
    for id in 1..=3 {
        assert_eq!(cluster.texts(id), ["hello"]);
    }
}

/// The leader goes, another takes over, and what was written is there when it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_leader_is_replaced_and_returns() {
    let mut cluster = Cluster::of_three().await;
    cluster.write("before").await;
    let first = cluster.leader().await.id();
    cluster.stop(first).await;
    cluster.write("while away").await;
    assert_ne!(cluster.leader().await.id(), first);
    cluster.start(first).await;
    let index = cluster.write("after").await;
    cluster.all_applied(index).await;
    for id in 1..=3 {
        assert_eq!(cluster.texts(id), ["before", "while away", "after"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn state_survives_a_restart_of_all_nodes() {
    let mut cluster = Cluster::of_three().await;
    for n in 0..50 {
        cluster.write(&format!("{n}")).await;
    }
    for id in 1..=3 {
        cluster.stop(id).await;
    }
    for id in 1..=3 {
        cluster.start(id).await;
    }
    let index = cluster.write("50").await;
    cluster.all_applied(index).await;
    let expected: Vec<String> = (0..=50).map(|n| n.to_string()).collect();
    for id in 1..=3 {
        assert_eq!(cluster.texts(id), expected);
    }
}

/// A leader replaces its streams to a follower while it writes: both to that one, none to the other, and where the follower
/// takes no new one, the old one goes on. No write is lost or late, and nobody campaigns.
#[tokio::test(flavor = "multi_thread")]
async fn streams_are_replaced_under_writes() {
    let cluster = Cluster::of_three().await;
    let leader = cluster.leader().await;
    let term = leader.status().term;
    let connects = || [2, 3].map(|id| cluster.network.connects(id));
    let mut written: Vec<String> = Vec::new();
    let mut write = async |text: String| {
        cluster.write(&text).await;
        written.push(text);
    };
    write("first".to_owned()).await;
    let before = connects();
    cluster.network.renewal().request(2);
    let begun = Instant::now();
    let mut number = 0;
    while connects()[0] < before[0] + 2 {
        assert!(begun.elapsed() < DEADLINE, "{:?}", connects());
        number += 1;
        write(number.to_string()).await;
    }
    cluster.network.close_port(1, 2);
    cluster.network.renewal().request(2);
    while connects()[0] < before[0] + 4 {
        assert!(begun.elapsed() < DEADLINE, "{:?}", connects());
        number += 1;
        write(number.to_string()).await;
    }
    write("on the old streams".to_owned()).await;
    cluster.network.heal();
    let last = cluster.write("last").await;
    cluster.all_applied(last).await;
    written.push("last".to_owned());
    for id in 1..=3 {
        assert_eq!(cluster.texts(id), written);
    }
    assert_eq!(connects()[1], before[1], "the other follower keeps its streams");
    let status = leader.status();
    assert_eq!((status.term, status.leader.map(|leader| leader.id)), (term, Some(1)));
}

/// A follower that was away longer than the log reaches back is sent a snapshot, and keeps it
/// through a restart.
#[tokio::test(flavor = "multi_thread")]
async fn lagging_follower_catches_up_by_snapshot() {
    let limits =
        SnapshotLimits { entries_between: 40, entries_kept: 5, ..SnapshotLimits::default() };
    let mut cluster = Cluster::of_three_with(limits).await;
    cluster.stop(3).await;
    for n in 0..200 {
        cluster.write(&format!("{n}")).await;
    }
    let leader = cluster.leader().await;
    let purged = leader.wait_for(|status| status.purged > Some(50), DEADLINE).await;
    purged.expect("the log was purged");
    cluster.start(3).await;
    let index = cluster.write("200").await;
    cluster.all_applied(index).await;
    let expected: Vec<String> = (0..=200).map(|n| n.to_string()).collect();
    assert_eq!(cluster.texts(3), expected);
    assert!(cluster.nodes[&3].status().snapshot.is_some());

    cluster.stop(3).await;
    cluster.start(3).await;
    let index = cluster.write("201").await;
    cluster.all_applied(index).await;
    assert_eq!(cluster.texts(3).len(), 202);
}

/// Few large entries are bounded too: by a snapshot, and then by what is kept behind it.
#[tokio::test(flavor = "multi_thread")]
async fn log_of_large_entries_is_compacted() {
    let limits = SnapshotLimits { bytes: 400_000, ..SnapshotLimits::default() };
    let mut cluster = Cluster::of_three_with(limits).await;
    for round in 0..4 {
        for _ in 0..20 {
            cluster.write(&round.to_string().repeat(50_000)).await;
        }
        for node in cluster.nodes.values() {
            node.compact_log().await.unwrap();
        }
        for node in cluster.nodes.values() {
            let written =
                node.wait_for(|status| status.snapshot > Some(20 * round), DEADLINE).await;
            written.expect("a snapshot is taken");
            node.compact_log().await.unwrap();
            let cut = node.wait_for(|status| status.purged > Some(20 * round), DEADLINE).await;
            cut.expect("nothing is kept behind it");
        }
    }
    // A small log is left alone.
    let before = cluster.nodes[&1].status();
    cluster.nodes[&1].compact_log().await.unwrap();
    assert_eq!(cluster.nodes[&1].status().snapshot, before.snapshot);
    cluster.stop(3).await;
    cluster.start(3).await;
    let index = cluster.write("end").await;
    cluster.all_applied(index).await;
    assert_eq!(cluster.texts(3).len(), 81);
}

/// R-IN-5: what is forgotten is in no snapshot and no log any more; those that lack it get a snapshot, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn states_of_before_are_forgotten() {
    let mut cluster = Cluster::of_three_with(SnapshotLimits::default()).await;
    cluster.write("1").await;
    let off = 3;
    let node = cluster.nodes[&1].clone();
    assert_eq!(node.oldest().unwrap(), 0);
    // An older snapshot, which is kept beside the next one.
    node.trigger_snapshot().await.unwrap();
    let written = node.wait_for(|status| status.snapshot.is_some(), DEADLINE).await;
    written.expect("a snapshot is taken");
    let index = cluster.write("2").await;
    cluster.all_applied(index).await;
    cluster.stop(off).await;
    let settled = cluster.write("3").await;
    let later = cluster.write("4").await;
    for id in [1, 2] {
        let node = cluster.nodes[&id].clone();
        node.wait_for(|status| status.applied >= Some(later), DEADLINE).await.expect("applied");
        for _ in 0..200 {
            if node.oldest().unwrap() >= settled {
                break;
            }
            node.forget_before(settled).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(node.oldest().unwrap() >= settled, "node {id}: {:?}", node.status());
        let before = node.status().snapshot;
        node.forget_before(settled).await.unwrap();
        assert_eq!(node.status().snapshot, before, "nothing is left to do");
    }
    cluster.stop(1).await;
    cluster.start(1).await;
    assert!(cluster.nodes[&1].oldest().unwrap() >= settled);
    cluster.start(off).await;
    let index = cluster.write("5").await;
    cluster.all_applied(index).await;
    for id in [1, 2, off] {
        assert_eq!(cluster.texts(id), ["1", "2", "3", "4", "5"]);
    }
}

/// R-NODE-4: members that join at once are one entry. Each of them hears of its leader often enough to know that its state
/// is current, and of each write, whatever heartbeats are left out.
#[tokio::test(flavor = "multi_thread")]
async fn learners_join_by_one_entry_and_keep_contact() {
    let mut cluster = Cluster::new(SnapshotLimits::default());
    for id in 1..=5 {
        cluster.start(id).await;
    }
    let leader = cluster.nodes[&1].clone();
    leader.initialize("n1").await.unwrap();
    let index = cluster.write("alone").await;
    let learners: BTreeMap<u64, String> = (2..=5).map(|id| (id, format!("n{id}"))).collect();
    leader.add_learners(learners.clone()).await.unwrap();
    let joined = leader.wait_for(|status| status.learners.len() == 4, DEADLINE).await.unwrap();
    assert_eq!(joined.membership_index, Some(index + 1));
    leader.add_learners(learners).await.unwrap();
    let moved = BTreeMap::from([(5, "elsewhere".to_owned()), (6, "n6".to_owned())]);
    assert!(leader.add_learners(moved).await.is_err());
    assert_eq!(leader.status().learners, BTreeSet::from([2, 3, 4, 5]), "none is added");

    let index = cluster.write("told").await;
    cluster.all_applied(index).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for id in 2..=5 {
            assert_eq!(cluster.nodes[&id].contact(), Contact::Recent, "node {id}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let index = cluster.write("told later").await;
    cluster.all_applied(index).await;
}

/// R-NODE-4: as nodes come and go, the number of voters follows the policy, and every write stays.
#[tokio::test(flavor = "multi_thread")]
async fn voters_follow_the_policy_from_one_to_five_and_back() {
    let mut cluster = Cluster::new(SnapshotLimits::default());
    cluster.start(1).await;
    cluster.nodes[&1].initialize("n1").await.unwrap();
    for id in 2..=5 {
        cluster.start(id).await;
        cluster.leader().await.add_learner(id, format!("n{id}")).await.unwrap();
        let members = usize::try_from(id).unwrap();
        cluster
            .reconcile(&[], |status| {
                status.members.len() == members
                    && status.voters.len() == voter_target(members)
                    && !status.joint
            })
            .await;
        cluster.write(&format!("with {id}")).await;
    }
    // The leader is among those that leave, so leadership moves too.
    for id in 1..=4 {
        let remaining = 5 - usize::try_from(id).unwrap();
        cluster
            .reconcile(&[id], |status| {
                status.members.len() == remaining
                    && status.voters.len() == voter_target(remaining)
                    && !status.joint
            })
            .await;
        cluster.stop(id).await;
        cluster.write(&format!("without {id}")).await;
    }
    assert_eq!(cluster.texts(5).len(), 8);
    assert_eq!(cluster.nodes[&5].status().voters, BTreeSet::from([5]));
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_transferred_before_a_planned_stop() {
    let mut cluster = Cluster::of_three().await;
    cluster.write("one").await;
    let first = cluster.leader().await;
    first.transfer_leader().await.unwrap();
    let second = cluster.leader().await;
    assert_ne!(first.id(), second.id());
    cluster.stop(first.id()).await;
    cluster.write("two").await;
}

/// A daemon that was stopped while its members changed left the change half made, and nobody to lead.
#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_transferred_after_a_voter_change() {
    let cluster = Cluster::of_three().await;
    cluster.write("one").await;
    let first = cluster.leader().await;
    let other = (1..=3).find(|id| *id != first.id()).unwrap();
    let voters = BTreeSet::from([first.id(), other]);
    // In this order: the change is in progress when the other begins.
    let (changed, handed_over) =
        tokio::join!(first.set_voters(voters.clone()), first.transfer_leader());
    assert_eq!((changed, handed_over), (Ok(()), Ok(())));
    let second = cluster.leader().await;
    assert_eq!(second.id(), other);
    let status = second.status();
    assert!(status.voters == voters && !status.joint, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_names_the_leader_and_reads_its_writes() {
    let cluster = Cluster::of_three().await;
    let leader = cluster.leader().await;
    let follower = cluster.nodes.values().find(|node| node.id() != leader.id()).unwrap();
    let index = cluster.write("read me").await;
    assert_eq!(follower.leader_id(), Some(leader.id()));
    assert_eq!(leader.leader_id(), Some(leader.id()));
    let refused = follower.propose("no".into()).await.unwrap_err();
    let ProposeError::NotLeader { leader: Some(named) } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((named.id, named.address), (leader.id(), format!("n{}", leader.id())));
    assert!(follower.linearizable_here().await.unwrap() >= index);
    assert_eq!(cluster.texts(follower.id()), ["read me"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_commands_are_split_on_disk_and_too_large_ones_refused() {
    let mut cluster = Cluster::of_three().await;
    let large = "x".repeat(3 << 20);
    cluster.write(&large).await;
    let too_large = bytes::Bytes::from(vec![0; (4 << 20) + 1]);
    let refused = cluster.leader().await.propose(too_large).await.unwrap_err();
    assert!(matches!(refused, ProposeError::TooLarge { .. }), "{refused}");
    for id in 1..=3 {
        cluster.stop(id).await;
        cluster.start(id).await;
    }
    let index = cluster.write("small").await;
    cluster.all_applied(index).await;
    for id in 1..=3 {
        assert_eq!(cluster.texts(id), [large.as_str(), "small"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_without_quorum_refuses_writes() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.leader().await;
    for id in 1..=3 {
        if id != leader.id() {
            cluster.stop(id).await;
        }
    }
    let lost = leader
        .wait_for(|status| status.quorum != jaco_raft::Quorum::Held, DEADLINE)
        .await
        .expect("the loss is noticed");
    assert_ne!(lost.quorum, jaco_raft::Quorum::Held);
    let refused = leader.propose("no".into()).await.unwrap_err();
    assert!(
        matches!(refused, ProposeError::QuorumLost | ProposeError::NotLeader { .. }),
        "{refused:?}"
    );
}

/// A member that moved is called at its new address at once, not at the next election.
#[tokio::test(flavor = "multi_thread")]
async fn moved_member_is_called_at_its_new_address() {
    let cluster = Cluster::of_three().await;
    let leader = cluster.leader().await;
    let moved = (1..=3).find(|id| *id != leader.id()).unwrap();
    leader.update_address(moved, "elsewhere".to_owned()).await.unwrap();
    let called = async {
        while cluster.network.called_at(moved).as_deref() != Some("elsewhere") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cluster.write("found").await
    };
    let index = tokio::time::timeout(DEADLINE, called).await.expect("the new address is used");
    cluster.all_applied(index).await;
    assert_eq!(leader.status().members[&moved], "elsewhere");
}

/// R-NODE-2: a voter that was given another address while it was off lacks what was written meanwhile, and the leader
/// ends before the membership has the address: the other voter, which has all, is elected by the one that it did not
/// know where to find.
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_voter_is_found_by_its_request_for_a_vote() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.leader().await.id();
    let moved = (1..=3).find(|id| *id != leader).unwrap();
    let third = (1..=3).find(|id| *id != leader && *id != moved).unwrap();
    cluster.stop(moved).await;
    let index = cluster.write("while it was off").await;
    cluster.all_applied(index).await;
    cluster.stop(leader).await;
    cluster.move_to(moved, "elsewhere");
    cluster.start(moved).await;

    let index = cluster.write("by both").await;
    cluster.all_applied(index).await;
    assert_eq!(cluster.texts(moved), ["while it was off", "by both"]);
    let status = cluster.nodes[&third].status();
    assert_eq!(status.leader.map(|leader| leader.id), Some(third), "only it had all");
    let known = cluster.nodes[&third].status().members[&moved].clone();
    assert_eq!(known, format!("n{moved}"), "the membership does not have the address yet");

    // The former leader calls it there as well once it is back.
    cluster.start(leader).await;
    cluster.stop(third).await;
    let index = cluster.write("without the third").await;
    cluster.all_applied(index).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_node_reports_recovery() {
    let mut cluster = Cluster::of_three().await;
    let index = cluster.write("before").await;
    cluster.stop(3).await;
    cluster.start(3).await;
    let node = &cluster.nodes[&3];
    node.wait_recovered(DEADLINE).await.unwrap();
    assert!(node.status().applied >= Some(index));
    assert_eq!(cluster.texts(3), ["before"]);
}

/// A member that is down is called less and less often, whether or not there is something to send,
/// and receives the log within about a second of its return.
#[tokio::test(flavor = "multi_thread")]
async fn t90_leader_does_not_spin_on_a_member_that_is_down() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.leader().await;
    let down = (1..=3).rev().find(|id| *id != leader.id()).unwrap();
    cluster.stop(down).await;

    let watched = Duration::from_secs(4);
    let before = cluster.network.connects(down);
    let until = Instant::now() + watched;
    let mut written = 0;
    while Instant::now() < until {
        cluster.write("while it is down").await;
        written += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let attempts = cluster.network.connects(down) - before;
    assert!(written > 20, "the cluster goes on writing: {written}");
    assert!((1..=20).contains(&attempts), "{attempts} attempts in {watched:?}, at most 5 a second");

    let index = cluster.write("for its return").await;
    let back = Instant::now();
    cluster.start(down).await;
    cluster.all_applied(index).await;
    let heard = back.elapsed();
    // The longest pause is one second; the rest is opening the data directory on a loaded machine.
    assert!(heard < Duration::from_secs(4), "heard again after {heard:?}");
}

/// Followers are told of a commit by the entries that follow at once, where they do, and of the last one within milliseconds.
/// A write that none followed is told at once.
#[tokio::test(start_paused = true)]
async fn commits_are_told_with_the_entries_that_follow() {
    const WRITES: u64 = 100;
    let network = Loopback::default();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        // A disk that takes no time, so that only pauses between writes do.
        let storage = SimStorage::new(id, Syncing::Removed);
        let (options, transport) = (Options::new(id, "notices", "unused"), network.transport(id));
        let opening =
            testing::open(options, Journal::default(), transport, &storage, Sabotage::None);
        let node = opening.await.unwrap();
        network.attach(node.clone());
        nodes.push(node);
    }
    nodes[0].initialize("n1").await.unwrap();
    for id in 2..=3 {
        nodes[0].add_learner(id, format!("n{id}")).await.unwrap();
    }
    nodes[0].set_voters(BTreeSet::from([1, 2, 3])).await.unwrap();
    let write = async |pause: Duration| {
        let before = network.calls();
        let mut late = Duration::ZERO;
        for _ in 0..WRITES {
            tokio::time::sleep(pause).await;
            let index = nodes[0].propose("write".into()).await.unwrap().index;
            if pause.is_zero() && index % WRITES != 0 {
                continue;
            }
            let answered = tokio::time::Instant::now();
            for follower in &nodes[1..] {
                let mut applied = follower.watch_applied();
                applied.wait_for(|applied| *applied >= index).await.unwrap();
            }
            late = late.max(answered.elapsed());
        }
        let after = network.calls();
        let sent = |kind| after.get(&kind).unwrap_or(&0) - before.get(&kind).unwrap_or(&0);
        (sent(RpcKind::Append), sent(RpcKind::Heartbeat), late)
    };
    let (entries, alone, late) = write(Duration::ZERO).await;
    assert!(entries >= 2 * (WRITES - 5) && alone <= WRITES / 10, "{entries} and {alone} alone");
    assert!(late <= Duration::from_millis(5), "{late:?}");
    let (entries, alone, late) = write(Duration::from_millis(20)).await;
    assert!(entries >= 2 * WRITES && alone >= 2 * WRITES, "{entries} and {alone} alone");
    assert!(late <= Duration::from_millis(1), "{late:?}");
}
