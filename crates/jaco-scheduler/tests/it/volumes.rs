//! Volumes of a class: only nodes that offer it are eligible, and their sizes are counted, each volume once.

use expect_test::expect;
use jaco_state::command::{DeploymentDelete, Disabling};
use jaco_types::{AllocationScope, DeploymentName};
use proptest::prelude::*;

use crate::cluster::{Cluster, key, service};

/// `shop-web-0@n1`: who is where.
fn show(cluster: &Cluster) -> String {
    let slots = cluster.state.slots.values().map(|slot| {
        let host = &cluster.state.nodes.get(&slot.current.node).unwrap().hostname;
        format!("{}@{host}", slot.id)
    });
    slots.collect::<Vec<_>>().join(" ")
}

fn cluster(offers: &[(&str, u64)]) -> Cluster {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    for (host, capacity) in offers {
        cluster.offer_volumes(host, "ssd", *capacity);
    }
    cluster.pass();
    cluster
}

/// R-RES-3: replicas go to nodes that offer the class and have the space, and what does not fit waits with a reason for
/// every node.
#[test]
fn replicas_go_where_their_volumes_have_room() {
    let mut cluster = cluster(&[("n1", 10), ("n2", 4)]);
    cluster.apply("shop", &[service("db", "db:1").volume("shop_data", "ssd", 6)]);
    cluster.apply("blog", &[service("db", "db:1").volume("blog_data", "ssd", 4).replicas(2)]);
    cluster.settle();
    expect!["blog-db-0@n2 blog-db-1@n1 shop-db-0@n1"].assert_eq(&show(&cluster));
    cluster.apply("wiki", &[service("db", "db:1").volume("wiki_data", "ssd", 1)]);
    cluster.settle();
    let answers = jaco_scheduler::explain(&cluster.input(), &key("wiki", "db")).unwrap();
    let shown = answers.iter().map(|answer| format!("{}: {}", answer.hostname, answer.failed[0]));
    expect![[r#"
        n1: 0 B left for volumes of class ssd, 1 B needed
        n2: 0 B left for volumes of class ssd, 1 B needed
        n3: offers no volumes of class ssd"#]]
    .assert_eq(&shown.collect::<Vec<_>>().join("\n"));
    expect!["1 no_eligible_node insufficient_volume_space=2 no_volume_class=1"]
        .assert_eq(&cluster.reasons("wiki", "db"));
    cluster.commit(DeploymentDelete::new(DeploymentName::new("shop").unwrap()).into());
    cluster.settle();
    expect!["blog-db-0@n2 blog-db-1@n1 wiki-db-0@n1"].assert_eq(&show(&cluster));
}

/// R-RES-3: replicas on one node share a volume, and its size counts once; where nothing is declared, nothing is counted.
#[test]
fn a_shared_volume_counts_once() {
    let mut cluster = cluster(&[("n1", 5), ("n2", 0)]);
    let of =
        |name: &str, hosts: &[&str]| service(name, name).volume("shop_data", "ssd", 5).hosts(hosts);
    cluster.apply("shop", &[of("api", &["n1"]), of("db", &["n1"]), of("web", &["n2"])]);
    cluster.settle();
    expect!["shop-api-0@n1 shop-db-0@n1 shop-web-0@n2"].assert_eq(&show(&cluster));
    cluster.apply("wiki", &[service("db", "db:1").volume("wiki_data", "ssd", 1 << 40)]);
    cluster.settle();
    assert!(show(&cluster).ends_with("wiki-db-0@n2"), "{}", show(&cluster));
}

/// R-RES-3, R-SEL-3: a disabled replica keeps the space of its volume: it could not be enabled again otherwise.
#[test]
fn a_disabled_replica_keeps_its_space() {
    let mut cluster = cluster(&[("n1", 5)]);
    cluster.apply("shop", &[service("db", "db:1").volume("shop_data", "ssd", 3)]);
    cluster.settle();
    let of_db = AllocationScope::Service(key("shop", "db"));
    cluster.set_disabled(Disabling::Disable, std::slice::from_ref(&of_db));
    cluster.settle();
    cluster.apply("wiki", &[service("db", "db:1").volume("wiki_data", "ssd", 3)]);
    cluster.settle();
    expect!["shop-db-0@n1"].assert_eq(&show(&cluster));
    cluster.set_disabled(Disabling::Enable, &[of_db]);
    cluster.settle();
    expect!["shop-db-0@n1"].assert_eq(&show(&cluster));
    assert!(cluster.reasons("shop", "db").is_empty());
}

/// R-RES-3: a node that offers less than before keeps what it has, also through a rollout, and takes nothing more.
#[test]
fn less_space_moves_nothing() {
    let mut cluster = cluster(&[("n1", 5)]);
    cluster.apply("shop", &[service("db", "db:1").volume("shop_data", "ssd", 3)]);
    cluster.settle();
    cluster.offer_volumes("n1", "ssd", 1);
    cluster.apply("shop", &[service("db", "db:2").volume("shop_data", "ssd", 3)]);
    cluster.settle();
    let slot = cluster.state.slots.values().next().unwrap();
    assert_eq!(slot.current.revision.0, 2, "the rollout reached it");
    cluster.apply("shop", &[service("db", "db:3").volume("shop_data", "ssd", 4)]);
    cluster.settle();
    let slot = cluster.state.slots.values().next().unwrap();
    assert_eq!(slot.current.revision.0, 2, "there is no room for a larger one");
}

/// R-RES-3: another size counts from the next replica on; until then the one that has no room for it is named.
#[test]
fn another_size_counts_with_the_next_replica() {
    let mut cluster = cluster(&[("n1", 5)]);
    let db = |size| service("db", "db:1").volume("shop_data", "ssd", size);
    cluster.apply("shop", &[db(3)]);
    cluster.settle();
    cluster.apply("shop", &[db(6)]);
    cluster.settle();
    let noncompliant = jaco_scheduler::noncompliant(&cluster.input());
    let failed = noncompliant.iter().flat_map(|one| &one.failed).map(ToString::to_string);
    let failed: Vec<_> = failed.collect();
    expect!["5 B left for volumes of class ssd, 6 B needed"].assert_eq(&failed.join("; "));
    cluster.apply("wiki", &[service("db", "db:1").volume("wiki_data", "ssd", 2)]);
    cluster.settle();
    expect!["shop-db-0@n1 wiki-db-0@n1"].assert_eq(&show(&cluster));
}

proptest! {
    /// R-RES-3, PL-9: whatever the sizes, no more of a node is promised than it declares, and whatever fits somewhere is placed.
    #[test]
    fn no_more_space_is_promised_than_there_is(
        capacities in prop::collection::vec(1..20u64, 3),
        sizes in prop::collection::vec(1..12u64, 1..8),
    ) {
        let mut cluster = cluster(&[]);
        let hosts = ["n1", "n2", "n3"];
        for (host, capacity) in hosts.iter().zip(&capacities) {
            cluster.offer_volumes(host, "ssd", *capacity);
        }
        for (number, size) in sizes.iter().enumerate() {
            let name = format!("a{number}");
            cluster.apply(&name, &[service("db", "db:1").volume(&format!("{name}_data"), "ssd", *size)]);
            cluster.settle();
        }
        let mut left = capacities;
        let mut waiting = Vec::new();
        for (number, size) in sizes.iter().enumerate() {
            let key = key(&format!("a{number}"), "db");
            match cluster.state.slots.values().find(|slot| slot.service == key) {
                Some(slot) => {
                    let host = cluster.state.nodes.get(&slot.current.node).unwrap().hostname.to_string();
                    let at = hosts.iter().position(|known| *known == host).unwrap();
                    prop_assert!(left[at] >= *size, "{host} has {} left of what {size} takes", left[at]);
                    left[at] -= size;
                }
                None => waiting.push(*size),
            }
        }
        prop_assert!(waiting.iter().all(|size| left.iter().all(|left| left < size)), "{waiting:?} {left:?}");
    }
}
