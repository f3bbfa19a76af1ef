//! Which replicas go when a service is scaled down, with each placement and each preference (R-PLACE-7).

use jaco_types::spec::{Affinity, Operator, Placement};
use jaco_types::{Availability, ReplicaState};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, constraint, resources, service};

fn web(replicas: u32) -> Service {
    service("web", "w").replicas(replicas)
}

fn counts(cluster: &Cluster) -> Vec<usize> {
    cluster.counts("shop", "web").into_values().collect()
}

/// The indices of the replicas that are left.
fn left(cluster: &Cluster) -> Vec<String> {
    let slots = cluster.state.slots.values();
    slots.map(|slot| slot.ordinal.to_string()).collect()
}

fn scaled(cluster: &mut Cluster, service: Service) {
    cluster.apply("shop", &[service]);
    cluster.settle();
}

/// Of equals the youngest goes, and its number is never used again (R-PLACE-5).
#[test]
fn youngest_of_equals_goes() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    scaled(&mut cluster, web(3));
    scaled(&mut cluster, web(2));
    assert_eq!(left(&cluster), ["0", "1"]);
    scaled(&mut cluster, web(3));
    assert_eq!(left(&cluster), ["0", "1", "3"]);
    scaled(&mut cluster, web(0));
    scaled(&mut cluster, web(1));
    assert_eq!(left(&cluster), ["4"]);
}

/// What serves nobody goes first, wherever it is.
#[test]
fn replicas_that_do_not_serve_go_first() {
    for state in [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Degraded,
        ReplicaState::Failed,
    ] {
        let mut cluster = Cluster::of(&["n1", "n2"]);
        scaled(&mut cluster, web(4));
        cluster.see("shop-web-0", state);
        cluster.apply("shop", &[web(3)]);
        cluster.pass();
        assert_eq!(left(&cluster), ["1", "2", "3"], "{state:?}");
    }
}

/// A node that has more of the service gives one away before one that has fewer.
#[test]
fn fullest_node_gives_first() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    scaled(&mut cluster, web(7));
    let mut before = counts(&cluster);
    before.sort_unstable();
    assert_eq!(before, [2, 2, 3]);
    for replicas in (0..7_u32).rev() {
        scaled(&mut cluster, web(replicas));
        let counts = counts(&cluster);
        let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
        assert!(most - least <= 1, "{replicas}: {counts:?}");
    }
}

/// Domains first: the one that has most more than its share, and inside it the fullest node.
#[test]
fn fullest_domain_gives_first() {
    let mut cluster = Cluster::empty();
    for (host, zone) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
        cluster.join_as(host, resources(0, 0), &[("zone", zone)]);
    }
    cluster.pass();
    let spread = |replicas| web(replicas).spread("zone", 50, &[]);
    scaled(&mut cluster, spread(8));
    assert_eq!(counts(&cluster), [2, 2, 4]);
    for (replicas, expected) in [(6, 3), (4, 2), (2, 1)] {
        scaled(&mut cluster, spread(replicas));
        let zones = cluster.domains("shop", "web", &["zone"]);
        assert_eq!((zones["a"], zones["b"]), (expected, expected), "{replicas}");
    }
    let weighted = |replicas| web(replicas).spread("zone", 50, &[("a", 75)]);
    let mut cluster = cluster.clone();
    scaled(&mut cluster, weighted(12));
    scaled(&mut cluster, weighted(4));
    let zones = cluster.domains("shop", "web", &["zone"]);
    assert_eq!((zones["a"], zones["b"]), (3, 1));
}

/// Nodes that the service likes least are left first.
#[test]
fn least_affinity_gives_first() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let liking = |replicas: u32| {
        web(replicas).with(|spec| {
            let like = |host: &str, weight| Affinity {
                constraint: constraint("node.hostname", Operator::Equal, host),
                weight,
            };
            spec.scheduling.affinities = vec![like("n1", -50), like("n3", 50)];
        })
    };
    scaled(&mut cluster, web(3));
    assert_eq!(counts(&cluster), [1, 1, 1]);
    scaled(&mut cluster, liking(2));
    assert_eq!(counts(&cluster), [0, 1, 1]);
    scaled(&mut cluster, liking(1));
    assert_eq!(counts(&cluster), [0, 0, 1]);
}

/// A node that takes nothing new keeps its replicas as long as they are wanted, like any other.
#[test]
fn cordoned_nodes_are_not_emptied() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    scaled(&mut cluster, web(4));
    cluster.set_availability("n1", Availability::Cordoned);
    scaled(&mut cluster, web(2));
    assert_eq!(counts(&cluster), [1, 1]);
}

/// R-PLACE-3: pinned replicas that are too many leave the fullest of their hosts; a host that is not
/// named any more is left in any case.
#[test]
fn pinned_replicas_leave_their_hosts_evenly() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    scaled(&mut cluster, web(3).hosts(&["n1", "n2", "n3"]));
    scaled(&mut cluster, web(2).hosts(&["n1", "n2", "n3"]));
    assert_eq!(counts(&cluster).iter().sum::<usize>(), 2);
    scaled(&mut cluster, web(1).hosts(&["n2"]));
    assert_eq!(counts(&cluster), [0, 1, 0]);
}

/// R-PLACE-4: global replicas have no number: one on each node, however they are scaled before.
#[test]
fn global_replicas_follow_the_nodes() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    scaled(&mut cluster, web(5));
    scaled(&mut cluster, web(0).placement(Placement::Global));
    assert_eq!(counts(&cluster), [1, 1, 1]);
    assert_eq!(left(&cluster), ["n1", "n2", "n3"]);
    scaled(&mut cluster, web(2));
    assert_eq!(counts(&cluster).iter().sum::<usize>(), 2);
    assert!(!left(&cluster).contains(&"n1".to_owned()), "{:?}", left(&cluster));
}

proptest! {
    /// R-PLACE-7, R-PLACE-6: whoever is left was there before, at the same place, and as many are left as
    /// are wanted.
    #[test]
    fn the_rest_stays_where_it_is(
        from in 1..9u32, to in 0..9u32, packed in any::<bool>(), hosts in 1..5usize,
    ) {
        let names = ["n1", "n2", "n3", "n4"];
        let placement = if packed { Placement::Pack } else { Placement::Spread };
        let mut cluster = Cluster::of(&names[..hosts]);
        scaled(&mut cluster, web(from).placement(placement.clone()));
        let before = cluster.state.clone();
        scaled(&mut cluster, web(to).placement(placement));
        prop_assert_eq!(cluster.state.slots.len(), to as usize);
        let stayed = cluster.state.slots.values().filter(|slot| {
            let known = before.slots.get(&slot.id);
            known.is_some_and(|known| known.current == slot.current)
        });
        prop_assert_eq!(stayed.count(), from.min(to) as usize, "{}", cluster.show());
    }
}
