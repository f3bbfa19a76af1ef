//! When runs of jobs are due, and that they run then and only then (R-JOB-2).

use std::collections::BTreeSet;

use jaco_scheduler::schedule::{Agenda, Calendar, next_run};
use jaco_state::audit::AuditKind;
use jaco_state::command::{Disabling, JobDue, JobStart};
use jaco_state::{Command, Outcome};
use jaco_types::spec::{
    Concurrency, Cron, HistoryLimit, Schedule, ServiceMode, ServiceSpec, ZoneName,
};
use jaco_types::{AllocationScope, Completion, DesiredState, Millis, ReplicaState, Timestamp};
use jiff::tz::TimeZoneDatabase;
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, key, service};

const JOB: &str = "shop-job-0";
const MINUTE: u64 = 60_000;

fn schedule(cron: &str, zone: &str) -> Schedule {
    Schedule {
        cron: Cron::parse(cron).unwrap(),
        time_zone: ZoneName::new(zone).unwrap(),
        concurrency: Concurrency::Forbid,
        deadline: None,
        history: HistoryLimit::DEFAULT,
    }
}

fn calendar(cron: &str, zone: &str) -> Calendar {
    Calendar::of(&schedule(cron, zone)).unwrap()
}

fn at(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().unwrap();
    Timestamp(u64::try_from(at.as_millisecond()).unwrap())
}

fn show(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(i64::try_from(at.0).unwrap()).unwrap().to_string()
}

/// The next so many due times, in UTC.
fn next(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let calendar = calendar(cron, zone);
    let first = calendar.next_after(at(after));
    let dues = std::iter::successors(first, |due| calendar.next_after(*due));
    dues.take(count).map(show).collect()
}

/// R-JOB-2: fields, names, steps and both ways to choose a day.
#[test]
fn expressions_are_due_when_they_say() {
    for (cron, expected) in [
        ("30 2 * * *", ["2026-03-02T02:30:00Z", "2026-03-03T02:30:00Z"]),
        ("*/20 9-10 * * *", ["2026-03-02T09:00:00Z", "2026-03-02T09:20:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("0 12 * * mon-tue", ["2026-03-02T12:00:00Z", "2026-03-03T12:00:00Z"]),
        ("0 12 * * 7", ["2026-03-08T12:00:00Z", "2026-03-15T12:00:00Z"]),
        ("0 0 13 * 5", ["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"]),
        ("15,45 0 1 jan,jul *", ["2026-07-01T00:15:00Z", "2026-07-01T00:45:00Z"]),
        ("@hourly", ["2026-03-02T01:00:00Z", "2026-03-02T02:00:00Z"]),
        ("@weekly", ["2026-03-08T00:00:00Z", "2026-03-15T00:00:00Z"]),
        ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
    ] {
        assert_eq!(next(cron, "UTC", "2026-03-02T00:00:00Z", 2), expected, "{cron}");
    }
    assert_eq!(
        next("0 2 * * *", "Asia/Kolkata", "2026-03-02T00:00:00Z", 1),
        ["2026-03-02T20:30:00Z"]
    );
}

/// R-JOB-2: what is no expression, or names no day that there is, is refused.
#[test]
fn wrong_expressions_are_refused() {
    for wrong in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "a * * * *",
        "1, * * * *",
        "-1 * * * *",
        "+1 * * * *",
        "1-2-3 * * * *",
        "* * 30 2 *",
        "0 0 31 4,6,9,11 *",
        "@never",
        "* * * * fri-mon",
        "1/ * * * *",
    ] {
        assert!(Cron::parse(wrong).is_err(), "{wrong:?}");
    }
    assert!(Cron::parse(&"1,".repeat(300)).is_err());
}

/// R-JOB-2: a time that the clocks leave out is due as much later, one that comes twice the first time only.
#[test]
fn changes_of_the_clocks_neither_drop_nor_double_a_run() {
    let spring = "2026-03-28T12:00:00Z";
    assert_eq!(
        next("30 2 * * *", "Europe/Berlin", spring, 3),
        ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]
    );
    // Two times of one day may meet: they are one run.
    assert_eq!(
        next("30 2,3 * * *", "Europe/Berlin", spring, 2),
        ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]
    );
    let autumn = "2026-10-24T12:00:00Z";
    assert_eq!(
        next("30 2 * * *", "Europe/Berlin", autumn, 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    // What goes through all hours follows those that pass.
    assert_eq!(
        next("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"]
    );
    assert_eq!(
        next("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]
    );
    // Half an hour forward, and a day that there was not.
    assert_eq!(
        next("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
        ["2026-10-03T15:40:00Z", "2026-10-04T15:10:00Z"]
    );
    assert_eq!(
        next("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3),
        ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"]
    );
}

/// R-JOB-2: of a long outage the last week is counted, and what is due less often however long ago.
#[test]
fn due_times_of_an_outage_are_counted() {
    let (from, until) = (at("2026-01-01T00:00:00Z"), at("2026-03-01T00:00:30Z"));
    let dues = calendar("* * * * *", "UTC").between(from, until).unwrap();
    assert_eq!((dues.count, show(dues.last)), (10_080, "2026-03-01T00:00:00Z".to_owned()));
    assert_eq!(dues.before_last.map(show).unwrap(), "2026-02-28T23:59:00Z");
    let dues = calendar("@monthly", "UTC").between(from, until).unwrap();
    assert_eq!((dues.count, show(dues.last)), (1, "2026-03-01T00:00:00Z".to_owned()));
    let dues = calendar("0 0 15 * *", "UTC").between(from, until).unwrap();
    assert_eq!((dues.count, show(dues.first)), (2, "2026-01-15T00:00:00Z".to_owned()));
    assert_eq!(calendar("@yearly", "UTC").between(from, until), None);
}

fn any_cron() -> impl Strategy<Value = String> {
    let minute = prop_oneof![
        Just("*/20".to_owned()),
        Just("*/7".to_owned()),
        (0..60_u8).prop_map(|n| n.to_string())
    ];
    let hour = prop_oneof![
        Just("*".to_owned()),
        Just("*/5".to_owned()),
        (0..24_u8).prop_map(|n| n.to_string()),
        (0..4_u8).prop_map(|n| format!("{n}-{}", n + 2)),
    ];
    let day = prop_oneof![3 => Just("*".to_owned()), 1 => (1..29_u8).prop_map(|n| n.to_string())];
    let weekday =
        prop_oneof![3 => Just("*".to_owned()), 1 => (0..7_u8).prop_map(|n| n.to_string())];
    (minute, hour, day, weekday)
        .prop_map(|(minute, hour, day, weekday)| format!("{minute} {hour} {day} * {weekday}"))
}

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Sao_Paulo",
    "Africa/Cairo",
    "Pacific/Apia",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// R-JOB-2: due times go up, and it makes no difference how a span is cut: each lies in one part.
    #[test]
    fn due_times_lie_in_one_part_of_a_span(
        cron in any_cron(),
        zone in prop::sample::select(ZONES),
        // From 2010 to 2040.
        start in 1_262_304_000_u64..2_208_988_800,
        lengths in prop::collection::vec(1_u64..20 * 3600, 1..8),
    ) {
        let calendar = calendar(&cron, zone);
        let (start, mut from, mut count) = (Timestamp(start * 1000), start * 1000, 0);
        let mut seen = BTreeSet::new();
        for length in lengths {
            let until = from + length * 1000;
            if let Some(dues) = calendar.between(Timestamp(from), Timestamp(until)) {
                prop_assert!(from < dues.first.0 && dues.first <= dues.last && dues.last.0 <= until);
                prop_assert!(dues.before_last.is_none_or(|before| before < dues.last));
                prop_assert_eq!(calendar.next_after(Timestamp(from)), Some(dues.first));
                count += dues.count;
                prop_assert!(seen.insert(dues.first) && (dues.count == 1 || seen.insert(dues.last)));
            }
            from = until;
        }
        let whole = calendar.between(start, Timestamp(from)).map_or(0, |dues| dues.count);
        prop_assert_eq!(whole, count);
    }

    /// R-JOB-2: every due time is written so, but for those that the clocks moved on; where clocks do not change, and for what
    /// goes through all hours, those are all the minutes that are written so.
    #[test]
    fn due_times_are_those_that_are_written(
        cron in any_cron(),
        zone in prop::sample::select(ZONES),
        start in 1_262_304_000_u64..2_208_988_800,
    ) {
        let expression = Cron::parse(&cron).unwrap();
        let calendar = calendar(&cron, zone);
        let rules = TimeZoneDatabase::bundled().get(zone).unwrap();
        let from = Timestamp(start / 60 * MINUTE);
        let until = from.after(Millis(3 * 24 * 60 * MINUTE));
        let mut expected = BTreeSet::new();
        for minute in from.0 / MINUTE + 1..=until.0 / MINUTE {
            let moment = jiff::Timestamp::from_millisecond((minute * MINUTE) as i64).unwrap();
            let local = rules.to_datetime(moment);
            let weekday = local.weekday().to_sunday_zero_offset();
            if expression.has_day(local.month(), local.day(), weekday)
                && expression.hours().any(|hour| hour == local.hour())
                && expression.minutes().any(|minute| minute == local.minute())
                && local.second() == 0
            {
                expected.insert(Timestamp(minute * MINUTE));
            }
        }
        let first = calendar.next_after(from);
        let dues = std::iter::successors(first, |due| calendar.next_after(*due));
        let dues: BTreeSet<_> = dues.take_while(|due| *due <= until).collect();
        let offset = |at: Timestamp| {
            rules.to_offset(jiff::Timestamp::from_millisecond(at.0 as i64).unwrap())
        };
        let day_before = Timestamp(from.0.saturating_sub(24 * 60 * MINUTE));
        let is_steady = [day_before, from, until].map(offset).windows(2).all(|two| two[0] == two[1]);
        if is_steady || expression.is_every_hour() {
            prop_assert_eq!(&dues, &expected);
        } else {
            // One change in three days: an hour's minutes at most are moved or left out.
            let differs = dues.symmetric_difference(&expected).count();
            prop_assert!(differs <= 120, "{} differ", differs);
        }
    }
}

/// Makes it a job of every hour.
pub(crate) fn hourly(spec: &mut ServiceSpec) {
    spec.mode = ServiceMode::Job;
    spec.schedule = Some(schedule("0 * * * *", "UTC"));
}

fn job(image: &str) -> Service {
    service("job", image).with(hourly)
}

/// A cluster with `shop/job`, settled before its first due time.
fn waiting() -> Cluster {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[job("job:1")]);
    cluster.settle();
    cluster
}

fn state(cluster: &Cluster) -> DesiredState {
    cluster.slot(JOB).desired_state
}

/// Looks at the clock at the next due time, and does what the leader would.
fn come_due(cluster: &mut Cluster) -> Vec<Command> {
    let due = next_run(&cluster.state, &key("shop", "job")).unwrap();
    let mut agenda = Agenda::default();
    let (commands, next) = agenda.look(&cluster.state, Timestamp(due.0 - 1));
    assert_eq!((commands, next), (Vec::new(), Some(due)), "it is not due yet");
    cluster.advance(due.since(cluster.now), &[]);
    let (commands, _) = agenda.look(&cluster.state, cluster.now);
    for command in commands.clone() {
        assert_eq!(cluster.commit(command), Outcome::Done);
    }
    commands
}

fn finish(cluster: &mut Cluster, end: ReplicaState) {
    cluster.see(JOB, end);
    cluster.pass();
}

/// R-JOB-2: a scheduled job runs nothing before its time, runs then, and not again before the next one: not by a drain, a
/// lost node, another spec or an apply. Each run is a new instance.
#[test]
fn job_runs_when_it_is_due_and_only_then() {
    let mut cluster = waiting();
    assert_eq!(state(&cluster), DesiredState::Disabled);
    assert_eq!(cluster.audited(AuditKind::ReplicaEnabled), 0);
    come_due(&mut cluster);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Active);
    let first = cluster.slot(JOB).current.raft_index;
    finish(&mut cluster, ReplicaState::Stopped);
    cluster.settle();
    let done = DesiredState::Finished(Completion::Succeeded);
    assert_eq!(state(&cluster), done);
    assert_eq!(cluster.slot(JOB).current.raft_index, first, "its container is kept");
    let node = cluster.slot(JOB).current.node;
    let host = cluster.state.nodes.get(&node).unwrap().hostname.to_string();
    cluster.drain(&host, Millis::from_secs(60));
    cluster.settle();
    cluster.advance(Millis::from_secs(600), &[&host]);
    cluster.settle();
    assert_eq!(state(&cluster), done);
    cluster.apply("shop", &[job("job:2")]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Disabled, "another spec waits as well");
    come_due(&mut cluster);
    cluster.settle();
    let second = cluster.slot(JOB).clone();
    assert_eq!((second.desired_state, second.current.revision.0), (DesiredState::Active, 2));
    assert!(second.current.raft_index > first && second.current.node != node);
    let record = cluster.state.jobs.get(&key("shop", "job")).unwrap();
    assert_eq!((record.runs, record.ended.len()), (2, 1));
}

/// R-JOB-2: a run that failed is not tried again by an apply, but with the next run.
#[test]
fn failed_run_is_over() {
    let mut cluster = waiting();
    come_due(&mut cluster);
    cluster.settle();
    for _ in 0..3 {
        finish(&mut cluster, ReplicaState::Failed);
        cluster.advance(Millis::from_secs(40), &[]);
        cluster.settle();
    }
    assert_eq!(state(&cluster), DesiredState::Finished(Completion::Failed));
    let convergence = |cluster: &Cluster| {
        let deployment = cluster.state.deployments.values().next().unwrap();
        jaco_state::view::convergence(&cluster.state, deployment).as_str()
    };
    assert_eq!(convergence(&cluster), "failed");
    cluster.apply("shop", &[job("job:1")]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Finished(Completion::Failed));
    assert_eq!(convergence(&cluster), "active", "nothing is waited for but its time");
    come_due(&mut cluster);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Active);
}

/// R-JOB-2: what was due while nobody led begins once, and is proposed once; a job that runs, or is disabled, misses it.
#[test]
fn outage_leads_to_one_run() {
    let mut cluster = waiting();
    cluster.advance(Millis::from_secs(5 * 24 * 3600), &[]);
    let (commands, _) = Agenda::default().look(&cluster.state, cluster.now);
    let [Command::JobDue(JobDue { earlier: Some(earlier), .. })] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert!((118..=121).contains(&earlier.count), "{earlier:?}");
    let twice = [commands[0].clone(), commands[0].clone()];
    let outcomes = twice.map(|command| cluster.commit(command));
    assert_eq!(outcomes[0], Outcome::Done);
    assert!(matches!(outcomes[1], Outcome::Rejected(_)));
    cluster.settle();
    come_due(&mut cluster);
    let record = cluster.state.jobs.get(&key("shop", "job")).unwrap().clone();
    assert_eq!((record.runs, record.missed.len()), (1, 2));
    assert!(matches!(
        cluster.commit(JobStart::new(key("shop", "job")).into()),
        Outcome::Rejected(_)
    ));
    cluster.set_disabled(Disabling::Disable, &[AllocationScope::Service(key("shop", "job"))]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Disabled);
    cluster.set_disabled(Disabling::Enable, &[AllocationScope::Service(key("shop", "job"))]);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Disabled, "the run is over");
}

/// R-JOB-2: a job without a schedule is run again by a user.
#[test]
fn user_runs_a_job_again() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[service("job", "job:1").with(|spec| spec.mode = ServiceMode::Job)]);
    cluster.settle();
    finish(&mut cluster, ReplicaState::Stopped);
    cluster.settle();
    let first = cluster.slot(JOB).current.raft_index;
    assert_eq!(cluster.commit(JobStart::new(key("shop", "job")).into()), Outcome::Done);
    cluster.settle();
    assert_eq!(state(&cluster), DesiredState::Active);
    assert!(cluster.slot(JOB).current.raft_index > first);
    finish(&mut cluster, ReplicaState::Stopped);
    cluster.settle();
    let record = cluster.state.jobs.get(&key("shop", "job")).unwrap();
    assert_eq!((record.runs, record.ended.len()), (1, 1));
}
