//! Targets of notifications: kept, replaced, followed, and bounded (R-OPS-1, ST-31).

use std::collections::BTreeSet;

use jaco_state::audit::{AGE_MIN, AuditKey, AuditKind, EventGroup, KEPT_EVENTS, Severity};
use jaco_state::command::{
    AuditNote, AuditRetention, Beginning, Existing, GivenUp, NotifyPause, NotifyProgress,
    NotifyRemove, NotifyStore, PauseChange, Retried, RetryEnd, TargetProgress, UndeliveredChange,
    UndeliveredSettle,
};
use jaco_state::invariants::violations;
use jaco_state::notify::{
    Delivered, ENDPOINT_BYTES_MAX, FILTER_MAX, Failing, NotifyFilter, NotifyForm, NotifyTarget,
    REASON_BYTES_MAX, SealedEndpoint, TARGETS_MAX, UNDELIVERED_MAX,
};
use jaco_state::view::{
    NextNotification, is_notified, next_notification, notifications_behind, undelivered_of,
};
use jaco_state::{Command, Outcome};
use jaco_types::{ErrorCode, Identity, Millis, NotifyTargetName, StateIndex, Timestamp};
use proptest::prelude::*;

use crate::history::{History, create, deploy, deployment, key as service_key, service};
use crate::registries;

fn named(name: &str) -> NotifyTargetName {
    NotifyTargetName::new(name).unwrap()
}

pub(crate) fn store(name: &str) -> NotifyStore {
    let endpoint = SealedEndpoint((*b"sealed").into());
    NotifyStore::new(named(name), NotifyForm::Webhook, "https://a.example".into(), endpoint)
}

pub(crate) fn settle(name: &str, change: UndeliveredChange) -> UndeliveredSettle {
    UndeliveredSettle::new(named(name), change)
}

pub(crate) fn pause(name: &str, change: PauseChange) -> Command {
    NotifyPause::new(named(name), change).into()
}

pub(crate) fn remove(name: &str) -> Command {
    NotifyRemove::new(named(name)).into()
}

pub(crate) fn given_up(event: AuditKey) -> GivenUp {
    GivenUp { event, attempts: 5, reason: "answered 400".to_owned() }
}

pub(crate) fn progress(name: &str, id: StateIndex, cursor: AuditKey) -> TargetProgress {
    TargetProgress {
        name: named(name),
        id,
        cursor,
        delivered: None,
        failing: None,
        given_up: Vec::new(),
        retried: Vec::new(),
    }
}

fn report(history: &mut History, progress: TargetProgress) {
    assert_eq!(history.apply(NotifyProgress::new(vec![progress]).into()), Outcome::Done);
    assert_eq!(violations(&history.state), vec![]);
}

fn target(history: &History, name: &str) -> NotifyTarget {
    history.state.notify.targets.get(&named(name)).unwrap().clone()
}

fn undelivered(history: &History, name: &str) -> Vec<AuditKey> {
    undelivered_of(&history.state, &named(name)).map(|(key, _)| key.event).collect()
}

/// Writes an event, and says where it is.
fn event(history: &mut History) -> AuditKey {
    history.apply(AuditNote::new(AuditKind::AccessRefused, Default::default()).into());
    *history.state.audit.events.keys().next_back().unwrap()
}

/// Writes an event that is no refusal, of which only some are written.
fn other_event(history: &mut History) -> AuditKey {
    history.apply(AuditNote::new(AuditKind::CertificateRenewed, Default::default()).into());
    *history.state.audit.events.keys().next_back().unwrap()
}

fn next(history: &History, name: &str, after: AuditKey) -> NextNotification {
    let target = target(history, name);
    next_notification(&history.state, (&named(name), &target), after, |_, _| false)
}

/// R-OPS-1: a target gets the events after it was added, in their order, and the audit log says who added it without
/// anything of its address but the host.
#[test]
fn a_target_gets_what_comes_after_it() {
    let mut history = History::founded();
    event(&mut history);
    assert_eq!(history.apply(store("ops").into()), Outcome::Done);
    let stored = "notify_stored address=https://a.example filter=all form=webhook target=ops";
    assert_eq!(history.last_event(), stored);
    assert_eq!(target(&history, "ops").by, Identity::Local { uid: 0 });
    let begun = target(&history, "ops").cursor;
    assert!(matches!(next(&history, "ops", begun), NextNotification::Nothing { .. }));
    let (first, second) = (other_event(&mut history), other_event(&mut history));
    let got = |after| match next(&history, "ops", after) {
        NextNotification::Event { key, .. } => key,
        other => panic!("{other:?}"),
    };
    assert_eq!((got(begun), got(first)), (first, second));
    assert_eq!(notifications_behind(&history.state, &target(&history, "ops")), 2);
    assert_eq!(next(&history, "ops", second), NextNotification::Nothing { seen: second });
    assert!(!format!("{:?}", history.state).contains("sealed\""));
}

/// R-OPS-1: a name is taken once; a target that is replaced goes on where it was, and what was reported of the former one
/// says nothing of it.
#[test]
fn a_replaced_target_goes_on() {
    let mut history = History::founded();
    history.apply(store("ops").into());
    assert_eq!(history.refused(store("ops").into()), ErrorCode::InvalidRequest);
    let former = target(&history, "ops");
    let event = other_event(&mut history);
    let delivered = Some(Delivered { event, at: history.now });
    let failing = Some(Failing { since: history.now, reason: "answered 500".to_owned() });
    let of = progress("ops", former.id, event);
    report(&mut history, TargetProgress { delivered, failing, ..of.clone() });
    let known = target(&history, "ops");
    assert_eq!((known.cursor, known.delivered), (event, delivered));
    history.apply(store("ops").existing(Existing::Replace).into());
    let replaced = target(&history, "ops");
    assert!(replaced.id > former.id);
    let kept = (replaced.cursor, replaced.delivered, replaced.failing.clone());
    assert_eq!(kept, (event, delivered, None));
    let late = other_event(&mut history);
    report(&mut history, TargetProgress { cursor: late, ..of });
    assert_eq!(target(&history, "ops"), replaced, "the report is of the former one");
}

/// R-OPS-1: reports leave no event, so that a delivery does not cause the next one, and never lead back or ahead.
#[test]
fn reports_cause_nothing() {
    let mut history = History::founded();
    history.apply(store("ops").into());
    let id = target(&history, "ops").id;
    let (first, second) = (other_event(&mut history), other_event(&mut history));
    let before = history.state.audit.clone();
    report(&mut history, progress("ops", id, second));
    report(&mut history, progress("ops", id, first));
    assert_eq!(target(&history, "ops").cursor, second, "never back");
    let far = AuditKey { index: StateIndex(u64::MAX), number: 7 };
    report(&mut history, progress("ops", id, far));
    assert!(target(&history, "ops").cursor.index < history.state.index);
    report(&mut history, progress("other", id, far));
    assert_eq!(history.state.audit, before);
    let third = other_event(&mut history);
    let cursor = target(&history, "ops").cursor;
    assert!(
        matches!(next(&history, "ops", cursor), NextNotification::Event { key, .. } if key == third)
    );
}

/// R-OPS-1: what was given up is kept with its event, told once while there is some, sent again on request, and gone once
/// it is delivered.
#[test]
fn what_was_given_up_can_be_sent_again() {
    let mut history = History::founded();
    history.apply(store("ops").into());
    let id = target(&history, "ops").id;
    let (first, second) = (other_event(&mut history), other_event(&mut history));
    let of = |cursor| progress("ops", id, cursor);
    report(&mut history, TargetProgress { given_up: vec![given_up(first)], ..of(first) });
    assert_eq!(history.last_event(), "notify_undelivered reason=answered 400 target=ops");
    let events = history.state.audit.events.len();
    report(&mut history, TargetProgress { given_up: vec![given_up(second)], ..of(second) });
    report(&mut history, TargetProgress { given_up: vec![given_up(first)], ..of(second) });
    assert_eq!(history.state.audit.events.len(), events, "told once, whatever follows");
    assert_eq!(undelivered(&history, "ops"), [first, second]);

    let retry = settle("ops", UndeliveredChange::Retry).of([first].into());
    assert_eq!(history.apply(retry.into()), Outcome::Done);
    assert_eq!(history.last_event(), "notify_settled change=retry count=1 target=ops");
    let asked = history.state.index;
    let again = next(&history, "ops", second);
    let is_first = |next: &NextNotification| matches!(next, NextNotification::Again { key, asked: by, .. } if (*key, *by) == (first, asked));
    assert!(is_first(&again), "{again:?}");
    let failed = RetryEnd::Failed { reason: "answered 503".to_owned() };
    let retried = vec![Retried { event: first, asked, end: failed.clone() }];
    report(&mut history, TargetProgress { retried, ..of(second) });
    let rows: Vec<_> = undelivered_of(&history.state, &named("ops")).map(|(_, row)| row).collect();
    assert_eq!(
        (rows[0].attempts, rows[0].reason.as_str(), rows[0].retry),
        (6, "answered 503", None)
    );

    history.apply(settle("ops", UndeliveredChange::Retry).into());
    let stale = vec![Retried { event: first, asked, end: failed }];
    report(&mut history, TargetProgress { retried: stale, ..of(second) });
    let is_due = undelivered_of(&history.state, &named("ops")).all(|(_, row)| row.retry.is_some());
    assert!(is_due, "an answer to an earlier request is none to this one");
    let asked = history.state.index;
    let retried = vec![Retried { event: first, asked, end: RetryEnd::Delivered }];
    report(&mut history, TargetProgress { retried, ..of(second) });
    assert_eq!(undelivered(&history, "ops"), [second]);

    history.apply(settle("ops", UndeliveredChange::Clear).into());
    assert_eq!(undelivered(&history, "ops"), []);
    let audit = history.state.audit.clone();
    history.apply(settle("ops", UndeliveredChange::Clear).into());
    assert_eq!(history.state.audit, audit, "nothing is left to clear");
}

/// R-OPS-1: a paused target gets nothing, what was asked for again included, and keeps its place; resumed it skips what was
/// in the pause and says how much that is, or catches up. What is as it should be leaves no event.
#[test]
fn a_paused_target_waits() {
    let mut history = History::founded();
    history.apply(store("ops").into());
    let id = target(&history, "ops").id;
    let first = other_event(&mut history);
    let given = TargetProgress { given_up: vec![given_up(first)], ..progress("ops", id, first) };
    report(&mut history, given);
    history.apply(settle("ops", UndeliveredChange::Retry).into());
    assert_eq!(history.apply(pause("ops", PauseChange::Pause)), Outcome::Done);
    assert_eq!(history.last_event(), "notify_paused target=ops");
    let second = other_event(&mut history);
    assert_eq!(next(&history, "ops", first), NextNotification::Nothing { seen: first });
    let audit = history.state.audit.clone();
    history.apply(pause("ops", PauseChange::Pause));
    assert_eq!(history.state.audit, audit, "it is paused already");

    // What replaces it is paused as well.
    history.apply(store("ops").existing(Existing::Replace).into());
    assert!(target(&history, "ops").paused_at.is_some());
    let waiting = notifications_behind(&history.state, &target(&history, "ops"));
    let mut caught_up = history.clone();
    history.apply(pause("ops", PauseChange::Resume));
    assert_eq!(history.last_event(), format!("notify_resumed skipped={waiting} target=ops"));
    history.apply(settle("ops", UndeliveredChange::Clear).into());
    let third = other_event(&mut history);
    let skips = |after| match next(&history, "ops", after) {
        NextNotification::Event { key, .. } => key,
        other => panic!("{other:?}"),
    };
    // Whoever delivers has only been at the first one.
    assert!(skips(first) > second && skips(first) < third);
    assert_eq!(violations(&history.state), vec![]);

    caught_up.apply(pause("ops", PauseChange::CatchUp));
    assert_eq!(caught_up.last_event(), "notify_resumed skipped=0 target=ops");
    assert!(matches!(next(&caught_up, "ops", first), NextNotification::Again { .. }));
    caught_up.apply(settle("ops", UndeliveredChange::Clear).into());
    let got = |after| match next(&caught_up, "ops", after) {
        NextNotification::Event { key, .. } => key,
        other => panic!("{other:?}"),
    };
    assert!(got(first) <= second, "all of the pause is sent");
    let refused = history.refused(pause("nobody", PauseChange::Pause));
    assert_eq!(refused, ErrorCode::InvalidRequest);
}

/// R-OPS-1: a target can be paused from its beginning, as those of a backup are.
#[test]
fn a_target_can_begin_paused() {
    let mut history = History::founded();
    history.apply(store("ops").beginning(Beginning::Paused).into());
    assert_eq!(history.last_event(), "notify_paused target=ops");
    let event = other_event(&mut history);
    let begun = target(&history, "ops").cursor;
    assert!(begun < event);
    assert_eq!(next(&history, "ops", begun), NextNotification::Nothing { seen: begun });
}

/// R-OPS-1: a target that is removed takes along what was not delivered to it, and nothing of another one.
#[test]
fn a_removed_target_leaves_nothing() {
    let mut history = History::founded();
    for name in ["ops", "ops2"] {
        history.apply(store(name).into());
    }
    let event = other_event(&mut history);
    for name in ["ops", "ops2"] {
        let of = progress(name, target(&history, name).id, event);
        report(&mut history, TargetProgress { given_up: vec![given_up(event)], ..of });
    }
    assert_eq!(history.apply(remove("ops")), Outcome::Done);
    assert_eq!(history.last_event(), "notify_removed address=https://a.example target=ops");
    assert_eq!(
        (undelivered(&history, "ops"), undelivered(&history, "ops2")),
        (vec![], vec![event])
    );
    assert_eq!(violations(&history.state), vec![]);
    let audit = history.state.audit.clone();
    history.apply(remove("ops"));
    assert_eq!(history.state.audit, audit);
}

/// ST-31: there are bounds, and what is beyond them is refused, cut or discarded and counted.
#[test]
fn notifications_are_bounded() {
    let mut history = History::founded();
    let large = SealedEndpoint(vec![7; ENDPOINT_BYTES_MAX + 257].into());
    let too_large = [
        NotifyStore { endpoint: large, ..store("ops") },
        NotifyStore { endpoint: SealedEndpoint([].into()), ..store("ops") },
        NotifyStore { shown: "x".repeat(301).into(), ..store("ops") },
        store("ops").filter(NotifyFilter {
            deployments: (0..=FILTER_MAX).map(|n| deployment(&format!("d{n}"))).collect(),
            ..NotifyFilter::default()
        }),
    ];
    for command in too_large {
        assert_eq!(history.refused(command.into()), ErrorCode::TooLarge);
    }
    for number in 0..TARGETS_MAX {
        assert_eq!(history.apply(store(&format!("t{number}")).into()), Outcome::Done);
    }
    assert_eq!(history.refused(store("ops").into()), ErrorCode::TooLarge);
    assert!(history.last_event().contains("remove one"), "{}", history.last_event());
    let id = target(&history, "t0").id;
    let mut events = Vec::new();
    for _ in 0..UNDELIVERED_MAX + 3 {
        let event = other_event(&mut history);
        events.push(event);
        let long = "é".repeat(REASON_BYTES_MAX);
        let given_up = vec![GivenUp { reason: long, ..given_up(event) }];
        report(&mut history, TargetProgress { given_up, ..progress("t0", id, event) });
    }
    assert_eq!(undelivered(&history, "t0"), events[3..]);
    assert_eq!(target(&history, "t0").discarded, 3);
}

/// R-OPS-1: events that are evicted before a target got them are counted, those of others and those it got are not.
#[test]
fn pruned_events_are_counted() {
    let mut history = History::founded();
    history.apply(AuditRetention::new(AGE_MIN).into());
    let critical = NotifyFilter { least: Severity::Critical, ..NotifyFilter::default() };
    history.apply(store("all").into());
    history.apply(store("severe").filter(critical).into());
    let mut keys = Vec::new();
    for _ in 0..10 {
        keys.push(other_event(&mut history));
    }
    let got = keys[3];
    let of = progress("all", target(&history, "all").id, got);
    report(&mut history, of);
    history.now = history.now.after(Millis(3 * AGE_MIN.0));
    other_event(&mut history);
    let counted = |name| target(&history, name).pruned;
    // Six of the ten, and nothing that it got, that came before it, or that is not for it.
    assert_eq!((counted("all"), counted("severe")), (6, 0));
    let cursor = target(&history, "all").cursor;
    assert!(matches!(next(&history, "all", cursor), NextNotification::Event { .. }), "it goes on");
    // What the leader gives up and is not there any more has been counted.
    let late = TargetProgress {
        given_up: vec![given_up(keys[5])],
        ..progress("all", target(&history, "all").id, keys[5])
    };
    report(&mut history, late);
    assert_eq!(undelivered(&history, "all"), []);
}

/// R-OPS-1: a flood evicts by number, and counts as well.
#[test]
fn a_flood_is_counted() {
    let mut history = History::founded();
    history.apply(AuditRetention::new(AGE_MIN).into());
    history.apply(store("all").into());
    let before = history.state.audit.events.len();
    for _ in 0..KEPT_EVENTS + 100 {
        other_event(&mut history);
    }
    let missed = before + KEPT_EVENTS + 100 - history.state.audit.events.len() - before;
    assert_eq!(target(&history, "all").pruned, missed as u64);
    assert_eq!(violations(&history.state), vec![]);
}

/// R-OPS-1: filters take kinds and groups together, and of these what is severe enough and about the right deployments.
#[test]
fn filters_choose_events() {
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    history.apply(deploy("shop-2", &[service("web", "web:1")]));
    let web = service_key("shop-2", "web");
    history.batch(vec![create(&web, 0, jaco_types::NodeId::FIRST)]);
    let note = |kind, facts: &[(&str, &str)]| {
        let facts = facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        AuditNote::new(kind, facts.collect()).into()
    };
    history.apply(note(AuditKind::NodeStatus, &[("node", "n1"), ("to", "down")]));
    history.apply(note(AuditKind::RolloutAborted, &[("service", "shop/web")]));
    history.apply(registries::store("ghcr.io", b"sealed"));
    let chosen = |filter: NotifyFilter| -> Vec<&str> {
        let state = &history.state;
        let events = state.audit.events.values().skip(1);
        let chosen = events.filter(|event| is_notified(state, &filter, event));
        chosen.map(|event| event.kind.as_str()).collect()
    };
    let groups = |groups: &[EventGroup]| NotifyFilter {
        groups: groups.iter().copied().collect(),
        ..NotifyFilter::default()
    };
    assert_eq!(chosen(groups(&[EventGroup::Wake])), ["node_status", "rollout_aborted"]);
    assert_eq!(chosen(groups(&[EventGroup::Deployments])), ["apply", "apply"]);
    let both = NotifyFilter {
        kinds: [AuditKind::RegistryStored].into(),
        ..groups(&[EventGroup::Replicas])
    };
    assert_eq!(chosen(both), ["replica_placed", "registry_stored"]);
    let of =
        |name| NotifyFilter { deployments: [deployment(name)].into(), ..NotifyFilter::default() };
    assert_eq!(chosen(of("shop")), ["apply", "rollout_aborted"]);
    assert_eq!(chosen(of("shop-2")), ["apply", "replica_placed"]);
    let severe = NotifyFilter { least: Severity::Critical, ..of("shop") };
    assert_eq!(chosen(severe), ["rollout_aborted"]);
    let least = NotifyFilter { least: Severity::Warning, ..NotifyFilter::default() };
    assert_eq!(chosen(least), ["node_status", "rollout_aborted"]);
    assert_eq!(chosen(NotifyFilter::default()).len(), 6);
}

/// Each kind is in one group, and each group but `wake` has one.
#[test]
fn groups_part_the_kinds() {
    let used: BTreeSet<EventGroup> =
        AuditKind::ALL.iter().map(|kind| EventGroup::of(*kind)).collect();
    let expected: BTreeSet<EventGroup> =
        EventGroup::ALL.into_iter().filter(|group| *group != EventGroup::Wake).collect();
    assert_eq!(used, expected);
    for group in EventGroup::ALL {
        assert_eq!(EventGroup::parse(group.as_str()), Some(group));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Store(usize, bool),
    Remove(usize),
    Event,
    Settle(usize, bool),
    Pause(usize, bool),
    Progress { target: usize, skip: u64, gives_up: bool, retried: Option<bool>, stale: bool },
    Later,
}

fn step() -> impl Strategy<Value = Step> {
    let progress = (0..3usize, 0..4u64, any::<bool>(), any::<Option<bool>>(), any::<bool>());
    prop_oneof![
        2 => (0..3usize, any::<bool>()).prop_map(|(target, replace)| Step::Store(target, replace)),
        1 => (0..3usize).prop_map(Step::Remove),
        6 => Just(Step::Event),
        2 => (0..3usize, any::<bool>()).prop_map(|(target, retry)| Step::Settle(target, retry)),
        2 => (0..3usize, any::<bool>()).prop_map(|(target, pause)| Step::Pause(target, pause)),
        6 => progress.prop_map(|(target, skip, gives_up, retried, stale)| Step::Progress {
            target, skip, gives_up, retried, stale,
        }),
        1 => Just(Step::Later),
    ]
}

const NAMES: [&str; 3] = ["a", "a-b", "b"];

fn carry_out(history: &mut History, step: &Step) {
    match *step {
        Step::Store(name, replace) => {
            let existing = if replace { Existing::Replace } else { Existing::Refuse };
            history.apply(store(NAMES[name]).existing(existing).into());
        }
        Step::Remove(name) => drop(history.apply(remove(NAMES[name]))),
        Step::Event => drop(event(history)),
        Step::Settle(name, retry) => {
            let change = if retry { UndeliveredChange::Retry } else { UndeliveredChange::Clear };
            history.apply(settle(NAMES[name], change).into());
        }
        Step::Pause(name, pauses) => {
            let change = if pauses { PauseChange::Pause } else { PauseChange::CatchUp };
            history.apply(pause(NAMES[name], change));
        }
        Step::Progress { target, skip, gives_up, retried, stale } => {
            let name = named(NAMES[target]);
            let Some(known) = history.state.notify.targets.get(&name) else { return };
            let id = if stale { StateIndex(1) } else { known.id };
            let cursor = AuditKey { index: StateIndex(known.cursor.index.0 + skip), number: 3 };
            let end = |delivered| match delivered {
                true => RetryEnd::Delivered,
                false => RetryEnd::Failed { reason: "no".to_owned() },
            };
            let first = undelivered_of(&history.state, &name).next();
            let retried = first.and_then(|(key, row)| {
                let asked = row.retry.unwrap_or_default();
                Some(Retried { event: key.event, asked, end: end(retried?) })
            });
            let kept = history.state.audit.events.keys().next_back().copied();
            let of = TargetProgress {
                given_up: kept.filter(|_| gives_up).map(given_up).into_iter().collect(),
                retried: retried.into_iter().collect(),
                ..progress(NAMES[target], id, cursor)
            };
            history.apply(NotifyProgress::new(vec![of]).into());
        }
        Step::Later => history.now = Timestamp(history.now.0 + AGE_MIN.0),
    }
}

proptest! {
    /// ST-31, ST-10: whatever is stored, reported and settled in whatever order, the laws hold; a cursor never goes back,
    /// and an event is settled, still to come, or counted: none is silently lost.
    #[test]
    fn notifications_keep_their_laws(steps in proptest::collection::vec(step(), 1..60)) {
        let mut history = History::founded();
        history.apply(AuditRetention::new(AGE_MIN).into());
        for step in &steps {
            let before = history.state.notify.clone();
            carry_out(&mut history, step);
            prop_assert_eq!(violations(&history.state), vec![]);
            for (name, target) in history.state.notify.targets.iter() {
                let Some(earlier) = before.targets.get(name) else { continue };
                if !matches!(step, Step::Remove(_)) {
                    prop_assert!(target.cursor >= earlier.cursor);
                    prop_assert!(target.pruned >= earlier.pruned);
                }
            }
        }
    }
}
