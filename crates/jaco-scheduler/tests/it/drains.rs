//! Drains that make no progress.

use jaco_state::audit::AuditKind;
use jaco_types::{Availability, Millis, Node};
use proptest::prelude::*;

use crate::cluster::{Cluster, service};
use crate::events::{HOSTS, events, happen};

const PATIENCE: Millis = Millis::from_secs(300);

/// Three nodes; one holds data that cannot follow.
fn pinned() -> Cluster {
    let mut cluster = Cluster::of(&HOSTS[..3]);
    cluster.apply("shop", &[service("db", "db:1").stateful().replicas(1)]);
    cluster.settle();
    cluster
}

fn host_of_the_only_replica(cluster: &Cluster) -> String {
    let slot = cluster.state.slots.values().next().expect("it is placed");
    node(cluster, |node| node.id == slot.current.node).hostname.to_string()
}

fn node(cluster: &Cluster, is: impl Fn(&Node) -> bool) -> Node {
    cluster.state.nodes.values().find(|node| is(node)).expect("there is one").clone()
}

/// R-NODE-2: a drain that nothing leaves in time is given up, and the node is again what it was.
#[test]
fn drain_that_makes_no_progress_times_out() {
    for before in [Availability::Active, Availability::Cordoned] {
        let mut cluster = pinned();
        let host = host_of_the_only_replica(&cluster);
        cluster.set_availability(&host, before);
        cluster.drain(&host, PATIENCE);
        cluster.settle();
        let due = node(&cluster, |node| node.drain.is_some()).drain.expect("it is drained").due();
        cluster.advance(Millis(due.since(cluster.now).0 - 1), &[]);
        cluster.pass();
        assert!(node(&cluster, |node| node.drain.is_some()).availability_reason.is_empty());
        assert!(cluster.plan().wake_at.is_some_and(|at| at <= due));
        cluster.advance(Millis(1), &[]);
        cluster.pass();
        let after = node(&cluster, |node| node.hostname.as_str() == host);
        assert_eq!((after.availability, after.drain), (before, None));
        assert_eq!(after.availability_reason, "drain_timeout: nothing left for 300 s; shop-db-0");
        assert_eq!(cluster.audited(AuditKind::NodeDrainTimeout), 1);
        cluster.set_availability(&host, Availability::Draining);
        let again = node(&cluster, |node| node.hostname.as_str() == host);
        assert_eq!(again.availability_reason, "", "the operator decides");
    }
}

/// R-NODE-2: the timeout is for one replica, not for all: it restarts with each that leaves.
#[test]
fn each_replica_that_leaves_restarts_the_drain_timeout() {
    let mut cluster = Cluster::of(&HOSTS[..2]);
    cluster.apply("shop", &[service("web", "web:1").replicas(4)]);
    cluster.settle();
    let host = HOSTS[0];
    cluster.drain(host, PATIENCE);
    let began = node(&cluster, |node| node.drain.is_some()).drain.expect("it is drained");
    cluster.advance(Millis::from_secs(200), &[]);
    cluster.settle();
    let now = node(&cluster, |node| node.drain.is_some()).drain.expect("it goes on");
    assert!(now.progress_at > began.progress_at, "{now:?}");
    // Empty, it may stay as it is for ever.
    cluster.advance(Millis::from_secs(3600), &[]);
    cluster.pass();
    let drained = node(&cluster, |node| node.drain.is_some());
    assert_eq!(drained.availability, Availability::Draining);
}

proptest! {
    /// R-NODE-2: whatever happens besides, a drain ends: the node is empty, or is no longer drained.
    #[test]
    fn every_drain_ends(before in events(1..20), at in 0..3_usize) {
        let mut cluster = Cluster::of(&HOSTS[..3]);
        for event in &before {
            happen(&mut cluster, event);
        }
        let Some(host) = cluster.state.nodes.values().nth(at).map(|node| node.hostname.to_string())
        else { return Ok(()) };
        cluster.drain(&host, PATIENCE);
        for _ in 0..40 {
            cluster.settle();
            cluster.advance(Millis::from_secs(150), &[]);
        }
        let node = node(&cluster, |node| node.hostname.as_str() == host);
        let held = cluster.state.slots.values().filter(|slot| {
            slot.instances().any(|(_, instance)| instance.node == node.id)
        });
        prop_assert!(held.count() == 0 || node.drain.is_none(), "{node:?}");
    }
}
