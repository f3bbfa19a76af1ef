//! Runs of jobs (R-JOB-2): a due time is dealt with once, and what does not run has a name.

use jaco_state::command::{
    Change, DeploymentApply, DeploymentDelete, DisabledSet, Disabling, EarlierDues, JobDue,
    JobRewind, JobStart, Observe,
};
use jaco_state::invariants::violations;
use jaco_state::job::{JobRecord, MissedReason, RunEnd};
use jaco_state::view::replica as view;
use jaco_state::{Command, Outcome};
use jaco_types::spec::{
    Concurrency, Cron, HistoryLimit, Schedule, ServiceMode, ServiceSpec, ZoneName,
};
use jaco_types::{
    AllocationScope, Completion, DesiredState, ErrorCode, Exit, InstanceObserved, Millis, NodeId,
    ReplicaState, StateIndex, Timestamp,
};
use proptest::prelude::*;

use crate::history::{History, create, deploy, deployment, key, replica, seen, service, spec};

const N1: NodeId = NodeId::FIRST;
const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

pub(crate) fn scheduled(name: &str, concurrency: Concurrency) -> ServiceSpec {
    let schedule = Schedule {
        cron: Cron::parse("* * * * *").unwrap(),
        time_zone: ZoneName::new("UTC").unwrap(),
        concurrency,
        deadline: Some(Millis(10 * MINUTE)),
        history: HistoryLimit::new(3).unwrap(),
    };
    ServiceSpec { schedule: Some(schedule), ..job(name) }
}

pub(crate) fn job(name: &str) -> ServiceSpec {
    ServiceSpec { mode: ServiceMode::Job, ..service(name, "job:1") }
}

/// `shop/web` as a scheduled job, a moment before its first due time at minute 17.
fn waiting(concurrency: Concurrency) -> History {
    let mut history = History::founded();
    history.now = Timestamp(1_000_000);
    history.apply(deploy("shop", &[scheduled("web", concurrency)]));
    history
}

fn record(history: &History) -> JobRecord {
    history.state.jobs.get(&key("shop", "web")).unwrap().clone()
}

fn minute(number: u64) -> Timestamp {
    Timestamp(number * MINUTE)
}

/// The due time of this minute, proposed so many milliseconds later.
fn due(history: &mut History, number: u64, later: u64) -> Outcome {
    history.now = Timestamp(number * MINUTE + later);
    let based_on = history.state.index;
    history.apply(JobDue::new(key("shop", "web"), based_on, minute(number)).into())
}

/// Its only replica starts and ends like this.
fn end(history: &mut History, code: i64) {
    start(history);
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap().clone();
    let state = if code == 0 { ReplicaState::Stopped } else { ReplicaState::Failed };
    let exit = Some(Exit { code, out_of_memory: false });
    let report = InstanceObserved { exit, ..seen(slot.current_id(), N1, state) };
    history.apply(Observe::new(N1).observed(vec![report]).into());
    let completion = if code == 0 { Completion::Succeeded } else { Completion::Failed };
    let change = Change::SlotFinish { id: slot.id, completion, consecutive_failures: 0 };
    assert_eq!(history.batch(vec![change]), Outcome::Done);
}

/// What the planner does once it may: it creates the slot, or starts it.
fn start(history: &mut History) {
    let change = match history.state.slots.get(&replica("shop-web-0")) {
        None => create(&key("shop", "web"), 0, N1),
        Some(slot) if slot.desired_state == DesiredState::Active => return,
        Some(_) => {
            let previous = jaco_state::command::Previous::Drop;
            crate::history::replace(&replica("shop-web-0"), N1, previous)
        }
    };
    assert_eq!(history.batch(vec![change]), Outcome::Done);
}

fn is_waiting(history: &History) -> bool {
    history.state.disabled.waiting.contains(&key("shop", "web"))
}

fn missed(history: &History) -> Vec<(u64, u64, u64, MissedReason)> {
    let record = record(history);
    let missed = record.missed.iter();
    missed.map(|it| (it.first.0 / MINUTE, it.last.0 / MINUTE, it.count, it.reason)).collect()
}

fn ended(history: &History) -> Vec<(u64, RunEnd, Option<i64>)> {
    let record = record(history);
    record.ended.iter().map(|it| (it.run.number, it.end, it.exit_code)).collect()
}

/// R-JOB-2, ST-24: nothing runs before the first due time; a run ends with its replica, and waiting begins again.
#[test]
fn scheduled_job_waits_between_its_runs() {
    let mut history = waiting(Concurrency::Forbid);
    assert!(is_waiting(&history) && record(&history).seen == Timestamp(1_000_000));
    assert_eq!(due(&mut history, 17, 0), Outcome::Done);
    assert!(!is_waiting(&history));
    let event = history.last_event();
    assert_eq!(event, "job_run_begun due_ms=1020000 revision=1 run=1 service=shop/web");
    end(&mut history, 3);
    assert_eq!(ended(&history), [(1, RunEnd::Failed, Some(3))]);
    assert_eq!(record(&history).ended[0].node, Some(N1));
    assert!(is_waiting(&history) && record(&history).open.is_none());
    let event = history.last_event();
    assert_eq!(event, "job_run_ended end=failed exit_code=3 node=n1 run=1 service=shop/web");
    assert_eq!(due(&mut history, 18, 0), Outcome::Done);
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!(slot.desired_state, DesiredState::Disabled, "the planner may start it again");
    assert_eq!(view(&history.state, slot).state, ReplicaState::Pending);
    end(&mut history, 0);
    assert_eq!(ended(&history)[1], (2, RunEnd::Succeeded, Some(0)));
    assert_eq!(violations(&history.state), []);
}

/// R-JOB-2, ST-23: a due time that was dealt with is refused, as is one that lies ahead, or of a schedule that may be another
/// one by now.
#[test]
fn due_time_is_dealt_with_once() {
    let mut history = waiting(Concurrency::Forbid);
    let refused = |outcome: Outcome| match outcome {
        Outcome::Rejected(rejection) => assert_eq!(rejection.code, ErrorCode::StalePlan),
        other => panic!("{other:?}"),
    };
    let early = JobDue::new(key("shop", "web"), history.state.index, minute(18));
    history.now = Timestamp(18 * MINUTE - 1);
    refused(history.apply(early.into()));
    due(&mut history, 17, 0);
    end(&mut history, 0);
    let events = history.state.audit.events.len();
    refused(due(&mut history, 17, 10));
    refused(due(&mut history, 16, 70_000));
    assert_eq!(history.state.audit.events.len(), events, "what is tried again leaves no event");
    let based_on = history.state.index;
    history.apply(deploy("shop", &[scheduled("web", Concurrency::Replace)]));
    history.now = minute(20);
    refused(history.apply(JobDue::new(key("shop", "web"), based_on, minute(20)).into()));
    refused(history.apply(JobDue::new(key("shop", "none"), based_on, minute(20)).into()));
    assert_eq!(record(&history).runs, 1);
}

/// R-JOB-2: what cannot begin is missed, by its reason, in one record as long as that lasts.
#[test]
fn missed_runs_have_a_reason() {
    let mut history = waiting(Concurrency::Forbid);
    due(&mut history, 17, 0);
    due(&mut history, 18, 0);
    due(&mut history, 19, 0);
    assert_eq!(missed(&history), [(18, 19, 2, MissedReason::StillRunning)]);
    let event = history.last_event();
    assert_eq!(
        event,
        "job_run_missed count=1 first_due_ms=1140000 last_due_ms=1140000 reason=still_running service=shop/web"
    );
    end(&mut history, 0);
    due(&mut history, 20, 10 * MINUTE + 1);
    assert_eq!(missed(&history)[1], (20, 20, 1, MissedReason::Deadline));
    due(&mut history, 31, 10 * MINUTE);
    assert_eq!(record(&history).runs, 2, "at the deadline it may still begin");
    end(&mut history, 0);
    let scope = AllocationScope::Service(key("shop", "web"));
    history.apply(DisabledSet::new(Disabling::Disable, [scope.clone()].into()).into());
    due(&mut history, 42, 0);
    assert_eq!(missed(&history)[2], (42, 42, 1, MissedReason::Disabled));
    history.apply(DisabledSet::new(Disabling::Enable, [scope].into()).into());
    let none = ServiceSpec { replicas: 0, ..scheduled("web", Concurrency::Forbid) };
    history.apply(deploy("shop", &[none]));
    due(&mut history, 43, 0);
    assert_eq!(missed(&history)[2], (43, 43, 1, MissedReason::NoReplicas), "three are kept");
    assert_eq!(violations(&history.state), []);
}

/// R-JOB-2: after days without a leader the newest run begins, and the others are one record.
#[test]
fn only_the_newest_run_begins_after_an_outage() {
    let mut history = waiting(Concurrency::Forbid);
    history.now = minute(3000);
    let earlier = EarlierDues { first: minute(17), last: minute(2999), count: 2983 };
    let due = JobDue::new(key("shop", "web"), history.state.index, minute(3000));
    history.apply(due.earlier(Some(earlier)).into());
    assert_eq!(missed(&history), [(17, 2999, 2983, MissedReason::NoLeader)]);
    assert_eq!(record(&history).open.unwrap().due, Some(minute(3000)));
}

/// R-JOB-2: with `replace` the run that goes on ends first, and the next one begins once nothing of it is left.
#[test]
fn replaced_run_ends_before_the_next_begins() {
    let mut history = waiting(Concurrency::Replace);
    due(&mut history, 17, 0);
    start(&mut history);
    let id = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    let running = seen(id.clone(), N1, ReplicaState::Running);
    history.apply(Observe::new(N1).observed(vec![running]).into());
    assert_eq!(due(&mut history, 18, 0), Outcome::Done);
    assert_eq!(ended(&history), [(1, RunEnd::Replaced, None)]);
    assert!(is_waiting(&history), "the next one has not begun");
    assert_eq!(record(&history).seen, minute(17));
    assert!(matches!(due(&mut history, 18, 500), Outcome::Rejected(_)), "it is still stopping");
    let refused = history.refused(JobStart::new(key("shop", "web")).into());
    assert_eq!(refused, ErrorCode::InvalidRequest);
    history.apply(Observe::new(N1).gone(vec![id]).into());
    assert_eq!(due(&mut history, 18, 1000), Outcome::Done);
    assert_eq!(record(&history).open.unwrap().number, 2);
    assert_eq!(violations(&history.state), []);
}

/// R-JOB-2: a user runs a job at any time, with a schedule or without one, unless it runs already.
#[test]
fn job_is_run_by_a_user() {
    let mut history = History::founded();
    history.apply(deploy("shop", &[job("web"), service("plain", "web:1")]));
    let run = |service: &str| JobStart::new(key("shop", service)).into();
    assert_eq!(history.refused(run("none")), ErrorCode::ServiceNotFound);
    assert_eq!(history.refused(run("plain")), ErrorCode::InvalidRequest);
    start(&mut history);
    assert_eq!(history.refused(run("web")), ErrorCode::InvalidRequest, "its first run goes on");
    end(&mut history, 0);
    assert_eq!(history.state.jobs.len(), 0, "the run of an apply is not counted");
    assert_eq!(history.apply(run("web")), Outcome::Done);
    assert_eq!(record(&history).open.unwrap().due, None);
    assert_eq!(history.refused(run("web")), ErrorCode::InvalidRequest);
    end(&mut history, 4);
    assert_eq!(ended(&history), [(1, RunEnd::Failed, Some(4))]);
    assert!(!is_waiting(&history), "without a schedule nothing holds it back");
    assert_eq!(violations(&history.state), []);
}

/// R-JOB-2: who disables a job ends its run, and enabling it begins none.
#[test]
fn disabled_job_ends_its_run() {
    let mut history = waiting(Concurrency::Forbid);
    due(&mut history, 17, 0);
    start(&mut history);
    let scope = AllocationScope::Service(key("shop", "web"));
    history.apply(DisabledSet::new(Disabling::Disable, [scope.clone()].into()).into());
    assert_eq!(ended(&history), [(1, RunEnd::Disabled, None)]);
    let refused = history.refused(JobStart::new(key("shop", "web")).into());
    assert_eq!(refused, ErrorCode::InvalidRequest);
    history.apply(DisabledSet::new(Disabling::Enable, [scope].into()).into());
    assert!(is_waiting(&history));
    assert_eq!(violations(&history.state), []);
}

/// R-JOB-2: another schedule runs nothing that was due before it; the same one goes on where it was. Without a schedule, and
/// without the deployment, nothing waits any more.
#[test]
fn records_follow_the_deployment() {
    let mut history = waiting(Concurrency::Forbid);
    due(&mut history, 17, 0);
    end(&mut history, 0);
    history.now = Timestamp(20 * MINUTE + 5);
    let other = ServiceSpec { image: "job:2".into(), ..scheduled("web", Concurrency::Forbid) };
    history.apply(deploy("shop", &[other]));
    assert_eq!(record(&history).seen, minute(17), "the schedule is the same");
    history.apply(deploy("shop", &[scheduled("web", Concurrency::Replace)]));
    assert_eq!(record(&history).seen, history.now);
    history.apply(deploy("shop", &[job("web")]));
    assert!(!is_waiting(&history));
    assert_eq!(ended(&history).len(), 1, "its runs are kept");
    history.apply(deploy("shop", &[scheduled("web", Concurrency::Forbid)]));
    assert!(is_waiting(&history));
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert!(!is_waiting(&history) && history.state.jobs.is_empty());
    assert_eq!(violations(&history.state), []);
}

/// R-JOB-2: a job that runs as it gets a schedule runs on, as its first run; one that served before does not.
#[test]
fn running_job_gets_a_schedule() {
    let mut history = History::founded();
    history.apply(deploy("shop", &[job("web")]));
    start(&mut history);
    history.apply(deploy("shop", &[scheduled("web", Concurrency::Forbid)]));
    assert_eq!(record(&history).open.unwrap().number, 1);
    assert!(!is_waiting(&history));
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    start(&mut history);
    history.apply(deploy("shop", &[scheduled("web", Concurrency::Forbid)]));
    assert!(is_waiting(&history), "it would run the job at once");
}

/// R-JOB-2: due times that a clock dealt with days too early count anew once it is set right, and that has a name; what is
/// ahead by less is waited for.
#[test]
fn wrong_clock_is_named_and_overcome() {
    let mut history = waiting(Concurrency::Forbid);
    let ahead = 16 + 3 * DAY / MINUTE;
    due(&mut history, ahead, 0);
    end(&mut history, 0);
    let to = minute(18);
    history.now = to;
    assert_eq!(history.apply(JobRewind::new(key("shop", "web"), to).into()), Outcome::Done);
    assert_eq!(missed(&history), [(18, ahead, 0, MissedReason::ClockSetBack)]);
    assert_eq!(due(&mut history, 19, 0), Outcome::Done);
    assert_eq!(record(&history).runs, 2);
    let again = JobRewind::new(key("shop", "web"), minute(1)).into();
    assert_eq!(history.refused(again), ErrorCode::StalePlan);
}

/// The commands of runs, each of which does something.
pub(crate) fn every_command() -> (History, Vec<Command>) {
    let mut history = History::founded();
    let services = [scheduled("web", Concurrency::Forbid), job("plain")];
    history.apply(deploy("shop", &services));
    history.apply(deploy("late", &[scheduled("web", Concurrency::Forbid)]));
    history.now = minute(20);
    let late = key("late", "web");
    let mut ahead = history.state.jobs.get(&late).unwrap().clone();
    ahead.seen = Timestamp(history.now.0 + 2 * DAY);
    history.state.jobs.insert(late.clone(), ahead);
    let commands = vec![
        JobDue::new(key("shop", "web"), history.state.index, minute(20)).into(),
        JobStart::new(key("shop", "plain")).into(),
        JobRewind::new(late, history.now).into(),
    ];
    (history, commands)
}

/// Something that happens to a job.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A leader proposes the due time of the present minute, or one so many minutes ago, by a state so many entries old.
    Due { ago: u64, stale: u64 },
    /// Time passes.
    Pass(u64),
    /// A user runs it.
    Run,
    /// Its replica ends, if it runs.
    End(i64),
    /// A user disables or enables it.
    Disable(bool),
    /// Its deployment is applied like this.
    Apply(u8),
    /// A leader whose clock went back so many days.
    Rewind(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u64..4, 0_u64..3).prop_map(|(ago, stale)| Step::Due { ago, stale }),
        4 => (1_u64..3 * MINUTE).prop_map(Step::Pass),
        1 => Just(Step::Run),
        3 => (0_i64..3).prop_map(Step::End),
        1 => any::<bool>().prop_map(Step::Disable),
        1 => (0_u8..5).prop_map(Step::Apply),
        1 => (0_u64..4).prop_map(Step::Rewind),
    ]
}

fn take(history: &mut History, step: Step) {
    let service = key("shop", "web");
    match step {
        Step::Due { ago, stale } => {
            let at = (history.now.0 / MINUTE).saturating_sub(ago);
            let based_on = StateIndex(history.state.index.0.saturating_sub(stale));
            history.apply(JobDue::new(service, based_on, minute(at)).into());
        }
        Step::Pass(length) => history.now = Timestamp(history.now.0 + length),
        Step::Run => drop(history.apply(JobStart::new(service).into())),
        Step::End(code) => {
            let may = history.state.deployments.contains(&deployment("shop"))
                && history.state.disabled.of(&service, None, N1).is_none();
            let is_finished = history
                .state
                .slots
                .get(&replica("shop-web-0"))
                .is_some_and(|slot| matches!(slot.desired_state, DesiredState::Finished(_)));
            if may && !is_finished {
                end(history, code);
            }
        }
        Step::Disable(is_disabled) => {
            let change = if is_disabled { Disabling::Disable } else { Disabling::Enable };
            let scope = AllocationScope::Service(service);
            history.apply(DisabledSet::new(change, [scope].into()).into());
        }
        Step::Apply(0) => drop(history.apply(DeploymentDelete::new(deployment("shop")).into())),
        Step::Apply(kind) => {
            let wanted = match kind {
                1 => scheduled("web", Concurrency::Forbid),
                2 => scheduled("web", Concurrency::Replace),
                3 => job("web"),
                _ => ServiceSpec { replicas: 0, ..scheduled("web", Concurrency::Forbid) },
            };
            history.apply(DeploymentApply::new(deployment("shop"), spec(&[wanted])).into());
        }
        Step::Rewind(days) => {
            let to = Timestamp(history.now.0.saturating_sub(days * DAY));
            history.apply(JobRewind::new(service, to).into());
        }
    }
}

proptest! {
    /// ST-23, ST-24: whatever comes in whatever order, no due time begins two runs, what was dealt with never goes back, runs
    /// are numbered without a gap, and a scheduled job waits exactly between them.
    #[test]
    fn due_times_begin_one_run_each(steps in prop::collection::vec(step(), 1..60)) {
        let mut history = waiting(Concurrency::Forbid);
        let mut begun = std::collections::BTreeSet::new();
        for step in steps {
            let before = history.state.jobs.get(&key("shop", "web")).cloned();
            take(&mut history, step);
            prop_assert_eq!(violations(&history.state), []);
            let after = history.state.jobs.get(&key("shop", "web")).cloned();
            let (Some(before), Some(after)) = (before, after) else {
                begun.clear();
                continue;
            };
            let is_rewind = matches!(step, Step::Rewind(_) | Step::Apply(_));
            prop_assert!(after.seen >= before.seen || is_rewind, "{:?}", step);
            prop_assert!(after.runs - before.runs <= 1);
            if after.runs > before.runs && let Some(open) = &after.open {
                prop_assert_eq!(open.number, after.runs);
                if let Some(due) = open.due {
                    prop_assert!(begun.insert(due), "{:?} ran twice", due);
                    prop_assert_eq!(after.seen, due);
                }
            }
            if is_rewind && after.seen < before.seen {
                begun.clear();
            }
        }
    }
}
