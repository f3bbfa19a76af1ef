//! Audit events: filters, streams, and the verification of their hash chain. Every node has the same events under
//! the same indices.

use std::ops::Bound;
use std::sync::Arc;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, AuditLog};
use jaco_state::audit::{Broken, Digest};
use jaco_state::view::names_deployment;
use jaco_store::Store;
use jaco_types::{ErrorCode, Rejection, StateIndex};
use tokio::sync::mpsc;
use tonic::Status;

use crate::member::Member;
use crate::status::invalid;
use crate::view;

/// Selects events.
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
    /// `invalid_request` for an unknown kind, with all known ones.
    pub(super) fn new(request: &v1::AuditRequest) -> Result<Self, Rejection> {
        let kinds = request.kinds.iter().map(|text| {
            let known = AuditKind::ALL.iter().copied().find(|kind| kind.as_str() == text);
            known.ok_or_else(|| {
                let all: Vec<_> = AuditKind::ALL.iter().map(|kind| kind.as_str()).collect();
                invalid(format!(
                    "there is no event type {text:?}; the types are {}",
                    all.join(", ")
                ))
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

    fn matches(&self, state: &ClusterState, event: &AuditEvent) -> bool {
        event.at.0 >= self.since_ms
            && event.at.0 < self.until_ms
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && (self.deployment.is_empty() || names_deployment(state, event, &self.deployment))
            && (self.node.is_empty() || event.payload.get("node") == Some(&self.node))
    }

    /// The key of the oldest of the newest `count` events.
    fn start_of_newest(&self, state: &ClusterState, count: usize) -> Option<AuditKey> {
        let events = state.audit.events.range(..).rev();
        let wanted = events.filter(|(_, event)| self.matches(state, event));
        wanted.take(count).last().map(|(key, _)| *key)
    }

    /// The next page of events from `from` on, and the last key that was examined for it.
    fn page(
        &self,
        state: &ClusterState,
        from: Bound<AuditKey>,
    ) -> (Vec<v1::AuditEvent>, Option<AuditKey>) {
        let (mut page, mut examined) = (Vec::new(), None);
        for (key, event) in state.audit.events.range((from, Bound::Unbounded)) {
            if page.len() == PAGE {
                break;
            }
            examined = Some(*key);
            if self.matches(state, event) {
                page.push(view::audit_event(*key, event));
            }
        }
        (page, examined)
    }
}

/// A gap event, if events after `seen` were evicted. It has the index of the newest evicted event, so that a
/// reader resumes after it.
fn gap(seen: Option<AuditKey>, audit: &AuditLog) -> Option<(AuditKey, v1::AuditEvent)> {
    let cut = audit.retention.and_then(|retention| retention.cut)?;
    seen.filter(|seen| *seen < cut)?;
    let first = audit.events.keys().next().copied().unwrap_or_default();
    let event = v1::AuditEvent {
        index: cut.index.0,
        number: cut.number,
        kind: "gap".to_owned(),
        gap: Some(v1::AuditGap { first_index: first.index.0, first_number: first.number }),
        ..v1::AuditEvent::default()
    };
    Some((cut, event))
}

/// How many events are read at a time, so that a slow reader does not hold a copy of the whole log.
const PAGE: usize = 32;

/// Sends events in order, without repeats; evicted ones are reported as a gap. Each read continues after the last
/// event that was examined.
pub(super) async fn send(
    member: Arc<Member>,
    request: v1::AuditRequest,
    filter: Filter,
    sender: mpsc::Sender<Result<v1::AuditEvent, Status>>,
) {
    let mut index = member.store.watch_index();
    let start = AuditKey { index: StateIndex(request.after_index), number: request.after_number };
    let mut last = (request.after_index > 0).then_some(start);
    let mut from = last.map_or(Bound::Unbounded, Bound::Excluded);
    if let Some(count) = usize::try_from(request.last).ok().filter(|count| *count > 0) {
        let newest = member.store.read(|state| filter.start_of_newest(state, count));
        from = newest
            .filter(|newest| last.is_none_or(|last| last < *newest))
            .map_or(from, Bound::Included);
    }
    loop {
        index.borrow_and_update();
        let (gap, (events, examined)) =
            member.store.read(|state| (gap(last, &state.audit), filter.page(state, from)));
        let is_last_page = events.len() < PAGE;
        // In an empty log every later event is new.
        last = last.max(examined).or(Some(AuditKey::default()));
        from = last.map_or(from, Bound::Excluded);
        for event in gap.map(|(_, event)| event).into_iter().chain(events) {
            if sender.send(Ok(event)).await.is_err() {
                return;
            }
        }
        if !is_last_page {
            continue;
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

/// Verifies the hash chain of this node's events.
///
/// # Errors
/// `audit_chain_broken`, with the index of the altered event.
pub(super) fn verify(member: &Member) -> Result<v1::VerifyAuditResponse, Rejection> {
    // Copied under the lock, hashed outside it.
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
                "the audit events of {node} have no hash chain yet: it begins once all nodes run \
                 the same version; upgrade all nodes"
            );
            Rejection::new(ErrorCode::AuditChainBroken, message).with("reason", "not_begun")
        }
        Broken::Altered { key } => {
            let message = format!(
                "audit event {}/{} on {node} was altered; all later events are intact, earlier ones \
                 cannot be verified. Compare with `jaco audit verify` on another node",
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

    /// R-CLI-5: what happened to the replicas of a deployment is among its events, also of those that are gone.
    #[test]
    fn events_of_replicas_belong_to_their_deployment() {
        let event = |key: &str, value: &str| AuditEvent {
            kind: AuditKind::ReplicaMoved,
            at: jaco_types::Timestamp(1),
            by: jaco_types::Identity::Scheduler,
            request: None,
            payload: [(key.to_owned(), value.to_owned())].into(),
            previous: None,
            origin: None,
        };
        let state = ClusterState::default();
        let check = |key, value, expected| {
            assert_eq!(names_deployment(&state, &event(key, value), "shop"), expected, "{value}");
        };
        check("deployment", "shop", true);
        check("deployment", "shop2", false);
        check("service", "shop/web", true);
        check("service", "blog/web", false);
        check("replica", "shop-web-0", true);
        check("replica", "shop2-web-0", false);
        check("node", "shop", false);
    }

    /// R-CLI-5: a gap is reported exactly when events that the reader has not seen were evicted.
    #[test]
    fn evicted_unseen_events_are_reported_as_a_gap() {
        let key = |index| AuditKey { index: StateIndex(index), number: 1 };
        let mut audit = AuditLog::default();
        assert_eq!(gap(Some(key(5)), &audit), None, "nothing was evicted");
        audit.retention = Some(Retention { age: Millis(1), cut: Some(key(7)), clock: None });
        assert_eq!(gap(None, &audit), None, "a reader from the start gets what is kept");
        assert_eq!(gap(Some(key(7)), &audit), None);
        assert_eq!(gap(Some(key(8)), &audit), None);
        let (key_of_gap, event) = gap(Some(key(6)), &audit).unwrap();
        assert_eq!((key_of_gap, event.index, event.kind.as_str()), (key(7), 7, "gap"));
    }
}
