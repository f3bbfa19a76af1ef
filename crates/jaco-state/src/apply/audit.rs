//! The audit events of one entry.

use std::collections::BTreeMap;

use jaco_types::{Identity, Rejection, Rights, Role};

use crate::audit::{AuditEvent, AuditKey, AuditKind, AuditLog, Evicted, Refusal, Summary};
use crate::command::{Command, Entry};
use crate::state::ClusterState;

/// The events of one entry, collected while it is executed.
pub(crate) struct Audit<'a> {
    entry: &'a Entry,
    notes: Vec<(AuditKind, BTreeMap<String, String>)>,
}

impl<'a> Audit<'a> {
    pub(in crate::apply) fn new(entry: &'a Entry) -> Self {
        Self { entry, notes: Vec::new() }
    }

    pub(in crate::apply) fn note(&mut self, kind: AuditKind, payload: BTreeMap<String, String>) {
        self.notes.push((kind, payload));
    }

    /// Adds an event with these facts.
    pub(crate) fn event<const N: usize>(&mut self, kind: AuditKind, facts: [(&str, String); N]) {
        let payload = facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.note(kind, payload);
    }

    /// A refused entry leaves only the refusal (ST-1). A stale batch of the planner, a stale move of the
    /// rebalancer, or a due time that was dealt with, leaves no event: it is planned again, and users can learn nothing from it.
    pub(in crate::apply) fn refuse(&mut self, command: &Command, rejection: &Rejection) {
        self.notes.clear();
        let is_tried_again = matches!(
            command,
            Command::Batch(_)
                | Command::RebalanceRevert(_)
                | Command::AcmeNote(_)
                | Command::JobDue(_)
                | Command::JobRewind(_)
                | Command::BackupBegin(_)
                | Command::BackupReport(_)
        );
        if is_tried_again
            || (matches!(command, Command::Rebalance(_)) && self.entry.by == Identity::Scheduler)
        {
            return;
        }
        let mut payload = rejection.details.clone();
        payload.insert("code".to_owned(), rejection.code.as_str().to_owned());
        payload.insert("message".to_owned(), rejection.message.clone());
        self.note(AuditKind::RequestRefused, payload);
    }

    pub(in crate::apply) fn write(self, state: &mut ClusterState, evicted: &mut Evicted) {
        let entry = self.entry;
        let mut numbers = 0..;
        let mut push = |audit: &mut AuditLog, event| {
            let number = numbers.next().expect("an entry has fewer events than there are numbers");
            audit.push(AuditKey { index: entry.index, number }, event, evicted);
        };
        // They are about earlier entries: this one's origin and request are not theirs.
        for Summary { by, kind, payload } in state.audit.ended_counts(entry.at) {
            let (at, origin, request, previous) = (entry.at, None, None, None);
            let event = AuditEvent { kind, at, by, origin, request, payload, previous };
            push(&mut state.audit, event);
        }
        let role = author_role(state, &entry.by);
        for (kind, mut payload) in self.notes {
            if let Some(role) = role {
                payload.insert("by_role".to_owned(), role.as_str().to_owned());
            }
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

/// The role of the token that an entry was made with; none for a token of before there were roles, whose events stay as
/// they are.
fn author_role(state: &ClusterState, by: &Identity) -> Option<Role> {
    match by {
        Identity::Operator { token } => {
            state.operator_tokens.get(token)?.rights.as_ref().map(Rights::role)
        }
        Identity::Local { .. }
        | Identity::Node { .. }
        | Identity::Scheduler
        | Identity::Anonymous => None,
    }
}
