//! Targets of notifications (R-OPS-1): what they are, and what was not delivered. Of an address no more than scheme, host,
//! port and whom mail goes to is ever returned.

use std::collections::BTreeSet;
use std::time::Instant;

use async_trait::async_trait;
use jaco_json::audit::place;
use jaco_notify::{Roots, Sender};
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::audit::AuditKey;
use jaco_state::command::{NotifyRemove, UndeliveredChange, UndeliveredSettle};
use jaco_state::notify::{NotifyFilter, NotifyTarget};
use jaco_state::view::{notifications_behind, undelivered_of};
use jaco_store::Store;
use jaco_types::{Author, NotifyTargetName, Rejection, StateIndex};

use crate::auth::cluster_key::cluster_meta;
use crate::forward::{LeaderRead, Write, fresh_request_id};
use crate::member::Member;
use crate::notify::{Subject, open_endpoint, sentence, test_letter};
use crate::status::invalid;
use crate::view;

/// The longest that a test may take: the node that was asked waits for the leader a little longer.
const TEST_LIMIT: std::time::Duration = std::time::Duration::from_secs(3);

#[async_trait]
impl Write for v1::RemoveNotifyTargetRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveNotifyTargetResponse, Rejection> {
        let name = NotifyTargetName::new(&self.name).map_err(invalid)?;
        let shown = |state: &ClusterState| {
            state.notify.targets.get(&name).map(|target| target.shown.to_string())
        };
        // Without one there is nothing to do, nor a command that an older member may not know.
        let Some(address) = member.store.read(shown) else {
            return Ok(v1::RemoveNotifyTargetResponse::default());
        };
        member.commit(by, &self.request_id, NotifyRemove::new(name).into()).await?;
        Ok(v1::RemoveNotifyTargetResponse { address })
    }
}

#[async_trait]
impl LeaderRead for v1::TestNotifyTargetRequest {
    async fn answer(self, member: &Member) -> Result<v1::TestNotifyTargetResponse, Rejection> {
        let state = member.store.snapshot();
        let (name, target) = known(&state, &self.name)?;
        let meta = cluster_meta(&state)?;
        let subject = Subject { meta, target: &name, form: target.form };
        let now = member.clock.now();
        let message = test_letter(subject, &fresh_request_id()[..8], now);
        let began = Instant::now();
        let sent = match open_endpoint(member.cluster_key.ring(), &meta.id, &name, target) {
            Err(error) => Err(error),
            Ok(endpoint) => {
                let sender = Sender::new(Roots::System);
                sender.send(&endpoint, &message, now.0 / 1000, TEST_LIMIT).await
            }
        };
        let answer = v1::TestNotifyTargetResponse {
            sent_by: member.hostname.to_string(),
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            address: target.shown.to_string(),
            ..v1::TestNotifyTargetResponse::default()
        };
        Ok(match sent {
            Ok(status) => v1::TestNotifyTargetResponse { status: status.into(), ..answer },
            Err(error) => v1::TestNotifyTargetResponse {
                status: error.status().into(),
                error: error.to_string(),
                advice: error.advice().to_owned(),
                ..answer
            },
        })
    }
}

#[async_trait]
impl Write for v1::SettleUndeliveredRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SettleUndeliveredResponse, Rejection> {
        let change = match self.change.as_str() {
            "retry" => UndeliveredChange::Retry,
            "clear" => UndeliveredChange::Clear,
            _ => return Err(invalid("undelivered notifications are to be retry or clear")),
        };
        let events = self.events.iter().map(|text| {
            parsed_place(text).ok_or_else(|| {
                invalid(format!("{text:?} is no event: write INDEX/NUMBER, as it is listed"))
            })
        });
        let events: BTreeSet<AuditKey> = events.collect::<Result<_, _>>()?;
        let state = member.store.snapshot();
        let (name, _) = known(&state, &self.target)?;
        let listed: BTreeSet<AuditKey> =
            undelivered_of(&state, &name).map(|(key, _)| key.event).collect();
        if let Some(unknown) = events.difference(&listed).next() {
            let event = place(unknown.index.0, unknown.number);
            return Err(invalid(format!("{name} has no undelivered notification {event}")));
        }
        let count = if events.is_empty() { listed.len() } else { events.len() };
        if count > 0 {
            let command = UndeliveredSettle::new(name, change).of(events).into();
            member.commit(by, &self.request_id, command).await?;
        }
        Ok(v1::SettleUndeliveredResponse { count: u64::try_from(count).unwrap_or(u64::MAX) })
    }
}

/// The targets.
pub(super) fn list(state: &ClusterState) -> Vec<v1::NotifyTargetInfo> {
    state.notify.targets.iter().map(|(name, target)| info(state, name, target)).collect()
}

/// What was given up, of one target or of all.
///
/// # Errors
/// If there is no such target.
pub(super) fn undelivered(
    state: &ClusterState,
    target: &str,
) -> Result<Vec<v1::UndeliveredInfo>, Rejection> {
    let of = match target {
        "" => None,
        name => Some(known(state, name)?.0),
    };
    let rows = state.notify.undelivered.iter();
    let rows = rows.filter(|(key, _)| of.as_ref().is_none_or(|name| key.target == *name));
    Ok(rows
        .map(|(key, row)| {
            let event = view::audit_event(key.event, &row.event);
            v1::UndeliveredInfo {
                target: key.target.to_string(),
                event: place(event.index, event.number),
                kind: event.kind.clone(),
                at_ms: event.at_ms,
                text: sentence(&event),
                attempts: row.attempts,
                reason: row.reason.clone(),
                given_up_at_ms: view::millis(row.given_up_at),
                retrying: row.retry.is_some(),
            }
        })
        .collect())
}

/// A target by its name.
pub(super) fn known<'s>(
    state: &'s ClusterState,
    name: &str,
) -> Result<(NotifyTargetName, &'s NotifyTarget), Rejection> {
    let name = NotifyTargetName::new(name).map_err(invalid)?;
    match state.notify.targets.get(&name) {
        Some(target) => Ok((name, target)),
        None => {
            let all: Vec<&str> =
                state.notify.targets.keys().map(NotifyTargetName::as_str).collect();
            let others = match all.is_empty() {
                true => "there is none".to_owned(),
                false => format!("the targets are {}", all.join(", ")),
            };
            Err(invalid(format!("there is no notification target {name}: {others}")))
        }
    }
}

pub(super) fn info(
    state: &ClusterState,
    name: &NotifyTargetName,
    target: &NotifyTarget,
) -> v1::NotifyTargetInfo {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let delivered = target.delivered;
    let failing = target.failing.as_ref();
    v1::NotifyTargetInfo {
        name: name.to_string(),
        form: target.form.as_str().to_owned(),
        address: target.shown.to_string(),
        filter: Some(filter_info(&target.filter)),
        stored_at_ms: view::millis(target.stored_at),
        by: target.by.to_string(),
        behind: count(notifications_behind(state, target)),
        delivered: delivered.map(|it| place(it.event.index.0, it.event.number)).unwrap_or_default(),
        delivered_at_ms: delivered.map(|it| view::millis(it.at)).unwrap_or_default(),
        failing_since_ms: failing.map(|it| view::millis(it.since)).unwrap_or_default(),
        failing_reason: failing.map(|it| it.reason.clone()).unwrap_or_default(),
        undelivered: count(undelivered_of(state, name).count()),
        pruned: target.pruned,
        discarded: target.discarded,
        paused_at_ms: target.paused_at.map(view::millis).unwrap_or_default(),
    }
}

pub(in crate::service) fn filter_info(filter: &NotifyFilter) -> v1::NotifyFilter {
    let NotifyFilter { groups, kinds, deployments, least } = filter;
    v1::NotifyFilter {
        groups: groups.iter().map(|group| group.as_str().to_owned()).collect(),
        types: kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
        deployments: deployments.iter().map(ToString::to_string).collect(),
        severity: least.as_str().to_owned(),
    }
}

/// A place as it is listed, or as the id of a notification ends.
fn parsed_place(text: &str) -> Option<AuditKey> {
    let mut parts = text.rsplit('/');
    let number = parts.next()?.parse().ok()?;
    let index = StateIndex(parts.next()?.parse().ok()?);
    Some(AuditKey { index, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_from_lists_and_ids() {
        let expected = AuditKey { index: StateIndex(120), number: 1 };
        assert_eq!(parsed_place("120/1"), Some(expected));
        assert_eq!(parsed_place("00112233445566778899aabbccddeeff/120/1"), Some(expected));
        for text in ["", "120", "a/1", "120/", "/1"] {
            assert_eq!(parsed_place(text), None, "{text}");
        }
    }
}
