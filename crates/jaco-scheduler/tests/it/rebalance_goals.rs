//! Rebalancing on operator request: replicas apart or together, each move for something, and no second run.

use jaco_scheduler::rebalance::{Arranged, Concerned, Goal, arrange, arrangement, concerned};
use jaco_state::Outcome;
use jaco_state::audit::AuditKind;
use jaco_state::command::Rebalance;
use jaco_types::Availability;
use jaco_types::spec::Placement;
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, service};

const HOSTS: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Some services, placed while some of the nodes took nothing.
fn world(services: &[(u32, bool, bool)], closed: [bool; 4]) -> Cluster {
    let mut cluster = Cluster::of(&HOSTS);
    let names = ["a", "b", "c", "d"];
    let one = |(name, (replicas, is_packed, is_stateful)): (&&str, &(u32, bool, bool))| {
        let placement = if *is_packed { Placement::Pack } else { Placement::Spread };
        let service = service(name, name).replicas(*replicas).placement(placement);
        if *is_stateful { service.stateful() } else { service }
    };
    let services: Vec<Service> = names.iter().zip(services).map(one).collect();
    // The first is always open, so that everything is placed.
    for (host, closed) in HOSTS.iter().zip(closed).skip(1) {
        if closed {
            cluster.set_availability(host, Availability::Cordoned);
        }
    }
    cluster.apply("shop", &services);
    cluster.settle();
    for host in HOSTS {
        cluster.set_availability(host, Availability::Active);
    }
    cluster
}

fn make(cluster: &mut Cluster, goal: Goal, moves: &[Arranged]) {
    let moves = arrangement(&cluster.state, goal, moves);
    let based_on = cluster.state.index;
    let command = Rebalance::new(based_on, moves).into();
    assert_eq!(cluster.commit(command), Outcome::Done);
}

proptest! {
    /// R-REB-9: each move lowers the potential, by what it says; once they are made, and once they are
    /// done, a second run is empty; what has data stays.
    #[test]
    fn rebalance_reaches_its_goal_and_keeps_it(
        services in prop::collection::vec((0..7u32, any::<bool>(), any::<bool>()), 1..4),
        closed in any::<[bool; 4]>(),
        spread in any::<bool>(),
    ) {
        let goal = if spread { Goal::Spread } else { Goal::Pack };
        let mut cluster = world(&services, closed);
        let moves = arrange(&cluster.state, goal, 1000);
        let mut potential = None;
        for one in &moves {
            prop_assert!(one.potential.1 < one.potential.0, "{one:?}");
            prop_assert!(potential.is_none_or(|before| before == one.potential.0), "{one:?}");
            potential = Some(one.potential.1);
            let index = ["a", "b", "c", "d"].iter().position(|name| one.service.service.as_str() == *name);
            let (_, is_packed, is_stateful) = services[index.unwrap()];
            prop_assert!(!is_stateful && is_packed != spread, "{one:?}");
        }
        make(&mut cluster, goal, &moves);
        prop_assert_eq!(arrange(&cluster.state, goal, 1000), vec![], "they are in progress");
        cluster.settle();
        prop_assert_eq!(arrange(&cluster.state, goal, 1000), vec![], "they are done");
        prop_assert_eq!(cluster.audited(AuditKind::RebalanceMoved), moves.len());
    }
}

/// R-REB-9: what each move gains is reported, and as many are made as were asked for.
#[test]
fn rebalance_spreads_and_packs_replicas() {
    let closed = [false, true, true, true];
    let mut cluster = world(&[(4, false, false)], closed);
    let moves = arrange(&cluster.state, Goal::Spread, 1000);
    let falls: Vec<_> = moves.iter().map(|one| one.potential).collect();
    assert_eq!(falls, [(16, 10), (10, 6), (6, 4)]);
    assert_eq!(arrange(&cluster.state, Goal::Spread, 1), moves[..1]);
    make(&mut cluster, Goal::Spread, &moves);
    cluster.settle();
    let counts = cluster.counts("shop", "a");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let mut events = cluster.state.audit.events.values();
    let event = events.rfind(|event| event.kind == AuditKind::RebalanceMoved).unwrap();
    assert_eq!(event.payload["potential_after"], "4");
    assert_eq!(arrange(&cluster.state, Goal::Pack, 1000), vec![], "spread ones are not packed");
}

/// R-REB-9: where packed replicas stand alone on nodes, these become free; a closed node receives none.
#[test]
fn rebalance_by_packing_frees_nodes() {
    let mut cluster = Cluster::of(&HOSTS);
    let packed = |name: &str| service(name, name).replicas(2).placement(Placement::Pack);
    for (name, open) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
        for host in HOSTS {
            let is_open = if host == open { Availability::Active } else { Availability::Cordoned };
            cluster.set_availability(host, is_open);
        }
        cluster.apply(name, &[packed("web")]);
        cluster.settle();
    }
    for host in ["n1", "n2"] {
        cluster.set_availability(host, Availability::Active);
    }
    cluster.set_availability("n3", Availability::Cordoned);
    let moves = arrange(&cluster.state, Goal::Pack, 1000);
    make(&mut cluster, Goal::Pack, &moves);
    cluster.settle();
    let on = |deployment: &str| cluster.counts(deployment, "web");
    assert_eq!((on("a"), on("b")), (on("c"), on("a")), "all six are on one node");
}

/// R-REB-9: what counts is the placement that is desired now, also while the containers are those of the
/// revision that had another.
#[test]
fn changed_placement_is_what_is_arranged() {
    let mut cluster = world(&[(4, false, false)], [false; 4]);
    assert_eq!(arrange(&cluster.state, Goal::Pack, 1000), vec![]);
    assert_eq!(concerned(&cluster.state, Goal::Pack), Concerned::default());
    let packed = service("a", "a").replicas(4).placement(Placement::Pack);
    cluster.apply("shop", &[packed]);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "a").values().copied().max(), Some(1), "nobody has moved");
    assert_eq!(arrange(&cluster.state, Goal::Pack, 1000).len(), 3);
    assert_eq!(arrange(&cluster.state, Goal::Spread, 1000), vec![]);
    let all = Concerned { replicas: 4, movable: 4 };
    assert_eq!(concerned(&cluster.state, Goal::Pack), all);
}

/// Replicas with data are meant, and do not move.
#[test]
fn immovable_replicas_are_counted() {
    let cluster = world(&[(3, false, true)], [false; 4]);
    assert_eq!(concerned(&cluster.state, Goal::Spread), Concerned { replicas: 3, movable: 0 });
}
