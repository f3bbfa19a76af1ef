//! What happened: which events a reader wants, how they are sent, and whether they are as they were
//! written. Every node has the same events at the same places.

use std::ops::Bound;
use std::sync::Arc;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, AuditLog};
use jaco_state::audit_chain::{Broken, Digest};
use jaco_store::Store;
use jaco_types::{ErrorCode, Rejection, StateIndex};
use tokio::sync::mpsc;
use tonic::Status;

use crate::member::Member;
use crate::status::invalid;
use crate::view;

/// Which events a reader wants.
#[derive(Debug)]
pub(super) struct Filter {
    since_ms: u64,
    until_ms: u64,
    kinds: Vec<AuditKind>,
    deployment: String,
    node: String,
}

impl Filter {
    /// # Errors
    /// When a kind of events is not known; the refusal names all that are.
    pub(super) fn new(request: &v1::AuditRequest) -> Result<Self, Rejection> {
        let kinds = request.kinds.iter().map(|text| {
            let known = AuditKind::ALL.iter().copied().find(|kind| kind.as_str() == text);
            known.ok_or_else(|| {
                let all: Vec<_> = AuditKind::ALL.iter().map(|kind| kind.as_str()).collect();
                invalid(format!("no event type is called {text:?}; there are {}", all.join(", ")))
            })
        });
        let until_ms = match u64::try_from(request.until_ms) {
            Ok(0) | Err(_) => u64::MAX,
            Ok(until) => until,
        };
        Ok(Self {
            since_ms: u64::try_from(request.since_ms).unwrap_or(0),
            until_ms,
            kinds: kinds.collect::<Result<_, _>>()?,
            deployment: request.deployment.clone(),
            node: request.node.clone(),
        })
    }

    fn takes(&self, event: &AuditEvent) -> bool {
        event.at.0 >= self.since_ms
            && event.at.0 < self.until_ms
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && (self.deployment.is_empty() || names_deployment(event, &self.deployment))
            && (self.node.is_empty() || event.payload.get("node") == Some(&self.node))
    }

    fn after(
        &self,
        state: &ClusterState,
        after: Option<AuditKey>,
    ) -> Vec<(AuditKey, v1::AuditEvent)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let events = state.audit.events.range((from, Bound::Unbounded));
        let wanted = events.filter(|(_, event)| self.takes(event));
        wanted.map(|(key, event)| (*key, view::audit_event(*key, event))).collect()
    }
}

/// Whether an event names a deployment or a service of it (`shop/web`). A replica's name does not say
/// where its deployment's ends, so replicas are not among them.
fn names_deployment(event: &AuditEvent, name: &str) -> bool {
    let service = event.payload.get("service").and_then(|service| service.split_once('/'));
    event.payload.get("deployment").is_some_and(|deployment| deployment == name)
        || service.is_some_and(|(deployment, _)| deployment == name)
}

/// The word that events are missing: the reader has seen all up to `seen`, and of what came after some
/// are gone. It stands where the newest of them stood, so that a reader goes on after it.
fn gap(seen: Option<AuditKey>, audit: &AuditLog) -> Option<(AuditKey, v1::AuditEvent)> {
    let cut = audit.retention.and_then(|retention| retention.cut)?;
    seen.filter(|seen| *seen < cut)?;
    let first = audit.events.keys().next().copied().unwrap_or_default();
    let told = v1::AuditEvent {
        index: cut.index.0,
        number: cut.number,
        kind: "gap".to_owned(),
        gap: Some(v1::AuditGap { first_index: first.index.0, first_number: first.number }),
        ..v1::AuditEvent::default()
    };
    Some((cut, told))
}

/// Sends events in order, without repeats, and without gaps that are not told: each read starts after
/// the last event that was looked at.
pub(super) async fn send(
    member: Arc<Member>,
    request: v1::AuditRequest,
    filter: Filter,
    sender: mpsc::Sender<Result<v1::AuditEvent, Status>>,
) {
    let mut index = member.store.watch_index();
    let start = AuditKey { index: StateIndex(request.after_index), number: request.after_number };
    let mut last = (request.after_index > 0).then_some(start);
    let mut keep = match request.last {
        0 => usize::MAX,
        newest => usize::try_from(newest).unwrap_or(usize::MAX),
    };
    loop {
        index.borrow_and_update();
        let (gap, events, newest) = member.store.read(|state| {
            let newest = state.audit.events.keys().next_back().copied();
            (gap(last, &state.audit), filter.after(state, last), newest)
        });
        let skip = events.len().saturating_sub(keep);
        keep = usize::MAX;
        // Of an empty log all that will come is new.
        last = last.max(newest).or(Some(AuditKey::default()));
        for (_, event) in gap.into_iter().chain(events.into_iter().skip(skip)) {
            if sender.send(Ok(event)).await.is_err() {
                return;
            }
        }
        if !request.follow {
            return;
        }
        let changed = tokio::select! {
            changed = index.changed() => changed.is_ok(),
            () = sender.closed() => false,
        };
        if !changed {
            return;
        }
    }
}

/// Checks the chain of this node's events.
///
/// # Errors
/// `audit_chain_broken`, with the place of the event that is not as it was written.
pub(super) fn verify(member: &Member) -> Result<v1::VerifyAuditResponse, Rejection> {
    // Copied under the lock and hashed outside it.
    let audit = member.store.read(|state| state.audit.clone());
    let verified = audit.verify().map_err(|broken| refusal(member, broken))?;
    let (first, last) = verified.span.unwrap_or_default();
    Ok(v1::VerifyAuditResponse {
        answered_by: member.hostname.to_string(),
        events: u64::try_from(verified.events).unwrap_or(u64::MAX),
        first_index: first.index.0,
        first_number: first.number,
        last_index: last.index.0,
        last_number: last.number,
        complete: verified.follows == Digest::start(),
        follows: verified.follows.to_string(),
        head: verified.head.to_string(),
    })
}

fn refusal(member: &Member, broken: Broken) -> Rejection {
    let node = &member.hostname;
    match broken {
        Broken::NotBegun => {
            let message = format!(
                "the audit events of {node} are not chained yet: the leader begins the chain once \
                 all nodes run its version"
            );
            Rejection::new(ErrorCode::AuditChainBroken, message).with("reason", "not_begun")
        }
        Broken::Altered { key } => {
            let message = format!(
                "audit event {}/{} of {node} is not what was written there; all after it are, and \
                 nothing can be said of those before it",
                key.index, key.number
            );
            Rejection::new(ErrorCode::AuditChainBroken, message)
                .with("reason", "altered")
                .with("index", key.index.to_string())
                .with("number", key.number.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use jaco_state::audit::Retention;
    use jaco_types::Millis;

    use super::*;

    /// R-CLI-5: a reader is told of what it missed, and only then.
    #[test]
    fn a_gap_is_told_where_events_are_gone_that_were_not_seen() {
        let key = |index| AuditKey { index: StateIndex(index), number: 1 };
        let mut audit = AuditLog::default();
        assert_eq!(gap(Some(key(5)), &audit), None, "nothing was let go of");
        audit.retention = Some(Retention { age: Millis(1), cut: Some(key(7)) });
        assert_eq!(gap(None, &audit), None, "whoever asks for all gets all that there is");
        assert_eq!(gap(Some(key(7)), &audit), None);
        assert_eq!(gap(Some(key(8)), &audit), None);
        let (place, told) = gap(Some(key(6)), &audit).unwrap();
        assert_eq!((place, told.index, told.kind.as_str()), (key(7), 7, "gap"));
    }
}
