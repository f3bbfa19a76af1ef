//! The only way the replicated state changes.
//!
//! Law ST-1: `apply` is total. It never panics and depends on nothing but the state and the entry.

mod batch;
mod cluster;
mod constraints;
mod content;
pub mod deployment;
mod difference;
mod digests;
mod disabled;
mod drain;
mod ending;
mod named;
mod observe;
mod rebalance;
mod registries;
mod retention;
pub mod revision;
mod rollout;
mod routing;

use std::collections::BTreeMap;

use crate::audit::{AuditEvent, AuditKey, AuditKind, AuditLog, LetGo};
use crate::audit_refusals::{Refusal, Summary};
use crate::command::{Command, Entry, Outcome};
use crate::state::ClusterState;

/// Executes one entry.
///
/// An entry whose request id was seen before changes nothing and has the first one's outcome. A
/// refused entry leaves no trace but its audit event.
pub fn apply(state: &mut ClusterState, entry: &Entry) -> Outcome {
    apply_letting_go(state, entry, &mut LetGo::new())
}

/// Executes one entry, and hands over the audit events that the state let go of with it: a node has
/// them in its archive before anything is made of the new state.
pub fn apply_letting_go(state: &mut ClusterState, entry: &Entry, gone: &mut LetGo) -> Outcome {
    state.index = entry.index;
    if let Some(known) = entry.request.as_ref().and_then(|request| state.requests.outcome(request))
    {
        return known.clone();
    }
    let outcome = execute(state, entry, gone);
    state.audit.expire(entry.at, gone);
    if let Some(request) = &entry.request {
        state.requests.record(entry.index, request.clone(), outcome.clone());
    }
    outcome
}

fn execute(state: &mut ClusterState, entry: &Entry, gone: &mut LetGo) -> Outcome {
    let mut audit = Audit::new(entry);
    let outcome = match &entry.command {
        Command::ClusterInit { meta, node, token } => {
            cluster::init(state, entry, meta, node, token, &mut audit)
        }
        Command::NodeAdmit { node, token } => cluster::admit(state, entry, node, token, &mut audit),
        Command::NodeReport { node, address, facts } => {
            cluster::report(state, entry, *node, address, facts)
        }
        Command::NodeSetAvailability { node, availability } => {
            cluster::set_availability(state, entry, *node, *availability, &mut audit)
        }
        Command::NodeDrain { node, patience } => {
            drain::begin(state, entry, *node, *patience, &mut audit)
        }
        Command::NodeSetLabels { node, set, unset } => {
            cluster::set_labels(state, entry, *node, (set, unset), &mut audit)
        }
        Command::NodeRemove { node } => cluster::remove(state, entry, *node, &mut audit),
        Command::ConstraintsSet { pairs } => constraints::set(state, pairs, &mut audit),
        Command::DisabledSet { change, scopes } => {
            disabled::set(state, entry, *change, scopes, &mut audit)
        }
        Command::DeploymentApply { name, spec, based_on } => {
            deployment::apply_spec(state, entry, name, (spec, *based_on), &mut audit)
        }
        Command::DeploymentDelete { name } => deployment::delete(state, entry, name, &mut audit),
        Command::ContentPut { pieces } => content::put(state, entry.at, pieces),
        Command::NamedContentPut { key, tree, pieces, size } => {
            let content = named::Given { tree: *tree, pieces, size: *size };
            named::put(state, entry.at, key, &content, &mut audit)
        }
        Command::NamedContentRemove { key } => named::remove(state, entry.at, key, &mut audit),
        Command::RegistryStore { registry, username, password } => {
            registries::store(state, entry, registry, (username, password), &mut audit)
        }
        Command::RegistryRemove { registry } => registries::remove(state, registry, &mut audit),
        Command::DeploymentRollback { name, to } => {
            revision::rollback(state, entry, name, *to, &mut audit)
        }
        Command::RevisionPin { name, revision, pin } => {
            revision::pin(state, name, *revision, *pin, &mut audit)
        }
        Command::Batch { based_on, changes } => {
            batch::apply_batch(state, entry, *based_on, changes, &mut audit)
        }
        Command::Rebalance { based_on, moves, kept } => {
            rebalance::apply_moves(state, entry, *based_on, moves, kept, &mut audit)
        }
        Command::RebalanceRevert { based_on, reverts } => {
            rebalance::take_back(state, entry, *based_on, reverts, &mut audit)
        }
        Command::Observe { node, observed, gone } => observe::record(state, *node, observed, gone),
        Command::OperatorTokenIssue { token } => cluster::issue_token(state, token, &mut audit),
        Command::OperatorTokenRevoke { id } => cluster::revoke_token(state, entry, id, &mut audit),
        Command::JoinTokenIssue { token } => cluster::issue_join_token(state, token, &mut audit),
        Command::ConsumerAttach { name, node, lease } => {
            routing::attach(state, entry, name, *node, *lease, &mut audit)
        }
        Command::ConsumerDetach { name, session } => {
            routing::detach(state, name, *session, &mut audit)
        }
        Command::AuditBegin => {
            if state.audit.head.is_none() {
                state.audit.begin_chain();
                let kept = state.audit.events.len().to_string();
                audit.event(AuditKind::AuditChainBegun, [("events", kept)]);
            }
            Outcome::Done
        }
        Command::AuditRetention { age } => retention::set(state, *age, &mut audit),
        Command::AuditNote { kind, payload } => {
            audit.note(*kind, payload.clone());
            Outcome::Done
        }
    };
    if let Outcome::Rejected(rejection) = &outcome {
        audit.refuse(&entry.command, rejection);
    }
    audit.write(state, gone);
    outcome
}

/// The events of one entry, collected while it is executed.
pub(crate) struct Audit<'a> {
    entry: &'a Entry,
    notes: Vec<(AuditKind, BTreeMap<String, String>)>,
}

impl<'a> Audit<'a> {
    fn new(entry: &'a Entry) -> Self {
        Self { entry, notes: Vec::new() }
    }

    fn note(&mut self, kind: AuditKind, payload: BTreeMap<String, String>) {
        self.notes.push((kind, payload));
    }

    /// Adds an event with these facts.
    pub(crate) fn event<const N: usize>(&mut self, kind: AuditKind, facts: [(&str, String); N]) {
        let payload = facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.note(kind, payload);
    }

    /// A refused entry leaves only the refusal. A refused batch is the planner's own business, and a
    /// refused move the rebalancer's: they plan again, and people have nothing to learn from it.
    fn refuse(&mut self, command: &Command, rejection: &jaco_types::Rejection) {
        self.notes.clear();
        if matches!(command, Command::Batch { .. } | Command::RebalanceRevert { .. })
            || (matches!(command, Command::Rebalance { .. })
                && self.entry.by == jaco_types::Identity::Scheduler)
        {
            return;
        }
        let mut payload = rejection.details.clone();
        payload.insert("code".to_owned(), rejection.code.as_str().to_owned());
        payload.insert("message".to_owned(), rejection.message.clone());
        self.note(AuditKind::RequestRefused, payload);
    }

    fn write(self, state: &mut ClusterState, gone: &mut LetGo) {
        let entry = self.entry;
        let mut numbers = 0..;
        let mut push = |audit: &mut AuditLog, event| {
            let number = numbers.next().expect("an entry has fewer events than there are numbers");
            audit.push(AuditKey { index: entry.index, number }, event, gone);
        };
        // They tell of earlier entries: this one's origin and request are not theirs.
        for Summary { by, kind, payload } in state.audit.ended_counts(entry.at) {
            let (at, origin, request, previous) = (entry.at, None, None, None);
            let event = AuditEvent { kind, at, by, origin, request, payload, previous };
            push(&mut state.audit, event);
        }
        for (kind, payload) in self.notes {
            let is_refusal = matches!(kind, AuditKind::RequestRefused | AuditKind::AccessRefused);
            if is_refusal && state.audit.count_refusal(&entry.by, entry.at) == Refusal::Counted {
                continue;
            }
            let event = AuditEvent {
                kind,
                at: entry.at,
                by: entry.by.clone(),
                origin: entry.origin,
                request: entry.request.clone(),
                payload,
                previous: None,
            };
            push(&mut state.audit, event);
        }
    }
}
