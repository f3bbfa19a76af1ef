//! Targets of notifications.

use jaco_state::audit::{AuditKey, EventGroup, Severity};
use jaco_state::command::{
    Beginning, Existing, GivenUp, NotifyPause, NotifyProgress, NotifyRemove, NotifyStore,
    PauseChange, Retried, RetryEnd, TargetProgress, UndeliveredChange, UndeliveredSettle,
};
use jaco_state::notify::{
    Delivered, Failing, NotifyFilter, NotifyForm, NotifyTarget, SealedEndpoint, Undelivered,
    UndeliveredKey,
};
use jaco_types::NotifyTargetName;

use super::*;

/// One of each command.
pub(crate) fn notify_commands() -> Vec<Command> {
    vec![
        NotifyStore::new(target(), NotifyForm::Webhook, "https://a.example".into(), endpoint())
            .filter(filter())
            .into(),
        NotifyRemove::new(target()).into(),
        NotifyProgress::new(vec![progress()]).into(),
        UndeliveredSettle::new(target(), UndeliveredChange::Retry).of([key(30)].into()).into(),
        NotifyPause::new(target(), PauseChange::Pause).into(),
    ]
}

/// Commands with the other values of their enums, without what may be absent, and the place of an address.
pub(crate) fn commands_of_notifications() -> Vec<Command> {
    let severe = |least| NotifyFilter { least, ..NotifyFilter::default() };
    let store = |form, filter, existing| {
        let command = NotifyStore::new(target(), form, "http://[::1]:9".into(), endpoint());
        command.filter(filter).existing(existing).into()
    };
    let quiet = TargetProgress {
        delivered: None,
        failing: None,
        given_up: Vec::new(),
        retried: Vec::new(),
        ..progress()
    };
    vec![
        store(NotifyForm::Slack, severe(Severity::Critical), Existing::Replace),
        store(NotifyForm::Slack, severe(Severity::Info), Existing::Refuse),
        NotifyProgress::new(vec![quiet]).into(),
        UndeliveredSettle::new(target(), UndeliveredChange::Clear).into(),
        reseal_of_a_notify_target(),
        NotifyPause::new(target(), PauseChange::Resume).into(),
        NotifyPause::new(target(), PauseChange::CatchUp).into(),
        NotifyStore::new(target(), NotifyForm::Email, "smtps://a.example:465".into(), endpoint())
            .beginning(Beginning::Paused)
            .into(),
    ]
}

/// A state with two targets and what was not delivered to one, and nothing else.
pub(crate) fn state_of_notifications() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    let new = NotifyTarget {
        id: StateIndex(20),
        form: NotifyForm::Slack,
        shown: "https://hooks.example".into(),
        endpoint: endpoint(),
        filter: NotifyFilter::default(),
        stored_at: Timestamp(1_700_000_000_456),
        by: Identity::Local { uid: 1000 },
        cursor: AuditKey { index: StateIndex(20), number: u32::MAX },
        delivered: None,
        failing: None,
        pruned: 0,
        discarded: 0,
        paused_at: None,
    };
    let used = NotifyTarget {
        id: StateIndex(21),
        form: NotifyForm::Webhook,
        filter: filter(),
        by: Identity::Operator { token: token_id("ops-1") },
        cursor: key(40),
        delivered: Some(Delivered { event: key(39), at: Timestamp(1_700_000_000_789) }),
        failing: Some(failing()),
        pruned: 7,
        discarded: 3,
        ..new.clone()
    };
    state.notify.targets.insert(NotifyTargetName::new("chat").unwrap(), new);
    state.notify.targets.insert(target(), used);
    for (index, retry) in [(30, None), (31, Some(StateIndex(41)))] {
        let event = AuditEvent {
            kind: AuditKind::NodeStatus,
            at: Timestamp(1_700_000_000_123),
            by: Identity::Scheduler,
            origin: None,
            request: None,
            payload: by_name("to", "down"),
            previous: None,
        };
        let row = Undelivered {
            event,
            attempts: 5,
            reason: "answered 400".to_owned(),
            given_up_at: Timestamp(1_700_000_000_999),
            retry,
        };
        let key = UndeliveredKey { target: target(), event: key(index) };
        state.notify.undelivered.insert(key, row);
    }
    state
}

/// A state with a target that is paused, and nothing else.
pub(crate) fn state_of_paused_notifications() -> ClusterState {
    let mut state = state_of_notifications();
    state.notify.undelivered = Default::default();
    state.notify.targets.remove(&target());
    let paused = state.notify.targets.get_mut(&NotifyTargetName::new("chat").unwrap()).unwrap();
    paused.form = NotifyForm::Email;
    paused.shown = "smtps://mail.example:465 to a@example.com".into();
    paused.paused_at = Some(Timestamp(1_700_000_000_890));
    state
}

fn progress() -> TargetProgress {
    TargetProgress {
        name: target(),
        id: StateIndex(20),
        cursor: key(40),
        delivered: Some(Delivered { event: key(39), at: Timestamp(1_700_000_000_789) }),
        failing: Some(failing()),
        given_up: vec![GivenUp { event: key(40), attempts: 5, reason: "answered 400".to_owned() }],
        retried: vec![
            Retried { event: key(30), asked: StateIndex(38), end: RetryEnd::Delivered },
            Retried {
                event: key(31),
                asked: StateIndex(38),
                end: RetryEnd::Failed { reason: "answered 503".to_owned() },
            },
        ],
    }
}

fn failing() -> Failing {
    Failing { since: Timestamp(1_700_000_000_500), reason: "answered 400".to_owned() }
}

fn filter() -> NotifyFilter {
    NotifyFilter {
        groups: EventGroup::ALL.into(),
        kinds: [AuditKind::Apply, AuditKind::NodeStatus].into(),
        deployments: [deployment_name()].into(),
        least: Severity::Warning,
    }
}

fn target() -> NotifyTargetName {
    NotifyTargetName::new("on-call").unwrap()
}

fn endpoint() -> SealedEndpoint {
    SealedEndpoint([7; 40].into())
}

fn key(index: u64) -> AuditKey {
    AuditKey { index: StateIndex(index), number: 1 }
}
