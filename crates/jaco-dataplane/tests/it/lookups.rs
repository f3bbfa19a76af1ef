//! Which names lead where, for whom.

use expect_test::{Expect, expect};
use jaco_dataplane::{Addresses, Lookup, Readiness, Topology, lookup, lookup_address, plan};
use jaco_types::{NetworkReach, NodeId};

use crate::cluster::{instance, network, topology};

/// `shop` and `blog` share network 9; each has a network of its own.
fn two_deployments() -> Topology {
    let mut starting = instance(1, "shop/db", &[1], 20);
    starting.readiness = Readiness::Starting;
    let mut terminating = instance(2, "shop/web", &[1, 9], 13);
    terminating.readiness = Readiness::Terminating;
    let mut aliased = instance(2, "blog/web", &[2, 9], 31);
    aliased.names.insert("front.door".to_owned());
    let instances = [
        instance(1, "shop/web", &[1, 9], 11),
        instance(2, "shop/web", &[1, 9], 12),
        terminating,
        starting,
        instance(1, "blog/web", &[2, 9], 30),
        aliased,
        instance(1, "shop/cache", &[9], 40),
    ];
    let mut topology = topology(&[1, 2], &[1, 2, 9], instances);
    topology.networks.extend([network(2, NetworkReach::Internal)]);
    topology
}

fn shown(lookup: Lookup) -> String {
    match lookup {
        Lookup::Known(Addresses { ready_here, ready_elsewhere, starting }) => {
            format!("here {ready_here:?} elsewhere {ready_elsewhere:?} starting {starting:?}")
        }
        Lookup::Unknown => "unknown".to_owned(),
        Lookup::Foreign => "foreign".to_owned(),
    }
}

fn check(asker: [u8; 4], name: &str, expected: &Expect) {
    let names = plan(&two_deployments(), NodeId(1)).names;
    let asker = &names.askers[&asker.into()];
    expected.assert_eq(&shown(lookup(&names, asker, name)));
}

#[test]
fn short_names_are_those_of_the_own_deployment() {
    let shop = expect!["here {10.65.1.11} elsewhere {10.65.1.12} starting {}"];
    let blog = expect!["here {10.65.2.30} elsewhere {10.65.2.31} starting {}"];
    for name in ["web", "tasks.web", "web.shop", "web.shop.jaco.internal", "tasks.web.shop"] {
        check([10, 65, 1, 11], name, &shop);
    }
    check([10, 65, 2, 30], "web", &blog);
    check([10, 65, 9, 30], "web", &blog);
    // In the shared network alone, the own deployment has no `web` first.
    check([10, 65, 9, 40], "web", &expect!["here {10.65.9.11} elsewhere {10.65.9.12} starting {}"]);
    check(
        [10, 65, 9, 40],
        "web.blog",
        &expect!["here {10.65.9.30} elsewhere {10.65.9.31} starting {}"],
    );
    check([10, 65, 2, 30], "cache", &expect!["here {10.65.9.40} elsewhere {} starting {}"]);
    check([10, 65, 2, 30], "front.door", &expect!["here {} elsewhere {10.65.2.31} starting {}"]);
}

#[test]
fn what_is_not_shared_is_not_known() {
    check([10, 65, 2, 30], "db", &expect!["foreign"]);
    check([10, 65, 2, 30], "db.shop.jaco.internal", &expect!["unknown"]);
    check([10, 65, 2, 30], "jaco.internal", &expect!["unknown"]);
    check([10, 65, 2, 30], "notjaco.internal", &expect!["foreign"]);
    check([10, 65, 2, 30], "example.org", &expect!["foreign"]);
}

#[test]
fn terminating_instances_have_no_name_and_starting_ones_wait_their_turn() {
    check([10, 65, 1, 11], "web-13", &expect!["foreign"]);
    check([10, 65, 1, 11], "db", &expect!["here {} elsewhere {} starting {10.65.1.20}"]);
    check([10, 65, 1, 11], "web-12", &expect!["here {} elsewhere {10.65.1.12} starting {}"]);
}

#[test]
fn addresses_have_the_name_of_their_replica() {
    let names = plan(&two_deployments(), NodeId(1)).names;
    let asker = |address: [u8; 4]| &names.askers[&address.into()];
    let check = |from, address: [u8; 4], expected: Option<&str>| {
        assert_eq!(lookup_address(&names, asker(from), address.into()).as_deref(), expected);
    };
    check([10, 65, 1, 11], [10, 65, 1, 12], Some("web-12.shop.jaco.internal"));
    check([10, 65, 1, 11], [10, 65, 1, 13], Some("web-13.shop.jaco.internal"));
    check([10, 65, 2, 30], [10, 65, 1, 12], None);
    check([10, 65, 2, 30], [10, 65, 9, 12], Some("web-12.shop.jaco.internal"));
    check([10, 65, 2, 30], [8, 8, 8, 8], None);
}

#[test]
fn only_members_of_external_networks_ask_outside() {
    let mut topology = two_deployments();
    topology.networks.extend([network(9, NetworkReach::Internal)]);
    let names = plan(&topology, NodeId(1)).names;
    assert_eq!(names.askers[&[10, 65, 1, 11].into()].reach, NetworkReach::Outside);
    assert_eq!(names.askers[&[10, 65, 2, 30].into()].reach, NetworkReach::Internal);
    // Only instances of this site may ask here.
    assert!(!names.askers.contains_key(&[10, 65, 1, 12].into()));
}
