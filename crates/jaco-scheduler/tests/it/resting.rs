//! What people want to rest, as the planner carries it out.

use jaco_scheduler::explain;
use jaco_scheduler::remedy::smallest_change;
use jaco_state::Change;
use jaco_state::command::Disabling;
use jaco_state::view::{Convergence, convergence};
use jaco_types::spec::Placement;
use jaco_types::{
    AllocationScope, Availability, Millis, NodeId, ReplicaId, ReplicaState, RolloutState, Standing,
};

use crate::cluster::{Cluster, key, resources, service};

fn web() -> AllocationScope {
    AllocationScope::Service(key("shop", "web"))
}

fn pair(node: NodeId) -> AllocationScope {
    AllocationScope::Pair { service: key("shop", "web"), node }
}

/// Who is where, those that rest in brackets.
fn show(cluster: &Cluster) -> String {
    let slots = cluster.state.slots.values().map(|slot| {
        let host = cluster.state.nodes.get(&slot.current.node).unwrap().hostname.to_string();
        match slot.standing {
            Standing::Active => format!("{}@{host}", slot.id),
            Standing::Disabled => format!("[{}@{host}]", slot.id),
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

/// R-SEL-3, R-SEL-4: what rests stops where it is and is not made up for elsewhere; enabled, it runs
/// where it was, as the first instance of a new budget.
#[test]
fn what_rests_keeps_its_place() {
    let mut cluster = three();
    let n2 = cluster.node("n2");
    let before = show(&cluster);
    cluster.rest(Disabling::Disable, &[pair(n2)]);
    assert_eq!(reached(&cluster), Convergence::Progressing);
    let passes = cluster.settle();
    assert_eq!(passes, 1);
    let rests: Vec<_> =
        cluster.state.slots.values().filter(|slot| slot.standing == Standing::Disabled).collect();
    assert_eq!(rests.len(), 1);
    assert_eq!(rests[0].current.node, n2);
    assert_eq!(cluster.state.slots.len(), 3);
    assert_eq!(reached(&cluster), Convergence::Converged);
    cluster.rest(Disabling::Enable, &[pair(n2)]);
    let plan = cluster.pass();
    let causes = Cluster::causes(&plan);
    assert!(causes.len() == 1 && causes[0].ends_with(":enabled"), "{causes:?}");
    cluster.settle();
    assert_eq!(show(&cluster), before);
    assert_eq!(reached(&cluster), Convergence::Converged);
}

/// R-SEL-4: a node that rests keeps what it has, stopped, and nothing new runs there: neither one more
/// replica nor one that leaves another node.
#[test]
fn nothing_new_runs_on_a_node_that_rests() {
    let mut cluster = three();
    let n2 = cluster.node("n2");
    cluster.rest(Disabling::Disable, &[AllocationScope::Node(n2)]);
    cluster.apply("shop", &[service("web", "w").replicas(6)]);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "web")["n2"], 1);
    cluster.set_availability("n3", Availability::Draining);
    cluster.settle();
    let counts = cluster.counts("shop", "web");
    assert_eq!((counts["n1"], counts["n2"], counts["n3"]), (5, 1, 0));
    cluster.rest(Disabling::Enable, &[AllocationScope::Node(n2)]);
    cluster.settle();
    assert!(cluster.state.slots.values().all(|slot| slot.standing == Standing::Active));
}

/// R-SEL-3, R-RES-3: what rests is in no sum of capacity and holds no port: others get its room, and
/// it waits by name until there is some again.
#[test]
fn what_rests_gives_its_room_away() {
    let mut cluster = Cluster::empty();
    cluster.join_with("n1", resources(1000, 0));
    cluster.pass();
    let db = || service("db", "d").reserves(800, 0).stateful();
    let web = |replicas| service("web", "w").reserves(800, 0).host_port(80).replicas(replicas);
    cluster.apply("shop", &[db()]);
    cluster.settle();
    let of_db = AllocationScope::Service(key("shop", "db"));
    cluster.rest(Disabling::Disable, std::slice::from_ref(&of_db));
    cluster.apply("shop", &[db(), web(1)]);
    cluster.settle();
    assert_eq!(show(&cluster), "[shop-db-0@n1] shop-web-0@n1");
    cluster.rest(Disabling::Enable, &[of_db]);
    cluster.settle();
    assert_eq!(show(&cluster), "[shop-db-0@n1] shop-web-0@n1");
    let why = "1 no_room_to_start insufficient_cpu=1 node=n1 replica=shop-db-0";
    assert_eq!(cluster.reasons("shop", "db"), why);
    assert_eq!(reached(&cluster), Convergence::CannotPlace);
    cluster.apply("shop", &[db(), web(0)]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-db-0@n1");
}

/// R-SEL-3: what has no data and no room where it was starts where there is some.
#[test]
fn without_data_it_starts_where_there_is_room() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    cluster.apply("shop", &[service("web", "w").reserves(800, 0)]);
    cluster.settle();
    let home = cluster.slot("shop-web-0").current.node;
    cluster.rest(Disabling::Disable, &[web()]);
    cluster.settle();
    let host = cluster.state.nodes.get(&home).unwrap().hostname.clone();
    let hosts = Placement::Hosts([host].into());
    cluster.apply("blog", &[service("web", "b").reserves(800, 0).placement(hosts)]);
    cluster.settle();
    cluster.rest(Disabling::Enable, &[web()]);
    cluster.settle();
    assert_ne!(cluster.slot("shop-web-0").current.node, home);
    assert_eq!(reached(&cluster), Convergence::Converged);
}

/// R-SEL-3: a rollout passes by what rests: its definition is renewed, no step is made and nothing of
/// it is waited for.
#[test]
fn a_rollout_passes_by_what_rests() {
    let mut cluster = three();
    let n1 = cluster.node("n1");
    cluster.rest(Disabling::Disable, &[pair(n1)]);
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

/// R-SEL-3: all of a service may rest while it changes; it starts as what is wanted then.
#[test]
fn a_service_that_rests_is_renewed_without_a_rollout() {
    let mut cluster = three();
    cluster.rest(Disabling::Disable, &[web()]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "w:2").replicas(4)]);
    cluster.settle();
    assert!(cluster.state.slots.values().all(|slot| slot.standing == Standing::Disabled));
    assert_eq!(cluster.state.slots.len(), 4, "what is new rests too");
    assert_eq!(reached(&cluster), Convergence::Converged);
    cluster.rest(Disabling::Enable, &[web()]);
    cluster.settle();
    assert_eq!(reached(&cluster), Convergence::Converged);
    assert!(cluster.state.slots.values().all(|slot| slot.standing == Standing::Active));
}

/// R-SEL-2, R-SEL-3: `global`: a node that rests has its allocation, which takes no room; drained, it
/// goes, and comes back to rest.
#[test]
fn a_global_service_rests_node_by_node() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    let n2 = cluster.node("n2");
    cluster.rest(Disabling::Disable, &[AllocationScope::Node(n2)]);
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
    cluster.rest(Disabling::Enable, &[AllocationScope::Node(n2)]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-agent-n1@n1 shop-agent-n2@n2");
}

/// R-SEL-3, R-NODE-2: what rests does not hold a drain up; it stays where it is, and starts elsewhere
/// if it is enabled while its node is drained.
#[test]
fn a_drain_leaves_what_rests() {
    let mut cluster = three();
    let n3 = cluster.node("n3");
    cluster.rest(Disabling::Disable, &[pair(n3)]);
    cluster.settle();
    cluster.set_availability("n3", Availability::Draining);
    let plan = cluster.pass();
    assert_eq!(plan.changes, vec![]);
    cluster.rest(Disabling::Enable, &[pair(n3)]);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "web")["n3"], 0);
    assert_eq!(reached(&cluster), Convergence::Converged);
}

/// R-SEL-3: nothing of it is restarted, and its failures of before are forgotten.
#[test]
fn what_rests_is_never_restarted() {
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
    cluster.rest(Disabling::Disable, std::slice::from_ref(&replica));
    cluster.settle();
    let slot = cluster.slot("shop-web-1");
    assert_eq!((slot.standing, slot.restarts.consecutive), (Standing::Disabled, 0));
    cluster.advance(Millis::from_secs(600), &[]);
    assert_eq!(cluster.pass().changes, vec![]);
}

/// R-SEL-3: fewer are wanted: what serves nobody goes first, and the wish about it goes with it.
#[test]
fn what_rests_goes_first() {
    let mut cluster = three();
    let replica = AllocationScope::Replica {
        service: key("shop", "web"),
        id: ReplicaId::parse("shop-web-0").unwrap(),
    };
    cluster.rest(Disabling::Disable, &[replica]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "w").replicas(2)]);
    cluster.settle();
    assert!(cluster.state.slots.values().all(|slot| slot.standing == Standing::Active));
    assert!(cluster.state.disabled.scopes.is_empty());
}

/// R-SEL-3: one that moves to a node which is to rest stays where it still serves.
#[test]
fn a_move_to_a_node_that_rests_is_taken_back() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[service("web", "w")]);
    cluster.settle();
    let home = cluster.slot("shop-web-0").current.node;
    let host = cluster.state.nodes.get(&home).unwrap().hostname.to_string();
    cluster.set_availability(&host, Availability::Draining);
    cluster.pass();
    let going = cluster.slot("shop-web-0").current.node;
    assert_ne!(going, home);
    cluster.rest(Disabling::Disable, &[AllocationScope::Node(going)]);
    let plan = cluster.pass();
    let reverts = |change: &Change| matches!(change, Change::SlotRevert { .. });
    assert!(plan.changes.iter().any(reverts), "{:?}", plan.changes);
    let slot = cluster.slot("shop-web-0");
    assert_eq!((slot.current.node, slot.standing), (home, Standing::Active));
}

/// R-SEL-4, PL-2: pinned to hosts of which one rests, a service waits and says which.
#[test]
fn a_pinned_host_that_rests_is_named() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let n2 = cluster.node("n2");
    cluster.rest(Disabling::Disable, &[AllocationScope::Node(n2)]);
    let hosts = ["n1", "n2"].map(crate::cluster::hostname);
    let pinned = service("web", "w").replicas(2).placement(Placement::Hosts(hosts.into()));
    cluster.apply("shop", &[pinned]);
    cluster.settle();
    let why = "2 cannot_satisfy_host_placement disabled=1 missing=n2";
    assert_eq!(cluster.reasons("shop", "web"), why);
}

/// R-SEL-4, PL-15: where one more would rest is no place for it; to enable it there is what helps, and
/// does.
#[test]
fn to_enable_is_the_smallest_change() {
    let mut cluster = Cluster::of(&["n1"]);
    let n1 = cluster.node("n1");
    cluster.apply("shop", &[service("web", "w")]);
    cluster.settle();
    cluster.rest(Disabling::Disable, &[pair(n1)]);
    cluster.apply("shop", &[service("web", "w").replicas(2)]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), "1 no_eligible_node disabled=1");
    let answers = explain(&cluster.input(), &key("shop", "web")).unwrap();
    let steps: Vec<_> = smallest_change(&answers).unwrap().describe().collect();
    assert_eq!(steps, ["enable the service on n1"]);
    cluster.rest(Disabling::Enable, &[pair(n1)]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-web-0@n1 shop-web-1@n1");
}
