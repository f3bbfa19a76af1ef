//! Targets of notifications, their addresses sealed as they are.

use std::collections::BTreeSet;

use bytes::Bytes;
use jaco_state::audit::{AuditEvent, AuditKey, EventGroup, Severity};
use jaco_state::notify::{
    Delivered, Failing, NotifyFilter, NotifyForm, NotifyTarget, SealedEndpoint, Undelivered,
    UndeliveredKey,
};
use jaco_types::{NotifyTargetName, StateIndex, Timestamp};

use super::convert::{Wire, ascending, optional, required, wire_enum};
use super::error::Problem;
use super::event::{event_message, to_event};
use super::wire;

wire_enum!(NotifyForm, "form of notifications", [Webhook, Slack, Email]);
wire_enum!(Severity, "severity", [Info, Warning, Critical]);
wire_enum!(
    EventGroup,
    "group of events",
    [Wake, Deployments, Rollouts, Replicas, Jobs, Nodes, Certificates, Access, Cluster]
);

impl Wire for SealedEndpoint {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        Ok(Self((&*bytes).into()))
    }
}

impl Wire for AuditKey {
    type Message = wire::NotifyEvent;

    fn to_wire(&self) -> wire::NotifyEvent {
        wire::NotifyEvent { index: self.index.0, number: self.number }
    }

    fn from_wire(message: wire::NotifyEvent) -> Result<Self, Problem> {
        Ok(Self { index: StateIndex(message.index), number: message.number })
    }
}

impl Wire for Delivered {
    type Message = wire::NotifyDelivered;

    fn to_wire(&self) -> wire::NotifyDelivered {
        wire::NotifyDelivered { event: Some(self.event.to_wire()), at_ms: self.at.0 }
    }

    fn from_wire(message: wire::NotifyDelivered) -> Result<Self, Problem> {
        let event = required("event that was delivered", message.event)?;
        Ok(Self { event, at: Timestamp(message.at_ms) })
    }
}

impl Wire for Failing {
    type Message = wire::NotifyFailing;

    fn to_wire(&self) -> wire::NotifyFailing {
        wire::NotifyFailing { since_ms: self.since.0, reason: self.reason.clone() }
    }

    fn from_wire(message: wire::NotifyFailing) -> Result<Self, Problem> {
        Ok(Self { since: Timestamp(message.since_ms), reason: message.reason })
    }
}

impl Wire for NotifyFilter {
    type Message = wire::NotifyFilter;

    fn to_wire(&self) -> wire::NotifyFilter {
        let Self { groups, kinds, deployments, least } = self;
        wire::NotifyFilter {
            groups: groups.iter().map(Wire::to_wire).collect(),
            kinds: kinds.iter().map(Wire::to_wire).collect(),
            deployments: deployments.iter().map(Wire::to_wire).collect(),
            least: least.to_wire(),
        }
    }

    fn from_wire(message: wire::NotifyFilter) -> Result<Self, Problem> {
        Ok(Self {
            groups: set("groups of events", message.groups)?,
            kinds: set("audit kinds", message.kinds)?,
            deployments: set("deployments of a filter", message.deployments)?,
            least: Wire::from_wire(message.least)?,
        })
    }
}

/// Reads a set, whose only order is the ascending one.
pub(super) fn set<T: Wire + Ord>(
    what: &'static str,
    messages: Vec<T::Message>,
) -> Result<BTreeSet<T>, Problem> {
    let entries = messages.into_iter().map(|message| Ok((T::from_wire(message)?, ())));
    Ok(ascending(what, entries)?.into_keys().collect())
}

pub(super) fn from_target(name: &NotifyTargetName, target: &NotifyTarget) -> wire::NotifyTarget {
    wire::NotifyTarget {
        name: name.to_wire(),
        id: target.id.0,
        form: target.form.to_wire(),
        shown: target.shown.to_string(),
        endpoint: target.endpoint.to_wire(),
        filter: Some(target.filter.to_wire()),
        stored_at_ms: target.stored_at.0,
        by: Some(target.by.to_wire()),
        cursor: Some(target.cursor.to_wire()),
        delivered: target.delivered.as_ref().map(Wire::to_wire),
        failing: target.failing.as_ref().map(Wire::to_wire),
        pruned: target.pruned,
        discarded: target.discarded,
        paused_at_ms: target.paused_at.map(|at| at.0),
    }
}

pub(super) fn to_target(
    message: wire::NotifyTarget,
) -> Result<(NotifyTargetName, NotifyTarget), Problem> {
    let target = NotifyTarget {
        id: StateIndex(message.id),
        form: Wire::from_wire(message.form)?,
        shown: message.shown.into(),
        endpoint: Wire::from_wire(message.endpoint)?,
        filter: required("filter", message.filter)?,
        stored_at: Timestamp(message.stored_at_ms),
        by: required("author", message.by)?,
        cursor: required("cursor", message.cursor)?,
        delivered: optional(message.delivered)?,
        failing: optional(message.failing)?,
        pruned: message.pruned,
        discarded: message.discarded,
        paused_at: message.paused_at_ms.map(Timestamp),
    };
    Ok((Wire::from_wire(message.name)?, target))
}

pub(super) fn from_undelivered(
    key: &UndeliveredKey,
    row: &Undelivered,
) -> wire::UndeliveredNotification {
    let Undelivered { event, attempts, reason, given_up_at, retry } = row;
    wire::UndeliveredNotification {
        target: key.target.to_wire(),
        event: Some(event_message(key.event, event)),
        attempts: *attempts,
        reason: reason.clone(),
        given_up_at_ms: given_up_at.0,
        retry: retry.map(|asked| asked.0),
    }
}

pub(super) fn to_undelivered(
    message: wire::UndeliveredNotification,
) -> Result<(UndeliveredKey, Undelivered), Problem> {
    let event = message.event.ok_or(Problem::Missing("event of a notification"))?;
    let (key, event): (AuditKey, AuditEvent) = to_event(event)?;
    let row = Undelivered {
        event,
        attempts: message.attempts,
        reason: message.reason,
        given_up_at: Timestamp(message.given_up_at_ms),
        retry: message.retry.map(StateIndex),
    };
    Ok((UndeliveredKey { target: Wire::from_wire(message.target)?, event: key }, row))
}
