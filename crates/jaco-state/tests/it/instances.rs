//! What a node should run, fetch and stop, and where traffic goes: the instances of slots in every state.

use jaco_state::command::{
    Change, ConsumerAttach, ConsumerDetach, DeploymentDelete, DisabledSet, Disabling, NodeRemove,
    Observe, Previous,
};
use jaco_state::view::{
    Role, desired_on, endpoints, in_routing, is_running, prepull_on, replica as view, restart_at,
    slots_of, stopping,
};
use jaco_types::slot::Exhausted;
use jaco_types::{
    AllocationScope, ConsumerName, ImageNeed, InstanceObserved, Millis, NodeId, NodeStatus,
    Prepull, ReasonCode, ReplicaState, Revision, Rollout, RolloutState, Scheduling, Timestamp,
};

use crate::history::{
    History, create, deploy, deployment, digest, instance, key, replace, replica, seen, service,
};

const N1: NodeId = NodeId::FIRST;
const N2: NodeId = NodeId(4);

fn ready(node: NodeId) -> Change {
    Change::NodeStatusSet { node, status: NodeStatus::Ready, reason: String::new() }
}

/// `shop/web` with a replica on each of `n1` and `n2`, both running.
fn shop() -> History {
    let mut history = History::founded();
    assert_eq!(history.join("n2"), N2);
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let web = key("shop", "web");
    history.batch(vec![ready(N1), ready(N2), create(&web, 0, N1), create(&web, 1, N2)]);
    report(&mut history, "shop-web-0", ReplicaState::Running);
    report(&mut history, "shop-web-1", ReplicaState::Running);
    history
}

fn report(history: &mut History, id: &str, state: ReplicaState) {
    let slot = history.state.slots.get(&replica(id)).unwrap();
    let (id, node) = (slot.current_id(), slot.current.node);
    observe(history, seen(id, node, state));
}

fn observe(history: &mut History, seen: InstanceObserved) {
    history.apply(Observe::new(seen.node).observed(vec![seen]).into());
}

fn attach(history: &mut History) {
    let name = ConsumerName::new("edge").unwrap();
    history.apply(ConsumerAttach::new(name, N1, Millis(5000)).into());
}

fn change(history: &mut History, change: Change) {
    assert_eq!(history.batch(vec![change]), jaco_state::Outcome::Done);
}

fn role(role: Role) -> char {
    match role {
        Role::Current => '+',
        Role::Retiring => '~',
        Role::Terminating => '-',
        Role::Finished => '=',
    }
}

/// What each node should run: `n1: +shop-web-0@6`, with the index left out.
fn desired(history: &History) -> String {
    let on = |node: NodeId| {
        let all = desired_on(&history.state, node);
        let shown = all.iter().map(|(id, wanted)| {
            assert_eq!(*id, wanted.id);
            let spec = if wanted.spec.is_some() { "" } else { "?" };
            format!("{}{}{spec}", role(wanted.role), id.replica)
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    format!("n1: {} | n2: {}", on(N1), on(N2))
}

/// Where traffic goes.
fn routed(history: &History) -> String {
    let all = endpoints(&history.state, None);
    for (_, endpoint) in all.iter().flat_map(|(key, list)| list.iter().map(move |e| (key, e))) {
        assert!(in_routing(&history.state, &endpoint.id), "{}", endpoint.id);
    }
    let shown = all.iter().map(|(service, list)| {
        let ids: Vec<_> = list
            .iter()
            .map(|e| format!("{}@n{}", e.id.replica, if e.node == N1 { 1 } else { 2 }))
            .collect();
        format!("{service}: {}", ids.join(" "))
    });
    shown.collect::<Vec<_>>().join("; ")
}

#[test]
fn settled_replicas_run_and_are_reached() {
    let history = shop();
    assert_eq!(desired(&history), "n1: +shop-web-0 | n2: +shop-web-1");
    assert_eq!(routed(&history), "shop/web: shop-web-0@n1 shop-web-1@n2");
    assert_eq!(stopping(&history.state).count(), 0);
}

/// R-HEAL-1: only what runs is reached: what degrades or ends leaves the endpoints with the report.
#[test]
fn unhealthy_replicas_leave_the_endpoints() {
    for state in [
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
        ReplicaState::Starting,
        ReplicaState::Pulling,
        ReplicaState::Pending,
    ] {
        let mut history = shop();
        let id = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
        report(&mut history, "shop-web-0", state);
        assert_eq!(routed(&history), "shop/web: shop-web-1@n2", "{state:?}");
        assert!(!in_routing(&history.state, &id) && !is_running(&history.state, &id));
        report(&mut history, "shop-web-0", ReplicaState::Running);
        assert_eq!(routed(&history), "shop/web: shop-web-0@n1 shop-web-1@n2", "{state:?}");
    }
}

/// R-ROLL-2: both instances of a handover run, each is reached as long as it serves, and the old one goes
/// once the slot settles.
#[test]
fn handovers_serve_from_both_sides() {
    let mut history = shop();
    change(&mut history, replace(&replica("shop-web-0"), N2, Previous::Retire));
    assert_eq!(desired(&history), "n1: ~shop-web-0 | n2: +shop-web-0? +shop-web-1");
    assert_eq!(routed(&history), "shop/web: shop-web-0@n1 shop-web-1@n2");
    report(&mut history, "shop-web-0", ReplicaState::Running);
    assert_eq!(routed(&history), "shop/web: shop-web-0@n2 shop-web-0@n1 shop-web-1@n2");
    change(&mut history, Change::SlotSettle { id: replica("shop-web-0") });
    assert_eq!(desired(&history), "n1:  | n2: +shop-web-0? +shop-web-1");
    assert_eq!(routed(&history), "shop/web: shop-web-0@n2 shop-web-1@n2");
    let stopped: Vec<_> =
        stopping(&history.state).map(|(id, node)| (id.to_string(), node)).collect();
    assert_eq!(stopped.len(), 1);
    assert!(stopped[0].0.starts_with("shop-web-0@") && stopped[0].1 == N1, "{stopped:?}");
}

/// R-ROLL-3: a handover that is reverted leaves what served.
#[test]
fn reverted_handovers_leave_what_served() {
    let mut history = shop();
    let before = history.state.slots.get(&replica("shop-web-0")).unwrap().current.clone();
    change(&mut history, replace(&replica("shop-web-0"), N2, Previous::Retire));
    change(&mut history, Change::SlotRevert { id: replica("shop-web-0") });
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!((&slot.current, &slot.retiring), (&before, &None));
    assert_eq!(desired(&history), "n1: +shop-web-0 | n2: +shop-web-1");
    change(&mut history, Change::SlotRevert { id: replica("shop-web-0") });
    let again = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!(again.current, before, "there is nothing to go back to");
}

/// R-EDGE-1: with a consumer, what served runs on out of the endpoints until it is released.
#[test]
fn dropped_instances_terminate_while_a_consumer_may_send() {
    let mut history = shop();
    attach(&mut history);
    let old = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    change(&mut history, replace(&replica("shop-web-0"), N1, Previous::Drop));
    assert_eq!(desired(&history), "n1: -shop-web-0 +shop-web-0? | n2: +shop-web-1");
    assert_eq!(routed(&history), "shop/web: shop-web-1@n2");
    assert!(!in_routing(&history.state, &old), "no new traffic goes there");
    let terminating = history.state.terminating.get(&old).unwrap();
    assert_eq!(terminating.left_at, history.state.index);
    assert_eq!((terminating.since, terminating.node), (history.now, N1));
    change(&mut history, Change::TerminatingRemove { id: old.clone() });
    assert_eq!(desired(&history), "n1: +shop-web-0? | n2: +shop-web-1");
    assert_eq!(stopping(&history.state).map(|(id, _)| id).collect::<Vec<_>>(), [&old]);
    history.apply(Observe::new(N1).gone(vec![old]).into());
    assert_eq!(stopping(&history.state).count(), 0);
}

/// What no traffic can reach stops at once: without a consumer, where it did not run, and on a node that
/// does not work.
#[test]
fn unreachable_instances_stop_at_once() {
    let drop = || replace(&replica("shop-web-0"), N2, Previous::Drop);
    let terminating = |happen: &dyn Fn(&mut History)| {
        let mut history = shop();
        happen(&mut history);
        change(&mut history, drop());
        history.state.terminating.len()
    };
    assert_eq!(terminating(&|_| {}), 0);
    assert_eq!(terminating(&attach), 1);
    for (state, expected) in [(ReplicaState::Degraded, 0), (ReplicaState::Starting, 0)] {
        let here = terminating(&|history| {
            attach(history);
            report(history, "shop-web-0", state);
        });
        assert_eq!(here, expected, "{state:?}");
    }
    for (status, expected) in [
        (NodeStatus::Down, 0),
        (NodeStatus::EngineDown, 0),
        (NodeStatus::Joining, 0),
        (NodeStatus::DiskFull, 1),
    ] {
        let here = terminating(&|history| {
            attach(history);
            let set = Change::NodeStatusSet { node: N1, status, reason: String::new() };
            change(history, set);
        });
        assert_eq!(here, expected, "{status:?}");
    }
    let detached = terminating(&|history| {
        attach(history);
        let session = history.state.index;
        let name = ConsumerName::new("edge").unwrap();
        history.apply(ConsumerDetach::new(name, session).into());
    });
    assert_eq!(detached, 0);
}

/// A consumer that attached anew is not ended by what was meant for the one before.
#[test]
fn consumers_are_detached_by_session() {
    let mut history = shop();
    attach(&mut history);
    let first = history.state.index;
    attach(&mut history);
    let (second, name) = (history.state.index, ConsumerName::new("edge").unwrap());
    assert_eq!(history.state.consumers.get(&name).unwrap().session, second);
    let events = history.state.audit.events.len();
    history.apply(ConsumerDetach::new(name.clone(), first).into());
    assert!(history.state.consumers.contains(&name));
    assert_eq!(history.state.audit.events.len(), events);
    history.apply(ConsumerDetach::new(name.clone(), second).into());
    assert!(!history.state.consumers.contains(&name));
    assert_eq!(history.last_event(), "consumer_detached consumer=edge reason=detached");
}

/// The lease of a consumer is within its bounds, whatever it asks for.
#[test]
fn leases_are_bounded() {
    let mut history = shop();
    let name = ConsumerName::new("edge").unwrap();
    for (asked, lease) in
        [(0, 1000), (999, 1000), (1000, 1000), (5000, 5000), (60_000, 60_000), (u64::MAX, 60_000)]
    {
        history.apply(ConsumerAttach::new(name.clone(), N1, Millis(asked)).into());
        let consumer = history.state.consumers.get(&name).unwrap();
        assert_eq!((consumer.lease, consumer.node), (Millis(lease), N1), "{asked}");
        assert_eq!((consumer.session, consumer.attached_at), (history.state.index, history.now));
    }
}

/// R-SEL-3: of a disabled slot nothing runs and nothing is reached.
#[test]
fn disabled_slots_run_nothing() {
    let mut history = shop();
    let scope = AllocationScope::Replica { service: key("shop", "web"), id: replica("shop-web-0") };
    history.apply(DisabledSet::new(Disabling::Disable, [scope].into()).into());
    let id = replica("shop-web-0");
    change(&mut history, Change::SlotDisable { id, instance: instance(N1, 1) });
    assert_eq!(desired(&history), "n1:  | n2: +shop-web-1");
    assert_eq!(routed(&history), "shop/web: shop-web-1@n2");
    assert_eq!(stopping(&history.state).count(), 1);
}

/// Leftovers of a deleted deployment are stopped, but not waited for on a node that is down.
#[test]
fn leftovers_are_stopped_where_a_node_answers() {
    let mut history = shop();
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(routed(&history), "shop/web: shop-web-0@n1 shop-web-1@n2", "until they are removed");
    for id in ["shop-web-0", "shop-web-1"] {
        change(&mut history, Change::SlotRemove { id: replica(id) });
    }
    assert_eq!((desired(&history).as_str(), routed(&history).as_str()), ("n1:  | n2: ", ""));
    assert_eq!(stopping(&history.state).count(), 2);
    let down =
        Change::NodeStatusSet { node: N2, status: NodeStatus::Down, reason: "silent".to_owned() };
    change(&mut history, down);
    let left: Vec<_> = stopping(&history.state).map(|(_, node)| node).collect();
    assert_eq!(left, [N1]);
    history.apply(NodeRemove::new(N1).into());
    assert_eq!(stopping(&history.state).count(), 0);
    assert!(history.state.observed.values().all(|seen| seen.node != N1));
}

/// Endpoints of one deployment, and a service that nothing serves is there with none.
#[test]
fn endpoints_can_be_asked_of_one_deployment() {
    let mut history = shop();
    history.apply(deploy("blog", &[service("db", "db:1"), service("web", "web:1")]));
    let of = |name: &str| {
        let list = endpoints(&history.state, Some(&deployment(name)));
        list.iter().map(|(key, list)| format!("{key}={}", list.len())).collect::<Vec<_>>()
    };
    assert_eq!(of("blog"), ["blog/db=0", "blog/web=0"]);
    assert_eq!(of("shop"), ["shop/web=2"]);
    assert_eq!(of("none"), [""; 0]);
    assert_eq!(endpoints(&history.state, None).len(), 3);
    assert_eq!(slots_of(&history.state, &deployment("shop")).count(), 2);
    assert_eq!(slots_of(&history.state, &deployment("blog")).count(), 0);
}

/// R-ROLL-5: a node fetches the images of the rollouts that wait for it, each once, with its digest.
#[test]
fn nodes_fetch_what_rollouts_wait_for() {
    let mut history = shop();
    history.apply(deploy("shop", &[service("web", "web:2")]));
    let nodes = [(N2, "pulling".to_owned())].into();
    let rollout = Rollout {
        target_revision: Revision(2),
        previous_revision: Revision(1),
        total_steps: 2,
        current_step: 0,
        state: RolloutState::InProgress,
        failure_reason: String::new(),
        started_at: history.now,
        last_step_at: history.now,
        prepull: Some(Prepull { due: Timestamp(9_999_999), nodes }),
        rollback_progress: None,
        in_flight: [].into(),
    };
    let record = Scheduling { rollout: Some(rollout.clone()), ..Scheduling::default() };
    let set = |record: Scheduling| Change::SchedulingSet {
        service: key("shop", "web"),
        record: Box::new(record),
    };
    change(&mut history, set(record.clone()));
    assert!(prepull_on(&history.state, N1).is_empty());
    let spec = service("web", "web:2").hash;
    let needs =
        |history: &History| prepull_on(&history.state, N2).into_keys().collect::<Vec<ImageNeed>>();
    assert_eq!(needs(&history), [ImageNeed { spec, digest: None }]);
    let resolved = Change::ImageResolve {
        service: key("shop", "web"),
        revision: Revision(2),
        digest: digest(4),
    };
    change(&mut history, resolved);
    assert_eq!(needs(&history), [ImageNeed { spec, digest: Some(digest(4)) }]);
    let over = Rollout { prepull: None, ..rollout };
    change(&mut history, set(Scheduling { rollout: Some(over), ..record }));
    assert!(prepull_on(&history.state, N2).is_empty());
}

/// The state of a replica is what its node reports of the current instance, unless its budget is spent.
#[test]
fn replicas_show_their_reasons() {
    let mut history = shop();
    let shown = |history: &History| {
        let view = view(&history.state, history.state.slots.get(&replica("shop-web-0")).unwrap());
        let details: Vec<_> =
            view.details.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let code = view.code.map_or("-", ReasonCode::as_str);
        format!("{} {code} {}", view.state.as_str(), details.join(" ")).trim_end().to_owned()
    };
    assert_eq!(shown(&history), "running -");
    let id = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    let exited = InstanceObserved {
        code: Some(ReasonCode::ContainerExited),
        details: [("exit_code".to_owned(), "3".to_owned())].into(),
        ..seen(id, N1, ReplicaState::Failed)
    };
    observe(&mut history, exited);
    assert_eq!(shown(&history), "failed container_exited exit_code=3");
    let (consecutive, exhausted) = (3, Exhausted::Yes);
    change(
        &mut history,
        Change::SlotSetRestarts { id: replica("shop-web-0"), consecutive, exhausted },
    );
    assert_eq!(history.last_event(), "replica_exhausted failures=3 replica=shop-web-0");
    assert_eq!(shown(&history), "failed restart_exhausted consecutive_failures=3 exit_code=3");
    change(&mut history, replace(&replica("shop-web-0"), N1, Previous::Drop));
    assert_eq!(shown(&history), "pending -", "nothing is known of the new instance yet");
    history.now = Timestamp(2_000_000);
    history.apply(DisabledSet::new(Disabling::Disable, [AllocationScope::Node(N1)].into()).into());
    let id = replica("shop-web-0");
    change(&mut history, Change::SlotDisable { id, instance: instance(N1, 1) });
    assert_eq!(shown(&history), "stopped disabled at_ms=2000000 by=local:0 disabled=node n1");
}

/// R-HEAL-1: a failed replica waits for its back-off from the moment of the failure; a job that is done
/// does not.
#[test]
fn restarts_wait_for_their_back_off() {
    let at = |state: ReplicaState, consecutive: u32, exhausted: Exhausted| {
        let mut history = shop();
        report(&mut history, "shop-web-0", state);
        let id = replica("shop-web-0");
        change(&mut history, Change::SlotSetRestarts { id: id.clone(), consecutive, exhausted });
        restart_at(&history.state, history.state.slots.get(&id).unwrap())
    };
    for state in [ReplicaState::Failed, ReplicaState::Degraded, ReplicaState::Stopped] {
        assert_eq!(at(state, 0, Exhausted::No), None, "the first failure is answered at once");
        assert_eq!(at(state, 1, Exhausted::No), Some(Timestamp(5 + 1000)));
        assert_eq!(at(state, 2, Exhausted::No), Some(Timestamp(5 + 2000)));
        assert_eq!(at(state, u32::MAX, Exhausted::No), Some(Timestamp(5 + 30_000)));
        assert_eq!(at(state, 2, Exhausted::Yes), None);
    }
    for state in [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Running,
    ] {
        assert_eq!(at(state, 2, Exhausted::No), None, "{state:?}");
    }
}
