//! Disabled allocations, as the planner carries them out.

use jaco_scheduler::explain;
use jaco_scheduler::suggestion::smallest_change;
use jaco_state::command::{DataMove, Disabling};
use jaco_state::view::{Convergence, convergence};
use jaco_state::{Change, Outcome};
use jaco_types::spec::Placement;
use jaco_types::{
    AllocationScope, Availability, DesiredState, Millis, NodeId, ReplicaId, ReplicaState, Revision,
    RolloutState,
};

use crate::cluster::{Cluster, key, resources, service};

fn web() -> AllocationScope {
    AllocationScope::Service(key("shop", "web"))
}

fn pair(node: NodeId) -> AllocationScope {
    AllocationScope::Pair { service: key("shop", "web"), node }
}

/// The node of each replica; disabled ones in brackets.
fn show(cluster: &Cluster) -> String {
    let slots = cluster.state.slots.values().map(|slot| {
        let host = cluster.state.nodes.get(&slot.current.node).unwrap().hostname.to_string();
        match slot.desired_state {
            DesiredState::Active | DesiredState::Finished(_) => format!("{}@{host}", slot.id),
            DesiredState::Disabled => format!("[{}@{host}]", slot.id),
        }
    });
    slots.collect::<Vec<_>>().join(" ")
}

fn reached(cluster: &Cluster) -> Convergence {
    let shop = cluster.state.deployments.get(&"shop".parse().unwrap()).unwrap();
    convergence(&cluster.state, shop)
}

/// `web` once on each of three nodes.
fn three() -> Cluster {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[service("web", "w").replicas(3)]);
    cluster.settle();
    cluster
}

/// R-SEL-3, R-SEL-4: a disabled replica stops where it is and is not replaced elsewhere; enabled, it runs
/// where it was, as the first instance of a new budget.
#[test]
fn disabled_replica_keeps_its_place() {
    let mut cluster = three();
    let n2 = cluster.node("n2");
    let before = show(&cluster);
    cluster.set_disabled(Disabling::Disable, &[pair(n2)]);
    assert_eq!(reached(&cluster), Convergence::Progressing);
    let passes = cluster.settle();
    assert_eq!(passes, 1);
    let disabled: Vec<_> = cluster
        .state
        .slots
        .values()
        .filter(|slot| slot.desired_state == DesiredState::Disabled)
        .collect();
    assert_eq!(disabled.len(), 1);
    assert_eq!(disabled[0].current.node, n2);
    assert_eq!(cluster.state.slots.len(), 3);
    assert_eq!(reached(&cluster), Convergence::Converged);
    cluster.set_disabled(Disabling::Enable, &[pair(n2)]);
    let plan = cluster.pass();
    let causes = Cluster::causes(&plan);
    assert!(causes.len() == 1 && causes[0].ends_with(":enabled"), "{causes:?}");
    cluster.settle();
    assert_eq!(show(&cluster), before);
    assert_eq!(reached(&cluster), Convergence::Converged);
}

/// R-SEL-4: a disabled node keeps what it has, stopped, and nothing new runs there: neither one more
/// replica nor one that leaves another node.
#[test]
fn disabled_node_runs_nothing_new() {
    let mut cluster = three();
    let n2 = cluster.node("n2");
    cluster.set_disabled(Disabling::Disable, &[AllocationScope::Node(n2)]);
    cluster.apply("shop", &[service("web", "w").replicas(6)]);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "web")["n2"], 1);
    cluster.set_availability("n3", Availability::Draining);
    cluster.settle();
    let counts = cluster.counts("shop", "web");
    assert_eq!((counts["n1"], counts["n2"], counts["n3"]), (5, 1, 0));
    cluster.set_disabled(Disabling::Enable, &[AllocationScope::Node(n2)]);
    cluster.settle();
    assert!(cluster.state.slots.values().all(|slot| slot.desired_state == DesiredState::Active));
}

/// R-SEL-3, R-RES-3: a disabled replica without data reserves no capacity and no port: others get its room, and
/// it waits by name until there is some again.
#[test]
fn disabled_replica_frees_its_reservation() {
    let mut cluster = Cluster::empty();
    cluster.join_with("n1", resources(1000, 0));
    cluster.pass();
    let db = || service("db", "d").reserves(800, 0).stateful();
    let web = |replicas| service("web", "w").reserves(800, 0).host_port(80).replicas(replicas);
    cluster.apply("shop", &[db()]);
    cluster.settle();
    let of_db = AllocationScope::Service(key("shop", "db"));
    cluster.set_disabled(Disabling::Disable, std::slice::from_ref(&of_db));
    cluster.apply("shop", &[db(), web(1)]);
    cluster.settle();
    assert_eq!(show(&cluster), "[shop-db-0@n1] shop-web-0@n1");
    cluster.set_disabled(Disabling::Enable, &[of_db]);
    cluster.settle();
    assert_eq!(show(&cluster), "[shop-db-0@n1] shop-web-0@n1");
    let why = "1 no_room_to_start insufficient_cpu=1 node=n1 replica=shop-db-0";
    assert_eq!(cluster.reasons("shop", "db"), why);
    assert_eq!(reached(&cluster), Convergence::CannotPlace);
    cluster.apply("shop", &[db(), web(0)]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-db-0@n1");
}

/// R-SEL-3: a replica whose volumes were copied to another node starts there, and only there; without room it waits, and
/// does not go back to where they were.
#[test]
fn replica_starts_where_its_data_was_moved_to() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2", "n3"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    let db = || service("db", "d").reserves(800, 0).stateful();
    cluster.apply("shop", &[db()]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-db-0@n3");
    let of_db = AllocationScope::Service(key("shop", "db"));
    cluster.set_disabled(Disabling::Disable, std::slice::from_ref(&of_db));
    cluster.settle();
    let n1 = cluster.node("n1");
    let slot = cluster.state.slots.values().next().unwrap();
    let replicas = [(slot.id.clone(), slot.current.raft_index)].into();
    assert_eq!(cluster.commit(DataMove::new(replicas, n1).into()), Outcome::Done);
    cluster.settle();
    assert_eq!(show(&cluster), "[shop-db-0@n1]");
    cluster.set_disabled(Disabling::Enable, std::slice::from_ref(&of_db));
    cluster.settle();
    assert_eq!(show(&cluster), "shop-db-0@n1");
    assert_eq!(reached(&cluster), Convergence::Converged);
    // Again, to a node that something else fills meanwhile.
    cluster.set_disabled(Disabling::Disable, std::slice::from_ref(&of_db));
    cluster.set_availability("n1", Availability::Cordoned);
    cluster.set_availability("n3", Availability::Cordoned);
    cluster.apply("blog", &[service("web", "w").reserves(800, 0)]);
    cluster.settle();
    let n2 = cluster.node("n2");
    let slot = cluster.state.slots.get(&ReplicaId::parse("shop-db-0").unwrap()).unwrap();
    let replicas = [(slot.id.clone(), slot.current.raft_index)].into();
    assert_eq!(cluster.commit(DataMove::new(replicas, n2).into()), Outcome::Done);
    cluster.set_availability("n1", Availability::Active);
    cluster.set_availability("n3", Availability::Active);
    cluster.set_disabled(Disabling::Enable, &[of_db]);
    cluster.settle();
    assert_eq!(show(&cluster), "blog-web-0@n2 [shop-db-0@n2]");
    let why = "1 no_room_to_start data_elsewhere=2 insufficient_cpu=1 node=n2 replica=shop-db-0";
    assert_eq!(cluster.reasons("shop", "db"), why);
}

/// R-SEL-3: what has no data and no room where it was starts where there is some.
#[test]
fn enabled_replica_without_data_starts_where_there_is_room() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    cluster.apply("shop", &[service("web", "w").reserves(800, 0)]);
    cluster.settle();
    let home = cluster.slot("shop-web-0").current.node;
    cluster.set_disabled(Disabling::Disable, &[web()]);
    cluster.settle();
    let host = cluster.state.nodes.get(&home).unwrap().hostname.clone();
    let hosts = Placement::Hosts([host].into());
    cluster.apply("blog", &[service("web", "b").reserves(800, 0).placement(hosts)]);
    cluster.settle();
    cluster.set_disabled(Disabling::Enable, &[web()]);
    cluster.settle();
    assert_ne!(cluster.slot("shop-web-0").current.node, home);
    assert_eq!(reached(&cluster), Convergence::Converged);
}

/// R-SEL-3: what was created disabled has no data yet: it starts where there is room.
#[test]
fn replica_created_disabled_is_bound_by_no_data() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    let web_of = |replicas| {
        let web = service("web", "w").reserves(800, 0).stateful().placement(Placement::Pack);
        [web.replicas(replicas)]
    };
    cluster.apply("shop", &web_of(1));
    cluster.settle();
    cluster.set_disabled(Disabling::Disable, &[web()]);
    cluster.apply("shop", &web_of(2));
    cluster.settle();
    assert_eq!(show(&cluster), "[shop-web-0@n1] [shop-web-1@n1]");
    cluster.set_disabled(Disabling::Enable, &[web()]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-web-0@n1 shop-web-1@n2");
}

/// R-SEL-3, PL-8: a replica that got data while it was disabled starts on another node, and leaves the room
/// on its own to the one whose data is there.
#[test]
fn replica_with_data_starts_before_one_without() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    let of = |image| service("web", image).reserves(800, 0).replicas(2);
    cluster.apply("shop", &[of("w:1")]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-web-0@n1 shop-web-1@n2");
    let first = ReplicaId::parse("shop-web-0").unwrap();
    let first = AllocationScope::Replica { service: key("shop", "web"), id: first };
    cluster.set_disabled(Disabling::Disable, &[first]);
    cluster.settle();
    cluster.set_availability("n2", Availability::Draining);
    cluster.settle();
    cluster.apply("shop", &[of("w:2").stateful()]);
    cluster.settle();
    assert_eq!(cluster.slot("shop-web-1").current.revision, Revision(2), "it has data on n1");
    cluster.set_disabled(Disabling::Disable, &[web()]);
    cluster.set_availability("n2", Availability::Active);
    cluster.settle();
    assert_eq!(show(&cluster), "[shop-web-0@n1] [shop-web-1@n1]");
    cluster.set_disabled(Disabling::Enable, &[web()]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-web-0@n2 shop-web-1@n1");
}

/// R-SEL-3: a rollout skips disabled replicas: their definitions are updated, no step is made and nothing of
/// it is waited for.
#[test]
fn rollout_skips_disabled_replicas() {
    let mut cluster = three();
    let n1 = cluster.node("n1");
    cluster.set_disabled(Disabling::Disable, &[pair(n1)]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "w:2").replicas(3)]);
    cluster.settle();
    let wanted = cluster.state.deployments.get(&"shop".parse().unwrap()).unwrap().revision;
    for slot in cluster.state.slots.values() {
        assert_eq!(slot.current.revision, wanted, "{}", slot.id);
    }
    let rollout = cluster.state.scheduling.get(&key("shop", "web")).unwrap().rollout.clone();
    let rollout = rollout.unwrap();
    assert_eq!((rollout.total_steps, rollout.current_step), (2, 2));
    assert_eq!(rollout.state, RolloutState::Completed);
}

/// R-SEL-3: a whole service may be disabled while it changes; it starts as what is wanted then.
#[test]
fn disabled_service_is_updated_without_a_rollout() {
    let mut cluster = three();
    cluster.set_disabled(Disabling::Disable, &[web()]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "w:2").replicas(4)]);
    cluster.settle();
    assert!(cluster.state.slots.values().all(|slot| slot.desired_state == DesiredState::Disabled));
    assert_eq!(cluster.state.slots.len(), 4, "what is new is disabled too");
    assert_eq!(reached(&cluster), Convergence::Converged);
    cluster.set_disabled(Disabling::Enable, &[web()]);
    cluster.settle();
    assert_eq!(reached(&cluster), Convergence::Converged);
    assert!(cluster.state.slots.values().all(|slot| slot.desired_state == DesiredState::Active));
}

/// R-SEL-2, R-SEL-3: `global`: a disabled node has its allocation, which takes no room; drained, it
/// goes, and comes back disabled.
#[test]
fn global_service_is_disabled_node_by_node() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    let n2 = cluster.node("n2");
    cluster.set_disabled(Disabling::Disable, &[AllocationScope::Node(n2)]);
    let agent = service("agent", "a").placement(Placement::Global).reserves(800, 0);
    cluster.apply("shop", &[agent]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-agent-n1@n1 [shop-agent-n2@n2]");
    cluster.set_availability("n2", Availability::Draining);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-agent-n1@n1");
    cluster.set_availability("n2", Availability::Active);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-agent-n1@n1 [shop-agent-n2@n2]");
    cluster.set_disabled(Disabling::Enable, &[AllocationScope::Node(n2)]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-agent-n1@n1 shop-agent-n2@n2");
}

/// R-SEL-3, R-NODE-2: a disabled replica does not hold a drain up; it stays where it is, and starts elsewhere
/// if it is enabled while its node is drained.
#[test]
fn drain_ignores_disabled_replicas() {
    let mut cluster = three();
    let n3 = cluster.node("n3");
    cluster.set_disabled(Disabling::Disable, &[pair(n3)]);
    cluster.settle();
    cluster.set_availability("n3", Availability::Draining);
    let plan = cluster.pass();
    assert_eq!(plan.changes, vec![]);
    cluster.set_disabled(Disabling::Enable, &[pair(n3)]);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "web")["n3"], 0);
    assert_eq!(reached(&cluster), Convergence::Converged);
}

/// R-SEL-3: nothing of it is restarted, and its failures of before are forgotten.
#[test]
fn disabled_replica_is_never_restarted() {
    let mut cluster = three();
    for _ in 0..3 {
        cluster.see("shop-web-1", ReplicaState::Failed);
        cluster.advance(Millis::from_secs(31), &[]);
        cluster.pass();
    }
    assert!(cluster.slot("shop-web-1").restarts.consecutive > 1);
    let replica = AllocationScope::Replica {
        service: key("shop", "web"),
        id: ReplicaId::parse("shop-web-1").unwrap(),
    };
    cluster.set_disabled(Disabling::Disable, std::slice::from_ref(&replica));
    cluster.settle();
    let slot = cluster.slot("shop-web-1");
    assert_eq!((slot.desired_state, slot.restarts.consecutive), (DesiredState::Disabled, 0));
    cluster.advance(Millis::from_secs(600), &[]);
    assert_eq!(cluster.pass().changes, vec![]);
}

/// R-SEL-3: scaled down, what does not serve goes first, and its disablement with it.
#[test]
fn disabled_replicas_are_removed_first() {
    let mut cluster = three();
    let replica = AllocationScope::Replica {
        service: key("shop", "web"),
        id: ReplicaId::parse("shop-web-0").unwrap(),
    };
    cluster.set_disabled(Disabling::Disable, &[replica]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "w").replicas(2)]);
    cluster.settle();
    assert!(cluster.state.slots.values().all(|slot| slot.desired_state == DesiredState::Active));
    assert!(cluster.state.disabled.scopes.is_empty());
}

/// R-SEL-3: a replica that moves to a node which is disabled stays where it still serves.
#[test]
fn move_to_a_disabled_node_is_reverted() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[service("web", "w")]);
    cluster.settle();
    let home = cluster.slot("shop-web-0").current.node;
    let host = cluster.state.nodes.get(&home).unwrap().hostname.to_string();
    cluster.set_availability(&host, Availability::Draining);
    cluster.pass();
    let going = cluster.slot("shop-web-0").current.node;
    assert_ne!(going, home);
    cluster.set_disabled(Disabling::Disable, &[AllocationScope::Node(going)]);
    let plan = cluster.pass();
    let reverts = |change: &Change| matches!(change, Change::SlotRevert { .. });
    assert!(plan.changes.iter().any(reverts), "{:?}", plan.changes);
    let slot = cluster.slot("shop-web-0");
    assert_eq!((slot.current.node, slot.desired_state), (home, DesiredState::Active));
}

/// R-SEL-4, PL-2: pinned to hosts of which one is disabled, a service waits and reports which.
#[test]
fn disabled_pinned_host_is_reported() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let n2 = cluster.node("n2");
    cluster.set_disabled(Disabling::Disable, &[AllocationScope::Node(n2)]);
    let hosts = ["n1", "n2"].map(crate::cluster::hostname);
    let pinned = service("web", "w").replicas(2).placement(Placement::Hosts(hosts.into()));
    cluster.apply("shop", &[pinned]);
    cluster.settle();
    let why = "2 cannot_satisfy_host_placement disabled=1 missing=n2";
    assert_eq!(cluster.reasons("shop", "web"), why);
}

/// R-SEL-4, PL-15: a node where the service is disabled takes no replica; enabling it there helps, and
/// does.
#[test]
fn enabling_is_the_smallest_change() {
    let mut cluster = Cluster::of(&["n1"]);
    let n1 = cluster.node("n1");
    cluster.apply("shop", &[service("web", "w")]);
    cluster.settle();
    cluster.set_disabled(Disabling::Disable, &[pair(n1)]);
    cluster.apply("shop", &[service("web", "w").replicas(2)]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), "1 no_eligible_node disabled=1");
    let answers = explain(&cluster.input(), &key("shop", "web")).unwrap();
    let steps: Vec<_> = smallest_change(&answers).unwrap().describe().collect();
    assert_eq!(steps, ["enable the service on n1"]);
    cluster.set_disabled(Disabling::Enable, &[pair(n1)]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-web-0@n1 shop-web-1@n1");
}
