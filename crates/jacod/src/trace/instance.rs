//! The spans of one instance on this node, from when it was seen until it is healthy. Pure.

use std::time::SystemTime;

use jaco_trace::{Attribute, Kind, Span, Status, derived_span_id};
use jaco_types::{InstanceId, InstanceObserved, ReplicaState, TraceContext};

use super::work::{Work, moment};

/// An instance of a followed apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Following {
    /// Since when it was not healthy yet.
    Starting(SystemTime),
    /// Its spans are recorded.
    Recorded,
}

/// The id of the span of the plan that an entry is.
pub(super) fn plan_id(place: &TraceContext, entry: u64) -> [u8; 8] {
    derived_span_id(place, "plan", &entry.to_string())
}

/// What is told of an instance.
pub(super) struct Started<'a> {
    /// The trace of its apply.
    pub(super) place: TraceContext,
    pub(super) id: &'a InstanceId,
    /// When it was seen.
    pub(super) seen: SystemTime,
    /// What its node reported last, if anything.
    pub(super) observed: Option<&'a InstanceObserved>,
    /// What the engine did for it.
    pub(super) works: Vec<Work>,
    pub(super) now: SystemTime,
}

/// Whether an instance was started, or cannot be: there is nothing to wait for any more.
pub(super) fn is_settled(observed: &InstanceObserved) -> bool {
    observed.state == ReplicaState::Running || observed.state.is_over()
}

impl Started<'_> {
    /// The span of the instance, below that of its plan, and those of what was done for it.
    pub(super) fn spans(self) -> Vec<Span> {
        let Self { place, id, seen, observed, works, now } = self;
        let text = id.to_string();
        let start_id = derived_span_id(&place, "start", &text);
        let parent = place.with_parent(plan_id(&place, id.raft_index.0)).unwrap_or(place);
        let within = place.with_parent(start_id).unwrap_or(place);
        let attributes = vec![("jaco.instance", text.clone())];
        // A pull for another replica may have begun before.
        let began = works.iter().map(|work| work.began).fold(seen, SystemTime::min);
        let settled = observed.filter(|one| is_settled(one));
        let ended = settled.map_or(now, |one| moment(one.since)).max(began);
        let mut spans = Vec::new();
        if let Some((since, until)) = settled.and_then(healthy) {
            spans.push(span(
                within,
                "first healthy",
                (since, until),
                attributes.clone(),
                Status::Done,
            ));
        }
        spans.extend(works.into_iter().zip(0_u32..).map(|(work, number)| {
            let status = if work.done { Status::Done } else { Status::Failed("engine".to_owned()) };
            let times = (work.began, work.began + work.took);
            let span = span(within, work.name, times, attributes.clone(), status);
            // Several attempts are several spans.
            let id = derived_span_id(&within, work.name, &format!("{text}/{number}"));
            Span { id, ..span }
        }));
        let (status, attributes) = outcome(observed, attributes);
        let start = span(parent, "start replica", (began, ended), attributes, status);
        spans.push(Span { id: start_id, ..start });
        spans
    }
}

/// From the start of a container until it was healthy.
fn healthy(observed: &InstanceObserved) -> Option<(SystemTime, SystemTime)> {
    let started = observed.started_at.filter(|_| observed.state == ReplicaState::Running)?;
    let (since, until) = (moment(started), moment(observed.since));
    Some((since, until.max(since)))
}

fn outcome(
    observed: Option<&InstanceObserved>,
    mut attributes: Vec<Attribute>,
) -> (Status, Vec<Attribute>) {
    let state = observed.map_or(ReplicaState::Pending, |observed| observed.state);
    attributes.push(("jaco.replica.state", state.as_str().to_owned()));
    if let Some(code) = observed.and_then(|observed| observed.code) {
        attributes.push(("jaco.reason", code.as_str().to_owned()));
    }
    match state {
        ReplicaState::Running | ReplicaState::Stopped | ReplicaState::Completed => {
            (Status::Done, attributes)
        }
        ReplicaState::Pending
        | ReplicaState::Pulling
        | ReplicaState::Starting
        | ReplicaState::Degraded
        | ReplicaState::Failed => (Status::Failed(state.as_str().to_owned()), attributes),
    }
}

fn span(
    place: TraceContext,
    name: &'static str,
    (began, ended): (SystemTime, SystemTime),
    attributes: Vec<Attribute>,
    status: Status,
) -> Span {
    let key = attributes.first().map(|(_, value)| value.as_str()).unwrap_or_default();
    let id = derived_span_id(&place, name, key);
    let took = ended.duration_since(began).unwrap_or_default();
    Span { place, id, kind: Kind::Internal, name, began, took, attributes, status }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use jaco_types::{NodeId, ReasonCode, ReplicaId, Sampled, ServiceKey, StateIndex, Timestamp};

    use super::*;

    fn place() -> TraceContext {
        TraceContext::new([1; 16], [2; 8], Sampled::Yes).unwrap()
    }

    fn id() -> InstanceId {
        let replica = ReplicaId::parse("shop-web-1").unwrap();
        InstanceId { replica, raft_index: StateIndex(17) }
    }

    fn observed(state: ReplicaState) -> InstanceObserved {
        let service = ServiceKey {
            deployment: jaco_types::DeploymentName::new("shop").unwrap(),
            service: jaco_types::ServiceName::new("web").unwrap(),
        };
        InstanceObserved {
            id: id(),
            service,
            node: NodeId(1),
            state,
            code: None,
            details: BTreeMap::new(),
            container_id: String::new(),
            ports: BTreeMap::new(),
            started_at: Some(Timestamp(5_000)),
            since: Timestamp(7_000),
            exit: None,
        }
    }

    fn work(name: &'static str, began: u64, done: bool) -> Work {
        let (began, took) = (moment(Timestamp(began)), Duration::from_secs(1));
        Work { name, began, took, done }
    }

    fn spans(observed: Option<&InstanceObserved>, works: Vec<Work>) -> Vec<Span> {
        let (seen, now) = (moment(Timestamp(3_000)), moment(Timestamp(9_000)));
        Started { place: place(), id: &id(), seen, observed, works, now }.spans()
    }

    /// R-OPS-1: the start of a replica is below the plan that placed it, and covers what was done for it; the first healthy
    /// check ends it.
    #[test]
    fn a_start_covers_what_was_done_for_it() {
        let works = vec![work("pull image", 2_000, true), work("start container", 4_000, true)];
        let attempts = [works.clone(), works.clone()].concat();
        let ids = spans(Some(&observed(ReplicaState::Running)), attempts);
        let ids: BTreeSet<_> = ids.into_iter().map(|span| span.id).collect();
        assert_eq!(ids.len(), 6, "attempts are told apart");
        let spans = spans(Some(&observed(ReplicaState::Running)), works);
        let names: Vec<_> = spans.iter().map(|span| span.name).collect();
        assert_eq!(names, ["first healthy", "pull image", "start container", "start replica"]);
        let start = &spans[3];
        assert_eq!(start.place.span_id(), plan_id(&place(), 17));
        assert_eq!((start.began, start.took), (moment(Timestamp(2_000)), Duration::from_secs(5)));
        assert!(spans[..3].iter().all(|span| span.place.span_id() == start.id));
        assert_eq!(spans[0].took, Duration::from_secs(2), "from the start of the container");
        assert!(spans.iter().all(|span| span.status == Status::Done));
    }

    /// R-OPS-1: a replica that does not come up has a span that says so, with the reason that users see.
    #[test]
    fn a_start_that_fails_says_why() {
        let failed = InstanceObserved {
            code: Some(ReasonCode::EngineError),
            ..observed(ReplicaState::Failed)
        };
        let failed = spans(Some(&failed), vec![work("start container", 4_000, false)]);
        assert_eq!(failed.len(), 2, "it was not healthy: {failed:?}");
        assert!(failed.iter().all(|span| matches!(span.status, Status::Failed(_))));
        assert!(failed[1].attributes.contains(&("jaco.reason", "engine_error".to_owned())));
        let waiting = spans(None, Vec::new());
        assert_eq!(waiting[0].status, Status::Failed("pending".to_owned()));
        assert_eq!(waiting[0].took, Duration::from_secs(6), "until it was given up");
    }
}
