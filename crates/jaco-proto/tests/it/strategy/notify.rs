//! Targets of notifications.

use jaco_state::audit::{AuditKey, EventGroup, Severity};
use jaco_state::command::{
    Beginning, Existing, GivenUp, NotifyPause, NotifyProgress, NotifyRemove, NotifyStore,
    PauseChange, Retried, RetryEnd, TargetProgress, UndeliveredChange, UndeliveredSettle,
};
use jaco_state::notify::{
    Delivered, Failing, Notifications, NotifyFilter, NotifyForm, NotifyTarget, SealedEndpoint,
    Undelivered, UndeliveredKey,
};
use jaco_types::NotifyTargetName;

use super::*;

pub(crate) fn notify_target_name() -> impl Strategy<Value = NotifyTargetName> {
    "[a-z0-9][a-z0-9.-]{0,10}".prop_map(|text| NotifyTargetName::new(&text).unwrap())
}

fn endpoint() -> impl Strategy<Value = SealedEndpoint> {
    vec(any::<u8>(), 0..40).prop_map(|bytes| SealedEndpoint(bytes.into()))
}

fn place() -> impl Strategy<Value = AuditKey> {
    (index(), any::<u32>()).prop_map(|(index, number)| AuditKey { index, number })
}

fn filter() -> impl Strategy<Value = NotifyFilter> {
    let groups = btree_set(select(EventGroup::ALL.to_vec()), 0..4);
    let kinds = btree_set(select(AuditKind::ALL), 0..4);
    let deployments = btree_set(deployment_name(), 0..3);
    (groups, kinds, deployments, select(Severity::ALL.to_vec())).prop_map(
        |(groups, kinds, deployments, least)| NotifyFilter { groups, kinds, deployments, least },
    )
}

fn delivered() -> impl Strategy<Value = Option<Delivered>> {
    option::of((place(), moment()).prop_map(|(event, at)| Delivered { event, at }))
}

fn failing() -> impl Strategy<Value = Option<Failing>> {
    option::of((moment(), text()).prop_map(|(since, reason)| Failing { since, reason }))
}

fn progress() -> impl Strategy<Value = TargetProgress> {
    let given_up = (place(), any::<u32>(), text()).prop_map(|(event, attempts, reason)| GivenUp {
        event,
        attempts,
        reason,
    });
    let end = option::of(text()).prop_map(|reason| {
        reason.map_or(RetryEnd::Delivered, |reason| RetryEnd::Failed { reason })
    });
    let retried =
        (place(), index(), end).prop_map(|(event, asked, end)| Retried { event, asked, end });
    let news = (vec(given_up, 0..3), vec(retried, 0..3));
    (notify_target_name(), index(), place(), delivered(), failing(), news).prop_map(
        |(name, id, cursor, delivered, failing, (given_up, retried))| TargetProgress {
            name,
            id,
            cursor,
            delivered,
            failing,
            given_up,
            retried,
        },
    )
}

pub(crate) fn notify_command() -> impl Strategy<Value = Command> {
    let form = || select(NotifyForm::ALL.to_vec());
    let existing = select(vec![Existing::Refuse, Existing::Replace]);
    let beginning = select(vec![Beginning::Now, Beginning::Paused]);
    let pause = select(vec![PauseChange::Pause, PauseChange::Resume, PauseChange::CatchUp]);
    let change = select(vec![UndeliveredChange::Retry, UndeliveredChange::Clear]);
    prop_oneof![
        (notify_target_name(), form(), text(), endpoint(), filter(), (existing, beginning))
            .prop_map(|(name, form, shown, endpoint, filter, (existing, beginning))| {
                let command = NotifyStore::new(name, form, shown.into(), endpoint);
                command.filter(filter).existing(existing).beginning(beginning).into()
            }),
        (notify_target_name(), pause)
            .prop_map(|(name, change)| NotifyPause::new(name, change).into()),
        notify_target_name().prop_map(|name| NotifyRemove::new(name).into()),
        vec(progress(), 0..3).prop_map(|targets| NotifyProgress::new(targets).into()),
        (notify_target_name(), change, btree_set(place(), 0..3)).prop_map(
            |(target, change, events)| UndeliveredSettle::new(target, change).of(events).into()
        ),
    ]
}

pub(crate) fn notifications() -> impl Strategy<Value = Notifications> {
    let what = (select(NotifyForm::ALL.to_vec()), text(), endpoint(), filter());
    let counts = (any::<u64>(), any::<u64>());
    let far = (place(), delivered(), failing(), counts, option::of(moment()));
    let target = (index(), what, moment(), identity(), far).prop_map(
        |(id, (form, shown, endpoint, filter), stored_at, by, far)| {
            let (cursor, delivered, failing, (pruned, discarded), paused_at) = far;
            NotifyTarget {
                id,
                form,
                shown: shown.into(),
                endpoint,
                filter,
                stored_at,
                by,
                cursor,
                delivered,
                failing,
                pruned,
                discarded,
                paused_at,
            }
        },
    );
    let event = (select(AuditKind::ALL), moment(), identity(), facts_by_name()).prop_map(
        |(kind, at, by, payload)| AuditEvent {
            kind,
            at,
            by,
            origin: None,
            request: None,
            payload,
            previous: None,
        },
    );
    let key = (notify_target_name(), place())
        .prop_map(|(target, event)| UndeliveredKey { target, event });
    let row = (event, any::<u32>(), text(), moment(), option::of(index())).prop_map(
        |(event, attempts, reason, given_up_at, retry)| Undelivered {
            event,
            attempts,
            reason,
            given_up_at,
            retry,
        },
    );
    (btree_map(notify_target_name(), target, 0..3), btree_map(key, row, 0..3)).prop_map(
        |(targets, undelivered)| Notifications {
            targets: targets.into_iter().collect(),
            undelivered: undelivered.into_iter().collect(),
        },
    )
}
