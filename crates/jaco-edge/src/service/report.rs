//! What an edge says of itself to its daemon.

use std::collections::{BTreeMap, BTreeSet};

use jaco_dataplane::edge::ListenerKey;
use jaco_types::{InstanceId, RouteKey, StateIndex};
use serde::{Deserialize, Serialize};

use super::change_message::instance_id;
use crate::counters::RouteCounts;
use crate::edge::{EdgeStatus, Succession};

/// What an edge has done with what it was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeReport {
    /// The state of the plan that is in use; `None` before the first one of this process. It is newer than what a daemon
    /// told that knows less than the one before: an older plan is ignored.
    pub applied: Option<StateIndex>,
    /// The instances that leave and still have something to finish, within their drain time.
    pub busy: BTreeSet<InstanceId>,
    /// What could not be carried out, by what it is about, and why: as in [`EdgeStatus::problems`], and `plan` for one
    /// that this edge cannot read.
    pub problems: BTreeMap<String, String>,
    /// The base of a change that it was told and could not take, as it does not hold that plan: it needs a whole one.
    /// `None` once it was told one.
    pub refused: Option<StateIndex>,
    /// Connections of clients, at the time of this report: it is not repeated when only they change.
    pub connections: usize,
    /// The sockets that it has.
    pub listeners: BTreeSet<ListenerKey>,
    /// Whether another process takes its place.
    pub succession: Succession,
    /// Whether it can be told where lines about requests go; one of an earlier version cannot.
    pub takes_log: bool,
    /// Whether it can be told to trace requests; one of an earlier version cannot.
    pub takes_traces: bool,
}

/// What an edge has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeCounters {
    /// Whether its plan may be out of date: see [`Edge::is_stale`](crate::Edge::is_stale).
    pub is_stale: bool,
    /// Connections of clients.
    pub connections: usize,
    /// Differs from process to process: counts of two runs have nothing to do with each other.
    pub run: u64,
    /// By route of the plan in use, those with requests.
    pub routes: BTreeMap<RouteKey, RouteCounts>,
}

/// What came of an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The base of a change that could not be taken.
    pub(super) refused: Option<u64>,
    /// Why the order could not be read.
    pub(super) unreadable: Option<String>,
}

/// A report as it is said.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReportMessage {
    applied: Option<u64>,
    busy: Vec<(String, u64)>,
    problems: BTreeMap<String, String>,
    refused: Option<u64>,
    connections: usize,
    listeners: Vec<String>,
    is_replaced: bool,
    /// Not said by an edge of an earlier version.
    #[serde(default)]
    has_successor: bool,
    #[serde(default)]
    takes_log: bool,
    #[serde(default)]
    takes_traces: bool,
}

/// Counters as they are said. Routes by domain and path.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CountersMessage {
    is_stale: bool,
    connections: usize,
    #[serde(default)]
    run: u64,
    routes: Vec<(String, String, RouteCounts)>,
}

impl ReportMessage {
    pub(super) fn new(status: &EdgeStatus, answer: &Answer, connections: usize) -> Self {
        let busy = status.busy.iter();
        let unreadable = answer.unreadable.iter().map(|why| ("plan".to_owned(), why.clone()));
        Self {
            applied: status.applied.map(|applied| applied.0),
            busy: busy.map(|id| (id.replica.to_string(), id.raft_index.0)).collect(),
            problems: status.problems.clone().into_iter().chain(unreadable).collect(),
            refused: answer.refused,
            connections,
            listeners: status.listeners.iter().map(ToString::to_string).collect(),
            is_replaced: status.succession != Succession::None,
            has_successor: status.succession == Succession::Done,
            takes_log: true,
            takes_traces: true,
        }
    }

    /// The report; `None` if anything in it is not what an edge says.
    pub(super) fn report(self) -> Option<EdgeReport> {
        let listeners = self.listeners.iter().map(|key| key.parse().ok());
        Some(EdgeReport {
            applied: self.applied.map(StateIndex),
            busy: self.busy.iter().map(instance_id).collect::<Option<_>>()?,
            problems: self.problems,
            refused: self.refused.map(StateIndex),
            connections: self.connections,
            listeners: listeners.collect::<Option<_>>()?,
            succession: match (self.is_replaced, self.has_successor) {
                (_, true) => Succession::Done,
                (true, false) => Succession::Begun,
                (false, false) => Succession::None,
            },
            takes_log: self.takes_log,
            takes_traces: self.takes_traces,
        })
    }
}

impl CountersMessage {
    pub(super) fn new(counters: EdgeCounters) -> Self {
        let routes = counters.routes.into_iter().filter(|(_, counts)| counts.requests() > 0);
        let routes =
            routes.map(|(key, counts)| (key.domain.to_string(), key.path.to_string(), counts));
        let EdgeCounters { is_stale, connections, run, .. } = counters;
        Self { is_stale, connections, run, routes: routes.collect() }
    }

    /// The counters; `None` if anything in it is not what an edge says.
    pub(super) fn counters(self) -> Option<EdgeCounters> {
        let routes = self.routes.into_iter().map(|(domain, path, counts)| {
            Some((RouteKey { domain: domain.parse().ok()?, path: path.parse().ok()? }, counts))
        });
        let routes = routes.collect::<Option<_>>()?;
        let Self { is_stale, connections, run, .. } = self;
        Some(EdgeCounters { is_stale, connections, run, routes })
    }
}
