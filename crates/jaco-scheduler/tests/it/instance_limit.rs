//! How many instances a node takes, whatever room it has.

use jaco_types::spec::Placement;

use crate::cluster::{Cluster, Service, service};

fn web(version: u32, replicas: u32) -> Service {
    service("web", &format!("web:{version}")).replicas(replicas)
}

/// PL-7, R-RES-3: a node that has as many instances as it takes, of whatever service, gets no further one, and says so;
/// once it takes more, what waits is placed.
#[test]
fn full_node_says_why() {
    for placement in [Placement::Spread, Placement::Pack] {
        let mut cluster = Cluster::of(&["n1"]);
        cluster.limit_instances("n1", 3);
        cluster.apply("blog", &[service("api", "a").replicas(1)]);
        cluster.settle();
        cluster.apply("shop", &[web(1, 4).placement(placement.clone())]);
        cluster.settle();
        assert_eq!(cluster.counts("shop", "web").get("n1"), Some(&2), "{placement:?}");
        let reasons = cluster.reasons("shop", "web");
        assert!(reasons.contains("too_many_instances=1"), "{reasons}");
        cluster.limit_instances("n1", 4);
        cluster.settle();
        assert_eq!(cluster.counts("shop", "web").get("n1"), Some(&3), "{placement:?}");
        cluster.limit_instances("n1", 0);
        cluster.settle();
        assert_eq!(cluster.counts("shop", "web").get("n1"), Some(&4), "{placement:?}");
        assert_eq!(cluster.reasons("shop", "web"), "");
    }
}

/// What a node has no room for goes to one that has.
#[test]
fn others_take_what_a_full_node_does_not() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.limit_instances("n1", 1);
    cluster.apply("shop", &[web(1, 4)]);
    cluster.settle();
    let counts = cluster.counts("shop", "web");
    assert_eq!((counts["n1"], counts["n2"]), (1, 3));
}

/// PL-9, PL-19: replicas on a full node are replaced, one stopped before the other starts; a lower limit moves none.
#[test]
fn full_node_rolls_and_keeps_what_it_has() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.limit_instances("n1", 2);
    cluster.apply("shop", &[web(1, 2)]);
    cluster.settle();
    cluster.apply("shop", &[web(2, 2)]);
    for _ in 0..200 {
        let plan = cluster.pass();
        let instances: usize =
            cluster.state.slots.values().map(|slot| slot.instances().count()).sum();
        assert!(instances <= 2, "{}", cluster.show());
        cluster.obey();
        if plan.changes.is_empty() {
            break;
        }
    }
    cluster.settle();
    let revisions = cluster.state.slots.values().map(|slot| slot.current.revision.0);
    assert_eq!(revisions.collect::<Vec<_>>(), [2, 2], "{}", cluster.reasons("shop", "web"));
    cluster.limit_instances("n1", 1);
    assert_eq!(cluster.settle(), 0, "what runs stays");
    assert_eq!(cluster.counts("shop", "web").get("n1"), Some(&2));
}
