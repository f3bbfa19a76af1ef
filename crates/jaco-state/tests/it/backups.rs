//! Schedules of backups: a due time begins at most one run, and a run goes on until a backup was taken (R-CLI-6, ST-32).

use jaco_state::audit::{JUMP_MAX, Severity};
use jaco_state::backup::{
    BackupBucket, BackupSchedule, BackupTaken, BackupTarget, BackupTimes, BucketStyle, EVERY_MAX,
    EVERY_MIN, RECIPIENTS_MAX, REPORT_BYTES_MAX, SCHEDULES_MAX, SealedCredentials,
};
use jaco_state::command::{
    AttemptEnd, BackupBegin, BackupReport, BackupScheduleRemove, BackupScheduleStore, Existing,
};
use jaco_state::invariants::violations;
use jaco_state::view::backup_tried_at;
use jaco_state::{Command, Outcome};
use jaco_types::{BackupScheduleName, ErrorCode, Millis, StateIndex, Timestamp};
use proptest::prelude::*;

use crate::history::History;

fn named(name: &str) -> BackupScheduleName {
    BackupScheduleName::new(name).unwrap()
}

/// A schedule to a folder of its own.
pub(crate) fn store(name: &str) -> BackupScheduleStore {
    let target = BackupTarget::Folder(format!("/backups/{name}").into());
    BackupScheduleStore::new(named(name), BackupTimes::Every(EVERY_MIN), target)
}

/// A schedule to a bucket, with this envelope.
pub(crate) fn store_in_bucket(name: &str, sealed: &[u8]) -> BackupScheduleStore {
    let bucket = BackupBucket {
        endpoint: "https://a.example".into(),
        region: "r".into(),
        bucket: "sun".into(),
        prefix: name.into(),
        style: BucketStyle::Path,
    };
    let credentials = Some(SealedCredentials(sealed.into()));
    BackupScheduleStore { target: BackupTarget::Bucket(bucket), ..store(name) }
        .credentials(credentials)
}

pub(crate) fn remove(name: &str) -> Command {
    BackupScheduleRemove::new(named(name)).into()
}

pub(crate) fn begin(name: &str, id: StateIndex, due: Option<Timestamp>) -> Command {
    BackupBegin::new(named(name), id, due).into()
}

pub(crate) fn report(name: &str, (id, run): (StateIndex, StateIndex), end: AttemptEnd) -> Command {
    BackupReport::new(named(name), id, run, end).into()
}

pub(crate) fn taken(at: Timestamp, index: StateIndex) -> AttemptEnd {
    let (name, node) = ("sun-1.jacobak".to_owned(), "n1".to_owned());
    AttemptEnd::Taken(BackupTaken { at, index, bytes: 7, name, node })
}

fn failed() -> AttemptEnd {
    AttemptEnd::Failed { reason: "the disk is full".to_owned() }
}

fn schedule(history: &History) -> BackupSchedule {
    history.state.backups.get(&named("nightly")).unwrap().clone()
}

/// A history in which `nightly` was stored.
fn stored() -> History {
    let mut history = History::founded();
    assert_eq!(history.apply(store("nightly").into()), Outcome::Done);
    history
}

fn ids(history: &History) -> (StateIndex, StateIndex) {
    let schedule = schedule(history);
    (schedule.id, schedule.run.unwrap().id)
}

/// ST-32: a due time begins one run, whoever proposes it and in which order; none begins before its time.
#[test]
fn a_due_time_begins_one_run() {
    let mut history = stored();
    let expected = "backup_schedule_stored keep=all recipients=0 schedule=nightly target=/backups/nightly times=every 60s";
    assert_eq!(history.last_event(), expected);
    let id = schedule(&history).id;
    let due = history.now.after(EVERY_MIN);
    let stale = ErrorCode::StalePlan;
    assert_eq!(history.refused(begin("nightly", id, Some(due))), stale, "it is not due yet");
    history.now = due.after(Millis(5));
    assert_eq!(history.refused(begin("nightly", StateIndex(1), Some(due))), stale, "another's");
    assert_eq!(history.refused(begin("weekly", id, Some(due))), stale);
    assert_eq!(history.apply(begin("nightly", id, Some(due))), Outcome::Done);
    let index = history.state.index;
    assert_eq!(
        history.last_event(),
        format!("backup_taken raft_index={index} schedule=nightly target=/backups/nightly")
    );
    assert_eq!(history.refused(begin("nightly", id, Some(due))), stale, "proposed twice");
    let later = due.after(Millis(1));
    assert_eq!(history.refused(begin("nightly", id, Some(later))), stale, "one goes on");
    let run = ids(&history);
    assert_eq!(run.1, index);
    assert_eq!(history.apply(report("nightly", run, taken(history.now, index))), Outcome::Done);
    let event = history.last_event();
    assert!(event.starts_with("backup_stored bytes=7 name=sun-1.jacobak node=n1 "), "{event}");
    assert_eq!(history.refused(begin("nightly", id, Some(due))), stale, "it was dealt with");
    assert_eq!(history.refused(begin("nightly", id, Some(later))), stale, "so was what is older");
    let after = schedule(&history);
    assert_eq!((after.run, after.failing), (None, None));
    assert_eq!(after.last.unwrap().index, index);
    assert_eq!(violations(&history.state), vec![]);
}

/// ST-32: what a leader reports of another run, or of a schedule that was replaced, changes nothing; and a backup of a state
/// before the run is none of it.
#[test]
fn reports_are_about_their_run() {
    let mut history = stored();
    let id = schedule(&history).id;
    history.apply(begin("nightly", id, None));
    let (_, run) = ids(&history);
    let before = schedule(&history);
    for of in [(id, StateIndex(1)), (StateIndex(1), run)] {
        assert_eq!(history.apply(report("nightly", of, taken(history.now, run))), Outcome::Done);
        assert_eq!(schedule(&history), before);
    }
    let older = taken(history.now, StateIndex(run.0 - 1));
    assert_eq!(history.refused(report("nightly", (id, run), older)), ErrorCode::StalePlan);
    let newer = taken(history.now, StateIndex(run.0 + 1000));
    assert_eq!(history.refused(report("nightly", (id, run), newer)), ErrorCode::StalePlan);
    assert_eq!(schedule(&history), before);
    history.apply(store("nightly").existing(Existing::Replace).into());
    assert_eq!(schedule(&history).run, None);
    history.apply(report("nightly", (id, run), taken(history.now, run)));
    assert_eq!(schedule(&history).last, None);
    assert_eq!(history.apply(report("weekly", (id, run), failed())), Outcome::Done);
}

/// R-CLI-6: a run that fails goes on, with pauses that grow from a minute to an hour; the first failure is an event, and the
/// one after which an operator is needed is a critical one. What became due meanwhile is made up for by the one backup.
#[test]
fn a_run_that_fails_goes_on() {
    let mut history = stored();
    let id = schedule(&history).id;
    let due = history.now.after(EVERY_MIN);
    history.now = due;
    history.apply(begin("nightly", id, Some(due)));
    let run = ids(&history);
    assert_eq!(backup_tried_at(&schedule(&history)), Some(history.now));
    let mut pauses = Vec::new();
    let events = |history: &History| {
        let all = history.state.audit.events.values();
        let kinds = all.filter(|event| event.kind.as_str() == "backup_failed");
        kinds.map(|event| event.severity()).collect::<Vec<_>>()
    };
    for _ in 0..9 {
        history.now = backup_tried_at(&schedule(&history)).unwrap().after(Millis(1));
        history.apply(report("nightly", run, failed()));
        let next = backup_tried_at(&schedule(&history)).unwrap();
        pauses.push(next.since(history.now).0 / 60_000);
        assert_eq!(violations(&history.state), vec![]);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(events(&history), [Severity::Warning, Severity::Critical]);
    let failing = schedule(&history).failing.unwrap();
    assert_eq!((failing.attempts, failing.reason.as_str()), (9, "the disk is full"));
    // A user does not wait for the pause, and begins nothing while one goes on.
    assert_eq!(history.apply(begin("nightly", id, None)), Outcome::Done);
    let run = ids(&history);
    assert_eq!(backup_tried_at(&schedule(&history)), Some(history.now));
    let missed = due.after(EVERY_MIN);
    let index = history.state.index;
    assert_eq!(history.apply(report("nightly", run, taken(history.now, index))), Outcome::Done);
    assert_eq!(history.refused(begin("nightly", id, Some(missed))), ErrorCode::StalePlan);
    assert_eq!(history.apply(begin("nightly", id, None)), Outcome::Done);
    let begun = ids(&history);
    assert_eq!(history.apply(begin("nightly", id, None)), Outcome::Done);
    assert_eq!(ids(&history), begun, "the second request finds the first one");
}

/// R-CLI-6: after a clock that was ahead by more than a day was set back, due times count anew.
#[test]
fn a_clock_that_was_wrong_does_not_end_backups() {
    let mut history = stored();
    let (id, right) = (schedule(&history).id, history.now);
    let wrong = right.after(JUMP_MAX).after(JUMP_MAX);
    history.now = wrong;
    history.apply(begin("nightly", id, Some(wrong)));
    let run = ids(&history);
    history.apply(report("nightly", run, taken(wrong, run.1)));
    history.now = right.after(EVERY_MIN);
    assert_eq!(history.apply(begin("nightly", id, Some(history.now))), Outcome::Done);
    assert_eq!(violations(&history.state), vec![]);
}

/// ST-32: what is out of bounds, or would share its place with another, is refused and changes nothing.
#[test]
fn schedules_are_bounded() {
    let mut history = stored();
    let many = (0..=RECIPIENTS_MAX).map(|number| number.to_string()).collect();
    let every = |millis| BackupScheduleStore {
        times: BackupTimes::Every(Millis(millis)),
        ..store("weekly")
    };
    let folder = |path: &str| BackupScheduleStore {
        target: BackupTarget::Folder(path.into()),
        ..store("weekly")
    };
    for (refused, code) in [
        (store("nightly"), ErrorCode::InvalidRequest),
        (every(EVERY_MIN.0 - 1), ErrorCode::InvalidRequest),
        (every(EVERY_MAX.0 + 1), ErrorCode::InvalidRequest),
        (every(0), ErrorCode::InvalidRequest),
        (folder("relative"), ErrorCode::InvalidRequest),
        (folder(&"/x".repeat(1000)), ErrorCode::InvalidRequest),
        (folder("/backups/nightly"), ErrorCode::InvalidRequest),
        (store_in_bucket("weekly", b""), ErrorCode::InvalidRequest),
        (store_in_bucket("weekly", &[1; 2000]), ErrorCode::InvalidRequest),
        (store_in_bucket("weekly", b"x").credentials(None), ErrorCode::InvalidRequest),
        (
            store("weekly").credentials(Some(SealedCredentials((*b"x").into()))),
            ErrorCode::InvalidRequest,
        ),
        (store("weekly").recipients(many), ErrorCode::TooLarge),
        (store("weekly").recipients(["x".repeat(129)].into()), ErrorCode::TooLarge),
    ] {
        let before = history.state.backups.clone();
        assert_eq!(history.refused(refused.clone().into()), code, "{refused:?}");
        assert_eq!(history.state.backups, before);
    }
    for number in 1..SCHEDULES_MAX {
        assert_eq!(history.apply(store(&format!("s{number}")).into()), Outcome::Done);
    }
    assert_eq!(history.refused(store("more").into()), ErrorCode::TooLarge);
    assert_eq!(history.apply(remove("s1")), Outcome::Done);
    assert_eq!(history.apply(store("more").into()), Outcome::Done);
    let id = schedule(&history).id;
    history.apply(begin("nightly", id, None));
    let run = ids(&history);
    let reason = "\u{fc}".repeat(REPORT_BYTES_MAX);
    history.apply(report("nightly", run, AttemptEnd::Failed { reason }));
    assert_eq!(violations(&history.state), vec![]);
    assert_eq!(history.apply(remove("nightly")), Outcome::Done);
    assert_eq!(history.apply(remove("nightly")), Outcome::Done);
}

#[derive(Debug, Clone)]
enum Step {
    Store(usize, bool),
    Remove(usize),
    Begin { name: usize, due: Option<u64>, stale: bool },
    Report { name: usize, succeeds: bool, stale: bool },
    Later(u64),
    Earlier(u64),
}

const NAMES: [&str; 3] = ["a", "a-b", "b"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3usize, any::<bool>()).prop_map(|(name, replace)| Step::Store(name, replace)),
        1 => (0..3usize).prop_map(Step::Remove),
        6 => (0..3usize, any::<Option<u16>>(), any::<bool>()).prop_map(|(name, due, stale)| {
            Step::Begin { name, due: due.map(|back| u64::from(back) * 7), stale: stale && back_is_odd(due) }
        }),
        6 => (0..3usize, any::<bool>(), any::<bool>())
            .prop_map(|(name, succeeds, stale)| Step::Report { name, succeeds, stale }),
        3 => (0..10_000_000u64).prop_map(Step::Later),
        1 => (0..200_000_000u64).prop_map(Step::Earlier),
    ]
}

fn back_is_odd(due: Option<u16>) -> bool {
    due.is_some_and(|back| back % 2 == 1)
}

fn carry_out(history: &mut History, step: &Step) {
    match *step {
        Step::Store(name, replace) => {
            let existing = if replace { Existing::Replace } else { Existing::Refuse };
            history.apply(store(NAMES[name]).existing(existing).into());
        }
        Step::Remove(name) => drop(history.apply(remove(NAMES[name]))),
        Step::Begin { name, due, stale } => {
            let Some(known) = history.state.backups.get(&named(NAMES[name])) else { return };
            let id = if stale { StateIndex(1) } else { known.id };
            let due = due.map(|back| Timestamp(history.now.0.saturating_sub(back)));
            history.apply(begin(NAMES[name], id, due));
        }
        Step::Report { name, succeeds, stale } => {
            let Some(known) = history.state.backups.get(&named(NAMES[name])) else { return };
            let Some(run) = known.run else { return };
            let run = if stale { StateIndex(run.id.0 - 1) } else { run.id };
            let end = if succeeds { taken(history.now, history.state.index) } else { failed() };
            history.apply(report(NAMES[name], (known.id, run), end));
        }
        Step::Later(by) => history.now = Timestamp(history.now.0 + by),
        Step::Earlier(by) => history.now = Timestamp(history.now.0.saturating_sub(by)),
    }
}

proptest! {
    /// ST-32: whatever is stored, begun and reported in whatever order and by whatever clock, the laws hold; what was dealt
    /// with goes back only where a clock was ahead by more than a day.
    #[test]
    fn backup_schedules_keep_their_laws(steps in proptest::collection::vec(step(), 1..60)) {
        let mut history = History::founded();
        for step in &steps {
            let before = history.state.backups.clone();
            carry_out(&mut history, step);
            prop_assert_eq!(violations(&history.state), vec![]);
            for (name, schedule) in history.state.backups.iter() {
                let Some(earlier) = before.get(name).filter(|one| one.id == schedule.id) else {
                    continue;
                };
                let is_back = schedule.seen < earlier.seen;
                prop_assert!(!is_back || earlier.seen.since(history.now) > JUMP_MAX);
            }
        }
    }
}
