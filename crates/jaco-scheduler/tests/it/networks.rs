//! Replicas and the addresses of their networks (PL-24).

use jaco_scheduler::Planner;
use jaco_state::Outcome;
use jaco_state::command::NetworkRemove;
use jaco_types::spec::{Dependency, DependencyCondition, DependencyRequirement};
use jaco_types::{Millis, NetworkName, ServiceName, Timestamp};
use proptest::prelude::*;

use crate::cluster::{BACKBONE, Cluster, service};
use crate::events::{HOSTS, check, events, happen};

const FULL: &str = "no_address network=backbone remedy=jaco network resize backbone";

/// Three nodes that share a network with so many free addresses.
fn three(free: u32) -> Cluster {
    let mut cluster = Cluster::of(&HOSTS[..3]);
    cluster.share_network(free);
    cluster
}

/// PL-24: what the network has no address for is not placed, and the report names network and remedy.
#[test]
fn replicas_without_an_address_wait() {
    let mut cluster = three(4);
    cluster.apply("shop", &[service("web", "web:1").replicas(6)]);
    cluster.settle();
    assert_eq!(cluster.state.slots.len(), 4);
    assert_eq!(cluster.reasons("shop", "web"), format!("2 {FULL} subnet=10.65.0.0/26"));
    // What is removed frees its addresses a minute after it is gone, and the pass is woken for that.
    cluster.apply("shop", &[service("web", "web:1").replicas(1)]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "web:1").replicas(4)]);
    let plan = cluster.pass();
    let ends = cluster.state.networks.quarantine.values().filter_map(|row| row.until);
    let end = ends.min().unwrap();
    assert!(plan.wake_at.is_some_and(|at| at <= end), "{:?}", plan.wake_at);
    assert_eq!(cluster.reasons("shop", "web"), format!("3 {FULL} subnet=10.65.0.0/26"));
    cluster.advance(Millis(end.since(cluster.now).0 - 1), &[]);
    cluster.settle();
    assert_eq!(cluster.state.slots.len(), 1);
    cluster.advance(Millis(1), &[]);
    cluster.settle();
    assert_eq!(cluster.state.slots.len(), 4);
    assert_eq!(cluster.reasons("shop", "web"), "");
}

/// PL-24: a global replica waits likewise, and one that failed is not restarted without an address.
#[test]
fn restarts_and_global_replicas_wait_too() {
    let mut cluster = three(2);
    let everywhere = service("web", "web:1").placement(jaco_types::spec::Placement::Global);
    cluster.apply("shop", &[everywhere]);
    cluster.settle();
    assert_eq!(cluster.state.slots.len(), 2);
    assert_eq!(cluster.reasons("shop", "web"), format!("1 {FULL} subnet=10.65.0.0/26"));
    let failed = cluster.state.slots.keys().next().unwrap().to_string();
    cluster.see(&failed, jaco_types::ReplicaState::Failed);
    let plan = cluster.pass();
    assert!(plan.changes.iter().all(|change| !format!("{change:?}").contains("SlotReplace")));
    assert!(cluster.reasons("shop", "web").contains(&format!("replica={failed}")));
}

/// PL-24, PL-19: a rollout that has no address for a successor waits for one, and says so.
#[test]
fn rollouts_wait_for_addresses() {
    let mut cluster = three(3);
    cluster.apply("shop", &[service("web", "web:1").replicas(2)]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "web:2").replicas(2)]);
    for _ in 0..20 {
        cluster.pass();
        cluster.obey();
        cluster.advance(Millis(5_000), &[]);
    }
    cluster.settle();
    let images = cluster.state.slots.values().map(|slot| slot.current.revision.0);
    assert_eq!(images.collect::<Vec<_>>(), [2, 2], "{}", cluster.reasons("shop", "web"));
}

/// NET-4: a rollout to networks of the cluster begins once what runs is attached to them, or after ten seconds: a node may
/// be unable to.
#[test]
fn rollouts_wait_for_what_joins_their_networks() {
    let begin = || {
        let mut cluster = Cluster::of(&HOSTS[..3]);
        cluster.apply("shop", &[service("web", "web:1").replicas(3)]);
        cluster.settle();
        cluster.share_network(60);
        cluster.apply("shop", &[service("web", "web:2").replicas(3)]);
        cluster
    };
    let news = |cluster: &Cluster| {
        cluster.state.slots.values().filter(|slot| slot.current.revision.0 == 2).count()
    };
    let mut cluster = begin();
    let plan = cluster.pass();
    assert_eq!(news(&cluster), 0);
    assert!(plan.wake_at.is_some_and(|at| at <= cluster.now.after(Millis(10_000))));
    let joining: Vec<_> = cluster.state.slots.values().cloned().collect();
    for (at, slot) in joining.iter().enumerate() {
        assert_eq!(news(&cluster), 0, "{at} of 3 are attached");
        cluster.attach_current(slot);
        cluster.pass();
    }
    assert_eq!(news(&cluster), 1);
    let mut cluster = begin();
    cluster.pass();
    cluster.advance(Millis(9_999), &[]);
    cluster.pass();
    assert_eq!(news(&cluster), 0);
    cluster.advance(Millis(1), &[]);
    cluster.pass();
    assert_eq!(news(&cluster), 1);
}

/// R-CLI-2, NET-4: the forecast of a move attaches what runs, as nodes do, and has all of its steps.
#[test]
fn the_forecast_of_a_move_has_all_steps() {
    let mut cluster = Cluster::of(&HOSTS[..3]);
    let web = |image: &str| {
        service("web", image).replicas(3).with(|spec| spec.update.monitor = Some(Millis(0)))
    };
    cluster.apply("shop", &[web("web:1")]);
    cluster.settle();
    cluster.share_network(60);
    cluster.apply("shop", &[web("web:2")]);
    let forecast = jaco_scheduler::forecast(&cluster.input());
    assert_eq!((forecast.end, forecast.moves.len()), (jaco_scheduler::forecast::End::Rest, 3));
    // What nobody attached is waited for ten seconds.
    let taken = forecast.now.since(cluster.now);
    assert!(taken < Millis(10_000), "{taken:?}");
}

/// `web` asks `api`, on one node, in networks of the node; both are about to move to the cluster's.
fn moving(needs: &[Dependency]) -> Cluster {
    moving_with(needs, [0, 0])
}

/// The same; they reserve so many thousandths of a processor.
fn moving_with(needs: &[Dependency], reserved: [u64; 2]) -> Cluster {
    let services = |version: u8| {
        let of = |name: &str, needs: &[Dependency], reserved| {
            let made = service(name, &format!("{name}:{version}")).replicas(1);
            made.reserves(reserved, 0).with(|spec| {
                spec.update.monitor = Some(Millis(0));
                spec.depends_on = needs.to_vec();
            })
        };
        [of("web", needs, reserved[0]), of("api", &[], reserved[1])]
    };
    let mut cluster = Cluster::of(&HOSTS[..1]);
    cluster.attach("edge", Millis::from_secs(600));
    cluster.apply("shop", &services(1));
    cluster.settle();
    cluster.share_network(60);
    cluster.apply("shop", &services(2));
    let slots: Vec<_> = cluster.state.slots.values().cloned().collect();
    slots.iter().for_each(|slot| cluster.attach_current(slot));
    cluster
}

/// `web` depends on it.
fn api() -> Dependency {
    let (service, condition) = (ServiceName::new("api").unwrap(), DependencyCondition::Healthy);
    Dependency { service, condition, required: DependencyRequirement::Required }
}

fn leaving(cluster: &Cluster) -> Vec<String> {
    cluster.state.terminating.keys().map(|id| id.replica.to_string()).collect()
}

/// One turn: the planner, then what it started runs, then consumers know of the endpoints.
fn turn(cluster: &mut Cluster) {
    cluster.pass();
    cluster.run_all();
    cluster.pass();
    let newest = cluster.state.index;
    cluster.acknowledge("edge", newest);
    cluster.pass();
}

/// NET-4: what is replaced while its deployment moves runs as long as others on its node know it by the engine's names: those
/// that are still to be replaced, and those that depend on it until they are gone.
#[test]
fn replaced_replicas_wait_for_those_that_know_them_by_the_engine() {
    let mut cluster = moving(&[api()]);
    turn(&mut cluster);
    assert_eq!(leaving(&cluster), ["shop-api-0"], "web is not replaced yet");
    turn(&mut cluster);
    assert_eq!(leaving(&cluster), ["shop-api-0"], "web stops, and is there");
    cluster.clear_up();
    cluster.pass();
    assert_eq!(leaving(&cluster), [""; 0]);
    // Where none depends on the other, they end together, once nobody asks either.
    let mut cluster = moving(&[]);
    cluster.pass();
    cluster.run_all();
    cluster.pass();
    assert_eq!(leaving(&cluster), ["shop-api-0", "shop-web-0"]);
    let newest = cluster.state.index;
    cluster.acknowledge("edge", newest);
    cluster.pass();
    assert_eq!(leaving(&cluster), [""; 0]);
}

/// NET-4: what reserves room that its neighbour's successor may need is not kept for that neighbour.
#[test]
fn replaced_replicas_keep_no_room_from_their_neighbours() {
    for (reserved, kept) in [([100, 100], 0), ([100, 0], 1), ([0, 100], 1)] {
        let mut cluster = moving_with(&[api()], reserved);
        turn(&mut cluster);
        assert_eq!(leaving(&cluster).len(), kept, "{reserved:?}");
    }
}

/// NET-4: nothing is kept for ever: what others wait for has an end.
#[test]
fn replaced_replicas_wait_for_two_minutes_at_most() {
    let mut cluster = moving(&[api()]);
    turn(&mut cluster);
    let web = cluster.state.slots.values().find(|slot| slot.service.service.as_str() == "web");
    assert!(web.is_some_and(|slot| slot.retiring.is_some()));
    cluster.advance(Millis(119_000), &[]);
    assert!(leaving(&cluster).contains(&"shop-api-0".to_owned()));
    cluster.advance(Millis(1_000), &[]);
    cluster.pass();
    assert!(!leaving(&cluster).contains(&"shop-api-0".to_owned()));
}

/// A node without a router that works takes no replica with networks of the cluster, and the report says why; others
/// it takes. Replicas that run there stay.
#[test]
fn a_node_without_a_router_takes_no_replica_of_a_network() {
    let mut cluster = three(60);
    for host in HOSTS.into_iter().take(3) {
        cluster.report_router(host, None);
    }
    let web = |count| service("web", "web:1").replicas(count);
    cluster.apply("shop", &[web(3)]);
    cluster.settle();
    cluster.report_router("n1", Some("nft cannot be run"));
    cluster.settle();
    let on = |cluster: &Cluster, host: &str| {
        let node = cluster.node(host);
        cluster.state.slots.values().filter(|slot| slot.current.node == node).count()
    };
    assert_eq!(on(&cluster, "n1"), 1, "what runs goes on");
    cluster.apply("shop", &[web(6)]);
    cluster.settle();
    assert_eq!(["n1", "n2", "n3"].map(|host| on(&cluster, host)).iter().sum::<usize>(), 6);
    assert_eq!(on(&cluster, "n1"), 1);
    for host in ["n2", "n3"] {
        cluster.report_router(host, Some("nft cannot be run"));
    }
    cluster.apply("shop", &[web(7)]);
    cluster.settle();
    expect_test::expect!["1 no_eligible_node no_network=3"]
        .assert_eq(&cluster.reasons("shop", "web"));
    cluster.report_router("n1", None);
    cluster.settle();
    assert_eq!((on(&cluster, "n1"), cluster.reasons("shop", "web")), (2, String::new()));
}

/// PL-24: a shared network that is not there any more is named with the command that creates it.
#[test]
fn a_missing_network_is_named() {
    let mut cluster = three(4);
    cluster.apply("shop", &[service("web", "web:1")]);
    cluster.apply(
        "shop",
        &[service("web", "web:2").with(|spec| {
            spec.scheduling.shares_namespaces_with.insert("none".parse().unwrap());
        })],
    );
    cluster.state.networks.quarantine = jaco_state::Table::default();
    let network = *cluster.state.networks.rows.keys().next().unwrap();
    cluster.state.networks.rows.get_mut(&network).unwrap().taken.clear();
    let name = NetworkName::new(BACKBONE).unwrap();
    assert_eq!(cluster.commit(NetworkRemove::new(name).into()), Outcome::Done);
    let name = "shop".parse().unwrap();
    let back = jaco_state::command::DeploymentRollback::new(name).to(Some(jaco_types::Revision(1)));
    let Outcome::Rejected(rejection) = cluster.commit(back.into()) else { panic!() };
    assert_eq!(rejection.code, jaco_types::ErrorCode::NetworkNotFound);
    assert!(rejection.message.contains("jaco network create backbone"), "{}", rejection.message);
}

proptest! {
    /// PL-24, PL-14, PL-2: whatever happens, no plan gives away more addresses than there are (its batch
    /// would be refused), and a planner with memory gives the same.
    #[test]
    fn no_plan_gives_away_more_addresses_than_there_are(
        events in events(1..40),
        free in 0..12u32,
        back in any::<bool>(),
    ) {
        let mut cluster = three(free);
        let mut planner = Planner::default();
        for event in &events {
            happen(&mut cluster, event);
            if back {
                cluster.now = Timestamp(cluster.now.0.saturating_sub(500));
            }
            let before = cluster.clone();
            prop_assert_eq!(&planner.plan(&cluster.input()), &cluster.plan());
            let plan = cluster.pass();
            check(&before, &plan, &cluster);
        }
    }
}
