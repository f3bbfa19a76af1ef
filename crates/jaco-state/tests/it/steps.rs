//! The audit events of rollouts, from the difference of two records of the planner: each start and end,
//! each step, and what blocks it. A record that says nothing new leaves nothing (R-CLI-5).

use jaco_state::command::{Change, Previous};
use jaco_types::slot::Exhausted;
use jaco_types::{
    NodeId, NodeStatus, Prepull, Revision, RollbackProgress, Rollout, RolloutState, Scheduling,
    Timestamp, Unplaced,
};

use crate::history::{
    History, create, deploy, deployment, instance, key, replace, replica, service,
};

const N1: NodeId = NodeId::FIRST;

/// `shop/web` at revision 2 with replicas 0 to 2 on `n1`, steps recorded.
fn shop() -> History {
    let mut history = History::founded();
    let retention = jaco_state::command::AuditRetention::new(jaco_state::audit::DEFAULT_AGE);
    history.apply(retention.into());
    for image in ["web:1", "web:2"] {
        history.apply(deploy("shop", &[service("web", image)]));
    }
    let web = key("shop", "web");
    let ready =
        Change::NodeStatusSet { node: N1, status: NodeStatus::Ready, reason: String::new() };
    let slots = (0..3).map(|index| create(&web, index, N1));
    history.batch(std::iter::once(ready).chain(slots).collect());
    history
}

fn rollout(state: RolloutState, done: u32, in_flight: &[&str]) -> Rollout {
    Rollout {
        target_revision: Revision(2),
        previous_revision: Revision(1),
        total_steps: 3,
        current_step: done,
        state,
        failure_reason: String::new(),
        started_at: Timestamp(0),
        last_step_at: Timestamp(0),
        prepull: None,
        rollback_progress: None,
        in_flight: in_flight.iter().map(|id| replica(id)).collect(),
    }
}

fn record(rollout: Rollout) -> Scheduling {
    Scheduling { planned_revision: Revision(2), rollout: Some(rollout), ..Scheduling::default() }
}

/// Writes a record, and returns the events that it leaves.
fn write(history: &mut History, record: Scheduling) -> Vec<String> {
    let before = history.state.audit.events.len();
    let change = Change::SchedulingSet { service: key("shop", "web"), record: Box::new(record) };
    assert_eq!(history.batch(vec![change]), jaco_state::Outcome::Done);
    let new = history.state.audit.events.values().skip(before).map(|event| {
        let facts = event.payload.iter().filter(|(key, _)| *key != "service");
        let facts = facts.map(|(key, value)| format!(" {key}={value}"));
        assert_eq!(event.payload["service"], "shop/web");
        format!("{}{}", event.kind.as_str(), facts.collect::<String>())
    });
    new.collect()
}

const STARTED: &str = "rollout_started reason= revision=2 steps=3";

fn started(id: u32) -> String {
    format!("rollout_step_started node=n1 replica=shop-web-{id} revision=1 way=forward")
}

fn finished(id: u32, done: &str, result: &str) -> String {
    format!(
        "rollout_step_finished done={done} node=n1 replica=shop-web-{id} result={result} \
         revision=1 way=forward"
    )
}

#[test]
fn a_rollout_is_told_from_its_start_to_its_end() {
    let mut history = shop();
    let going =
        |done, in_flight: &[&str]| record(rollout(RolloutState::InProgress, done, in_flight));
    let events = write(&mut history, going(0, &["shop-web-0"]));
    assert_eq!(events, [STARTED, &started(0)]);
    assert_eq!(write(&mut history, going(0, &["shop-web-0"])), [""; 0], "nothing is new");
    let events = write(&mut history, going(1, &["shop-web-1", "shop-web-2"]));
    assert_eq!(events, [finished(0, "1 of 3", "proven"), started(1), started(2)]);
    let events = write(&mut history, going(2, &["shop-web-2"]));
    assert_eq!(events, [finished(1, "2 of 3", "proven")]);
    let events = write(&mut history, record(rollout(RolloutState::Completed, 3, &[])));
    assert_eq!(
        events,
        [
            finished(2, "3 of 3", "proven"),
            "rollout_completed reason= revision=2 steps=3".to_owned()
        ]
    );
    assert_eq!(write(&mut history, record(rollout(RolloutState::Completed, 3, &[]))), [""; 0]);
}

/// A step says how it ended: by what became of its replica, unless the whole rollout ended.
#[test]
fn steps_say_how_they_ended() {
    let ended = |happen: &dyn Fn(&mut History), after: Rollout| {
        let mut history = shop();
        write(&mut history, record(rollout(RolloutState::InProgress, 0, &["shop-web-0"])));
        happen(&mut history);
        let events = write(&mut history, record(after));
        let of_step = events.iter().find(|event| event.starts_with("rollout_step_finished"));
        let result = of_step.expect("the step is over").split("result=").nth(1).unwrap().to_owned();
        result.split(' ').next().unwrap().to_owned()
    };
    let going = || rollout(RolloutState::InProgress, 1, &[]);
    let change = |history: &mut History, change: Change| drop(history.batch(vec![change]));
    let id = || replica("shop-web-0");
    assert_eq!(ended(&|_| {}, going()), "proven");
    let removed = |history: &mut History| change(history, Change::SlotRemove { id: id() });
    assert_eq!(ended(&removed, going()), "removed");
    let exhausted = |history: &mut History| {
        let (consecutive, exhausted) = (3, Exhausted::Yes);
        change(history, Change::SlotSetRestarts { id: id(), consecutive, exhausted });
    };
    assert_eq!(ended(&exhausted, going()), "restarts_exhausted");
    let disabled = |history: &mut History| {
        change(history, Change::SlotDisable { id: id(), instance: instance(N1, 2) });
    };
    assert_eq!(ended(&disabled, going()), "disabled");
    for (status, result) in [
        (NodeStatus::Down, "node_lost"),
        (NodeStatus::EngineDown, "node_lost"),
        (NodeStatus::DiskFull, "proven"),
    ] {
        let set = |history: &mut History| {
            change(history, Change::NodeStatusSet { node: N1, status, reason: String::new() });
        };
        assert_eq!(ended(&set, going()), result, "{status:?}");
    }
    let gone = |history: &mut History| {
        history.apply(jaco_state::command::NodeRemove::new(N1).into());
    };
    assert_eq!(ended(&gone, going()), "node_lost");
    for state in [RolloutState::Aborted, RolloutState::Paused, RolloutState::RollbackPaused] {
        assert_eq!(ended(&|_| {}, rollout(state, 0, &[])), "given_up", "{state:?}");
        assert_eq!(ended(&exhausted, rollout(state, 0, &[])), "given_up", "{state:?}");
    }
    let next =
        Rollout { target_revision: Revision(3), ..rollout(RolloutState::InProgress, 0, &[]) };
    assert_eq!(ended(&|_| {}, next.clone()), "overtaken");
    assert_eq!(ended(&removed, next), "removed");
}

/// R-ROLL-3: an aborted rollout says why, its revision remembers that, and its rollback has steps of its
/// own.
#[test]
fn rollbacks_are_told_as_such() {
    let mut history = shop();
    let in_flight = ["shop-web-0", "shop-web-1"];
    write(&mut history, record(rollout(RolloutState::InProgress, 1, &in_flight)));
    let aborted = |current_step, in_flight: &[&str]| Rollout {
        failure_reason: "shop-web-1 failed".to_owned(),
        rollback_progress: Some(RollbackProgress { total_steps: 2, current_step }),
        ..rollout(RolloutState::Aborted, 1, in_flight)
    };
    let back = |kind: &str, facts: &str, id: u32, rest: &str| {
        format!("{kind}{facts} node=n1 replica=shop-web-{id}{rest} revision=1 way=back")
    };
    let events = write(&mut history, record(aborted(0, &["shop-web-0"])));
    assert_eq!(
        events,
        [
            finished(0, "1 of 3", "given_up"),
            finished(1, "1 of 3", "given_up"),
            "rollout_aborted reason=shop-web-1 failed revision=2 steps=3".to_owned(),
            back("rollout_step_started", "", 0, ""),
        ]
    );
    let failure = |history: &History, revision: u64| {
        let deployment = history.state.deployments.get(&deployment("shop")).unwrap();
        deployment.revisions[&Revision(revision)].failure.clone()
    };
    assert_eq!(failure(&history, 2), "shop-web-1 failed");
    assert_eq!(failure(&history, 1), "", "the one before did not fail");
    let events = write(&mut history, record(aborted(1, &["shop-web-1"])));
    assert_eq!(
        events,
        [
            back("rollout_step_finished", " done=1 of 2", 0, " result=proven"),
            back("rollout_step_started", "", 1, ""),
        ]
    );
    let over = Rollout { rollback_progress: None, ..aborted(0, &[]) };
    assert_eq!(
        write(&mut history, record(over)),
        [back("rollout_step_finished", " done=2 of 2", 1, " result=proven")]
    );
}

/// A rollout that pauses says so, and so does one whose rollback does.
#[test]
fn pauses_are_told() {
    for (state, word) in
        [(RolloutState::Paused, "rollout_paused"), (RolloutState::RollbackPaused, "rollout_paused")]
    {
        let mut history = shop();
        write(&mut history, record(rollout(RolloutState::InProgress, 0, &[])));
        let paused =
            Rollout { failure_reason: "too many failed".to_owned(), ..rollout(state, 0, &[]) };
        let events = write(&mut history, record(paused.clone()));
        assert_eq!(events, [format!("{word} reason=too many failed revision=2 steps=3")]);
        assert_eq!(write(&mut history, record(paused)), [""; 0]);
    }
}

/// What a rollout waits for is told when it changes: by its reasons, and not by who is waited for.
#[test]
fn blocks_are_told_when_their_reasons_change() {
    let mut history = shop();
    let waiting = |nodes: &[(u64, &str)], reasons: &[(&str, u32)]| {
        let nodes = nodes.iter().map(|(id, why)| (NodeId(*id), (*why).to_owned()));
        let prepull = Prepull { due: Timestamp(9), nodes: nodes.collect() };
        let prepull = (!prepull.nodes.is_empty()).then_some(prepull);
        let unplaced = reasons.iter().map(|(reason, count)| Unplaced {
            count: *count,
            reason: (*reason).to_owned(),
            details: [("cordoned".to_owned(), "1".to_owned())].into(),
        });
        let rollout = Rollout { prepull, ..rollout(RolloutState::InProgress, 0, &[]) };
        Scheduling { unplaced: unplaced.collect(), ..record(rollout) }
    };
    let held = |details: &str, reason: &str| {
        format!("rollout_held details={details} reason={reason} revision=2 way=forward")
    };
    let events = write(&mut history, waiting(&[(1, "pulling"), (77, "no report yet")], &[]));
    assert_eq!(events, [STARTED, &held("n1: pulling; 77: no report yet", "prepull")]);
    assert_eq!(write(&mut history, waiting(&[(77, "pulling")], &[])), [""; 0], "the same reason");
    let events = write(&mut history, waiting(&[], &[("no_eligible_node", 2)]));
    assert_eq!(events, [held("2 no_eligible_node cordoned=1", "no_eligible_node")]);
    assert_eq!(write(&mut history, waiting(&[], &[("no_eligible_node", 1)])), [""; 0]);
    let both = [("no_eligible_node", 1), ("waiting_for_dependency", 1)];
    let events = write(&mut history, waiting(&[], &both));
    let details = "1 no_eligible_node cordoned=1; 1 waiting_for_dependency cordoned=1";
    assert_eq!(events, [held(details, "no_eligible_node, waiting_for_dependency")]);
    assert_eq!(write(&mut history, waiting(&[], &[])), [""; 0], "what ends is no block");
    let events = write(&mut history, waiting(&[], &[("no_eligible_node", 1)]));
    assert_eq!(events.len(), 1, "it is blocked again");
    let done = Scheduling {
        unplaced: waiting(&[], &[("other", 1)]).unplaced,
        ..record(rollout(RolloutState::Completed, 3, &[]))
    };
    let events = write(&mut history, done);
    assert_eq!(events, ["rollout_completed reason= revision=2 steps=3"], "nothing is in progress");
}

/// Before the retention is set there may be members that know no steps: then only starts and ends are
/// told.
#[test]
fn steps_wait_for_all_members_to_know_them() {
    let mut history = shop();
    history.state.audit.retention = None;
    let going = record(rollout(RolloutState::InProgress, 0, &["shop-web-0"]));
    let unplaced = vec![Unplaced { count: 1, reason: "x".to_owned(), details: [].into() }];
    assert_eq!(write(&mut history, Scheduling { unplaced, ..going }), [STARTED]);
}

/// A step is told with the place where its replica is now.
#[test]
fn steps_say_where_they_are() {
    let mut history = shop();
    let n2 = history.join("n2");
    history.batch(vec![replace(&replica("shop-web-0"), n2, Previous::Retire)]);
    let events = write(
        &mut history,
        record(rollout(RolloutState::InProgress, 0, &["shop-web-0", "shop-web-9"])),
    );
    assert_eq!(
        events[1..],
        [
            "rollout_step_started node=n2 replica=shop-web-0 revision=2 way=forward",
            "rollout_step_started node= replica=shop-web-9 revision= way=forward"
        ]
    );
}

/// R-PLACE-5: a record outlives its rollout and its deployment, and every write of it is stamped.
#[test]
fn records_are_stamped_and_stay() {
    let mut history = shop();
    let without = Scheduling { next_index: 7, ..Scheduling::default() };
    assert_eq!(write(&mut history, without), [""; 0]);
    let kept = history.state.scheduling.get(&key("shop", "web")).unwrap();
    assert_eq!((kept.next_index, kept.modified), (7, history.state.index));
    history.apply(jaco_state::command::DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(history.state.scheduling.get(&key("shop", "web")).unwrap().next_index, 7);
}
