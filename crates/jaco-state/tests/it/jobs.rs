//! Jobs (R-JOB-1): services that run to their end, and slots whose instance did.

use jaco_state::command::{Change, NodeRemove, Observe, Previous};
use jaco_state::view::{
    Convergence, Role, convergence, desired_on, in_routing, replica as view, restart_at, stopping,
};
use jaco_types::slot::Exhausted;
use jaco_types::spec::{
    Dependency, DependencyCondition, DependencyRequirement, ServiceMode, ServiceSpec,
};
use jaco_types::{
    Completion, DesiredState, Exit, InstanceObserved, NodeId, NodeStatus, ReasonCode, ReplicaState,
    RestartCount, Scheduling, ServiceName, Slot,
};

use crate::history::{
    History, create, deploy, deployment, key, replace, replica, seen, service, spec,
};

const N1: NodeId = NodeId::FIRST;

/// `shop/web` with one replica that has exited with this code.
fn exited(code: i64) -> History {
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let ready =
        Change::NodeStatusSet { node: N1, status: NodeStatus::Ready, reason: String::new() };
    history.batch(vec![ready, create(&key("shop", "web"), 0, N1)]);
    let id = slot(&history).current_id();
    let state = if code == 0 { ReplicaState::Stopped } else { ReplicaState::Failed };
    let exit = Some(Exit { code, out_of_memory: false });
    let report = InstanceObserved { exit, ..seen(id, N1, state) };
    history.apply(Observe::new(N1).observed(vec![report]).into());
    history
}

fn slot(history: &History) -> Slot {
    history.state.slots.get(&replica("shop-web-0")).unwrap().clone()
}

fn finish(history: &mut History, completion: Completion) {
    let id = replica("shop-web-0");
    history.batch(vec![Change::SlotFinish { id, completion, consecutive_failures: 2 }]);
}

/// R-JOB-1: a service is a job if it says so, or if others wait for its completion.
#[test]
fn services_that_others_wait_for_are_jobs() {
    let waits = |condition| ServiceSpec {
        depends_on: vec![Dependency {
            service: "web".parse().unwrap(),
            condition,
            required: DependencyRequirement::Required,
        }],
        ..service("after", "after:1")
    };
    let jobs_of = |services: &[ServiceSpec]| -> Vec<String> {
        spec(services).jobs().into_iter().map(ServiceName::to_string).collect()
    };
    let web = service("web", "web:1");
    let declared = ServiceSpec { mode: ServiceMode::Job, ..web.clone() };
    assert_eq!(jobs_of(&[web.clone(), waits(DependencyCondition::CompletedSuccessfully)]), ["web"]);
    assert!(jobs_of(&[web.clone(), waits(DependencyCondition::Healthy)]).is_empty());
    assert!(jobs_of(&[web, waits(DependencyCondition::Started)]).is_empty());
    assert_eq!(jobs_of(&[declared]), ["web"]);
}

/// R-JOB-1: a finished slot keeps its container, takes no traffic and no room, and says what became of it.
#[test]
fn finished_slot_keeps_its_container_and_runs_nothing() {
    for (code, completion, expected) in [
        (0, Completion::Succeeded, ReplicaState::Completed),
        (3, Completion::Failed, ReplicaState::Failed),
    ] {
        let mut history = exited(code);
        let id = slot(&history).current_id();
        finish(&mut history, completion);
        let finished = slot(&history);
        assert_eq!(finished.desired_state, DesiredState::Finished(completion));
        assert_eq!(finished.instances().count(), 0, "it takes no room");
        assert_eq!(view(&history.state, &finished).state, expected);
        assert_eq!(restart_at(&history.state, &finished), None);
        let desired = desired_on(&history.state, N1);
        assert_eq!(desired.get(&id).map(|desired| desired.role), Some(Role::Finished));
        assert_eq!(stopping(&history.state).count(), 0, "its container is not being stopped");
        assert!(!in_routing(&history.state, &id));
    }
}

/// R-JOB-1: the audit log says how it ended; a failure exhausts the retries, a success forgets them.
#[test]
fn end_of_a_job_is_audited_and_counted() {
    let mut history = exited(0);
    finish(&mut history, Completion::Succeeded);
    let event = history.last_event();
    assert_eq!(event, "job_completed exit_code=0 failures=2 replica=shop-web-0 revision=1");
    let counted = RestartCount { consecutive: 2, exhausted: Exhausted::No };
    assert_eq!(slot(&history).restarts, counted);
    let mut history = exited(3);
    finish(&mut history, Completion::Failed);
    let event = history.last_event();
    assert_eq!(event, "job_failed exit_code=3 failures=2 replica=shop-web-0 revision=1");
    assert_eq!(slot(&history).restarts.exhausted, Exhausted::Yes);
    let shown = view(&history.state, &slot(&history));
    assert_eq!(shown.code, Some(ReasonCode::RestartExhausted));
    assert_eq!(shown.details["consecutive_failures"], "2");
}

/// R-JOB-1: a deployment whose job completed is converged; one whose job failed is not.
#[test]
fn completed_job_is_converged() {
    for (code, completion, expected) in [
        (0, Completion::Succeeded, Convergence::Converged),
        (3, Completion::Failed, Convergence::Exhausted),
    ] {
        let mut history = exited(code);
        let wanted = history.state.deployments.get(&deployment("shop")).unwrap().clone();
        let planned_revision = wanted.revision;
        let record = Scheduling { planned_revision, ..Scheduling::default() };
        let service = key("shop", "web");
        history.batch(vec![Change::SchedulingSet { service, record: Box::new(record) }]);
        let hash = wanted.spec().services.values().next().unwrap().hash;
        history.state.slots.get_mut(&replica("shop-web-0")).unwrap().current.spec_hash = hash;
        finish(&mut history, completion);
        assert_eq!(convergence(&history.state, &wanted), expected);
    }
}

/// R-JOB-1: another spec runs in the slot again, and what ended leaves no trace in the endpoints.
#[test]
fn another_spec_runs_in_a_finished_slot() {
    let mut history = exited(0);
    finish(&mut history, Completion::Succeeded);
    history.batch(vec![replace(&replica("shop-web-0"), N1, Previous::Retire)]);
    let again = slot(&history);
    assert_eq!((again.desired_state, again.retiring), (DesiredState::Active, None));
    assert!(history.state.terminating.is_empty());
}

/// R-JOB-1: the outcome outlives the node that it ran on.
#[test]
fn completion_outlives_its_node() {
    let mut history = exited(0);
    finish(&mut history, Completion::Succeeded);
    history.join("n2");
    history.apply(NodeRemove { node: N1 }.into());
    assert_eq!(view(&history.state, &slot(&history)).state, ReplicaState::Completed);
}
