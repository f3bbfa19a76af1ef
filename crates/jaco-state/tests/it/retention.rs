//! How long audit events are kept, what is handed over when they go, and that nobody can push what
//! others did out of the log.

use jaco_state::audit::Digest;
use jaco_state::audit::{
    AGE_MAX, AGE_MIN, AuditKey, AuditKind, CUT_EVENTS, DEFAULT_AGE, Evicted, KEPT_EVENTS,
};
use jaco_state::audit::{IDENTITIES_MAX, REFUSAL_WINDOW, REFUSALS_WRITTEN};
use jaco_state::command::{AuditNote, AuditRetention, ContentPut, DeploymentDelete};
use jaco_state::invariants::violations;
use jaco_state::{Command, Entry, apply_evicting};
use jaco_types::{ErrorCode, Identity, Millis, NodeId, Origin, RequestId, Timestamp, TokenId};
use proptest::prelude::*;

use crate::history::{History, ORIGIN, deployment};

const HOUR: u64 = 3_600_000;

/// A cluster whose events are chained and kept for this long.
fn kept_for(age: Millis) -> History {
    let mut history = History::founded();
    history.apply(Command::AuditBegin);
    history.apply(AuditRetention::new(age).into());
    history
}

fn note(n: u64) -> Command {
    let payload = [("n".to_owned(), n.to_string())].into();
    AuditNote::new(AuditKind::CertificateRenewed, payload).into()
}

fn refused() -> Command {
    DeploymentDelete::new(deployment("nothing")).into()
}

/// Applies as this identity, and returns what was evicted.
fn apply_by(history: &mut History, by: Identity, command: Command) -> Evicted {
    let entry = Entry { by, ..history.entry(None, command) };
    let mut gone = Evicted::new();
    apply_evicting(&mut history.state, &entry, &mut gone);
    gone
}

fn operator(name: &str) -> Identity {
    Identity::Operator { token: TokenId::new(name).unwrap() }
}

/// R-CLI-5, ST-10: a leader whose clock is 100 days ahead does not empty the log, and once its clock is set right nothing
/// has been evicted; a jump that lasts for a day is the time.
#[test]
fn a_clock_that_jumps_ahead_empties_no_log() {
    const DAY: u64 = 24 * HOUR;
    let mut history = History::founded();
    history.apply(Command::AuditBegin);
    history.apply(AuditRetention::new(DEFAULT_AGE).doubting_jumps().into());
    for n in 0..20 {
        history.now = Timestamp(history.now.0 + HOUR);
        history.apply(note(n));
    }
    let (kept, right) = (history.state.audit.events.len(), history.now);
    for n in 20..30 {
        history.now = Timestamp(right.0 + 100 * DAY + n * HOUR / 2);
        history.apply(note(n));
    }
    assert_eq!(history.state.audit.events.len(), kept + 10, "nothing is evicted");
    history.now = Timestamp(right.0 + HOUR);
    history.apply(note(30));
    assert_eq!(history.state.audit.events.len(), kept + 11, "nor when the clock is right again");
    assert_eq!(violations(&history.state), vec![]);

    // What was set stays with another age.
    history.apply(AuditRetention::new(AGE_MIN).into());
    let clock = history.state.audit.retention.unwrap().clock.expect("it goes on");
    assert_eq!((clock.believed, clock.jumped), (history.now, None));
    history.now = Timestamp(right.0 + 100 * DAY);
    history.apply(note(31));
    let before = history.state.audit.events.len();
    history.now = Timestamp(right.0 + 101 * DAY);
    history.apply(note(32));
    assert!(history.state.audit.events.len() < before, "it has lasted for a day");
}

/// ST-3: without the clock, as in a log of an earlier version, events are aged by the entry, as they were.
#[test]
fn a_log_of_an_earlier_version_ages_as_before() {
    let mut history = kept_for(DEFAULT_AGE);
    history.apply(note(1));
    history.now = Timestamp(history.now.0 + 100 * 24 * HOUR);
    history.apply(note(2));
    assert_eq!(history.state.audit.events.len(), 1);
    assert_eq!(history.state.audit.retention.unwrap().clock, None);
}

proptest! {
    /// ST-10, ST-13, R-CLI-5: whatever is written when, what was handed over and what is kept are one
    /// chain without a gap, and nothing that is kept is too old or too much.
    #[test]
    fn what_goes_and_what_stays_are_all_there_ever_was(
        steps in prop::collection::vec((0..3 * HOUR, 0..4u8, 0..3u8), 1..200),
        age_hours in 1..48u64,
    ) {
        let mut history = kept_for(Millis(age_hours * HOUR));
        let mut gone = Evicted::new();
        for (n, (pause, kind, who)) in (0..).zip(steps) {
            // Leaders' clocks differ: now and then one is behind the last.
            let now = history.now.0;
            history.now = Timestamp(if kind == 0 { now.saturating_sub(pause) } else { now + pause });
            let by = operator(&format!("p{who}"));
            let command = if kind == 1 { refused() } else { note(n) };
            gone.extend(apply_by(&mut history, by, command));
            prop_assert_eq!(violations(&history.state), vec![]);
            let audit = &history.state.audit;
            let oldest = history.now.0.saturating_sub((age_hours + 1) * HOUR);
            prop_assert!(audit.events.values().next().is_none_or(|event| event.at.0 >= oldest));
            prop_assert_eq!(audit.retention.unwrap().cut, gone.last().map(|(key, _)| *key));
        }
        let mut expected = Digest::start();
        for (key, event) in &gone {
            prop_assert_eq!(event.previous, Some(expected));
            expected = Digest::of(*key, event);
        }
        prop_assert_eq!(history.state.audit.verify().unwrap().follows, expected);
    }

    /// R-CLI-5: every refusal has an event or is in a count, once its window is over.
    #[test]
    fn no_refusal_is_lost(
        steps in prop::collection::vec((0..HOUR / 20, 0..100usize), 1..600),
    ) {
        let mut history = kept_for(AGE_MAX);
        let first = history.state.index;
        let total = steps.len();
        for (pause, who) in steps {
            history.now = Timestamp(history.now.0 + pause);
            apply_by(&mut history, operator(&format!("p{who}")), refused());
            prop_assert_eq!(violations(&history.state), vec![]);
        }
        history.now = history.now.after(REFUSAL_WINDOW);
        history.apply(note(0));
        prop_assert!(history.state.audit.refusals.is_empty());
        let events = history.state.audit.events.iter();
        let told: u64 = events
            .filter(|(key, event)| key.index > first && event.kind == AuditKind::RequestRefused)
            .map(|(_, event)| match event.payload.get("unreported") {
                Some(count) => count.parse::<u64>().unwrap(),
                None => 1,
            })
            .sum();
        prop_assert_eq!(told, u64::try_from(total).unwrap());
    }
}

/// R-CLI-5: too many events go together, and the newest that went is known.
#[test]
fn events_go_in_blocks() {
    let mut history = kept_for(DEFAULT_AGE);
    let by = Identity::Scheduler;
    let missing = KEPT_EVENTS - history.state.audit.events.len();
    for n in 0..missing {
        let gone = apply_by(&mut history, by.clone(), note(u64::try_from(n).unwrap()));
        assert_eq!(gone, vec![], "there is room");
    }
    assert_eq!(history.state.audit.retention.unwrap().cut, None);
    let gone = apply_by(&mut history, by, note(0));
    assert_eq!(gone.len(), CUT_EVENTS + 1);
    let audit = &history.state.audit;
    assert_eq!(audit.events.len(), KEPT_EVENTS - CUT_EVENTS);
    assert_eq!(audit.retention.unwrap().cut, gone.last().map(|(key, _)| *key));
}

/// R-CLI-5: an event goes once it is older than its age, in whole hours; also with an entry that has no
/// event, and not before.
#[test]
fn events_go_with_age() {
    let mut history = kept_for(Millis(48 * HOUR));
    history.now = Timestamp(1000 * HOUR);
    history.apply(note(1));
    let before = history.state.audit.events.len();
    assert_eq!(before, 1, "those of the founding are too old");
    history.now = Timestamp(1048 * HOUR + HOUR - 1);
    history.apply(ContentPut::new(vec![]).into());
    assert_eq!(history.state.audit.events.len(), 1, "not yet a whole hour too old");
    history.now = Timestamp(1049 * HOUR);
    history.apply(ContentPut::new(vec![]).into());
    assert!(history.state.audit.events.is_empty());
    assert!(history.state.audit.verify().is_ok(), "a chain without events is one");
}

/// R-CLI-5: the age has bounds, its change is an event, and its repetition none.
#[test]
fn the_age_has_bounds() {
    let mut history = kept_for(DEFAULT_AGE);
    for age in [Millis(AGE_MIN.0 - 1), Millis(AGE_MAX.0 + 1)] {
        assert_eq!(history.refused(AuditRetention::new(age).into()), ErrorCode::InvalidRequest);
    }
    for age in [AGE_MIN, AGE_MAX] {
        history.apply(AuditRetention::new(age).into());
        assert_eq!(history.state.audit.retention.unwrap().age, age);
    }
    assert_eq!(history.last_event(), "audit_retention_set from=3600s to=315360000s");
}

/// A chain that evicted events before they were counted reports all of them.
#[test]
fn what_went_before_it_was_counted_is_gone_as_well() {
    let mut history = History::founded();
    for n in 0..KEPT_EVENTS {
        history.apply(note(u64::try_from(n).unwrap()));
    }
    let oldest = *history.state.audit.events.keys().next().unwrap();
    history.apply(AuditRetention::new(DEFAULT_AGE).into());
    let cut = history.state.audit.retention.unwrap().cut.unwrap();
    assert!(cut >= AuditKey { index: oldest.index, number: 0 }, "{cut:?} {oldest:?}");
}

/// R-CLI-5: whoever is refused without end does not push out what others did; it is counted, by
/// identity, and the count is told.
#[test]
fn a_flood_of_refusals_pushes_nothing_out() {
    let mut history = kept_for(DEFAULT_AGE);
    apply_by(&mut history, operator("ops"), note(7));
    let before = history.state.audit.events.clone();
    let flood = 3 * u64::try_from(KEPT_EVENTS).unwrap();
    for n in 0..flood {
        let by = if n % 2 == 0 { operator("loud") } else { Identity::Anonymous };
        let payload = [("from".to_owned(), format!("192.0.2.{}", n % 250))].into();
        let knock = AuditNote::new(AuditKind::AccessRefused, payload).into();
        let command = if n % 2 == 0 { refused() } else { knock };
        assert_eq!(apply_by(&mut history, by, command), vec![]);
    }
    let events = history.state.audit.events.len() - before.len();
    assert_eq!(events, 2 * usize::try_from(REFUSALS_WRITTEN).unwrap());
    assert!(before.keys().all(|key| history.state.audit.events.contains(key)));
    history.now = history.now.after(REFUSAL_WINDOW);
    history.apply_as("next", note(8));
    let events: Vec<_> = history.state.audit.events.values().rev().take(3).collect();
    let unreported = flood / 2 - u64::from(REFUSALS_WRITTEN);
    for (event, by, kind) in [
        (events[2], operator("loud"), AuditKind::RequestRefused),
        (events[1], Identity::Anonymous, AuditKind::AccessRefused),
    ] {
        assert_eq!((&event.by, event.kind), (&by, kind));
        assert_eq!(event.payload["unreported"], unreported.to_string());
        assert_eq!((event.origin, &event.request), (None, &None), "they are not this entry's");
    }
    assert_eq!(events[0].origin, Some(ORIGIN));
    assert_eq!(events[0].request, Some(RequestId::new("next").unwrap()));
    assert!(history.state.audit.refusals.is_empty());
}

/// More people than are counted are told of early, and none is forgotten.
#[test]
fn many_identities_are_bounded() {
    let mut history = kept_for(DEFAULT_AGE);
    for n in 0..3 * IDENTITIES_MAX {
        history.now = history.now.after(Millis(1));
        for _ in 0..=REFUSALS_WRITTEN {
            apply_by(&mut history, operator(&format!("p{n}")), refused());
        }
        assert!(history.state.audit.refusals.len() <= IDENTITIES_MAX + 1);
    }
    let told = history.state.audit.events.values();
    let told = told.filter(|event| event.payload.contains_key("unreported")).count();
    assert_eq!(told, 2 * IDENTITIES_MAX);
}

/// A clock that was years ahead for a moment does not keep anybody's count for ever.
#[test]
fn a_clock_that_went_back_ends_a_count() {
    let mut history = kept_for(AGE_MAX);
    let normal = history.now;
    history.now = normal.after(Millis(100 * 24 * HOUR));
    for _ in 0..=REFUSALS_WRITTEN {
        apply_by(&mut history, operator("loud"), refused());
    }
    history.now = normal;
    history.apply(note(1));
    assert!(history.state.audit.refusals.is_empty());
}

/// Before the leader has written the retention, all is as in older versions: one node may be of one.
#[test]
fn without_a_retention_all_is_as_it_was() {
    let mut history = History::founded();
    for _ in 0..2 * REFUSALS_WRITTEN {
        apply_by(&mut history, operator("loud"), refused());
    }
    assert!(history.state.audit.refusals.is_empty());
    for n in 0..KEPT_EVENTS {
        history.apply(note(u64::try_from(n).unwrap()));
    }
    assert_eq!(history.state.audit.events.len(), KEPT_EVENTS);
    assert_eq!(Origin::Member { node: NodeId(1) }.to_string(), "node:1");
}
