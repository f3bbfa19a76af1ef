//! Collects the facts about slots: the only place that looks at nodes, specs, reports and what
//! operators disabled to say what that means for a slot.

use std::collections::BTreeSet;

use jaco_types::slot::{Exhausted, SlotData};
use jaco_types::spec::{OnNodeLoss, Storage};
use jaco_types::{Availability, Completion, DesiredState, NodeId, NodeStatus, Ordinal, Timestamp};

use super::failure::{completion, failure, restarts};
use super::judge::{Verdict, judge};
use super::need::{home, is_own_kind, other_kind, surplus};
use super::slot_facts::{
    Bound, Content, Desired, Endpoints, HandoverFact, Hosts, Leave, Need, NodeFact, Reported,
    SlotFacts,
};
use crate::attribute::{labels_satisfy, missing_label};
use crate::draft::{
    Agenda, Goal, InstanceDraft, Pass, Phase, Proof, Proven, Roll, ServiceDraft, ServiceRole,
    SlotDraft,
};
use crate::eligibility::Colocation;
use crate::nodes::NodeRow;
use crate::placement::hosts;

/// What all slots of a service have in common, read before they are judged.
pub(crate) struct ServiceFacts<'a> {
    pub(crate) goal: Goal<'a>,
    role: ServiceRole,
    proof: Proof,
    hosts: Hosts,
    /// The slots that go because there are too many.
    surplus: BTreeSet<Ordinal>,
    /// What becomes of slots of another kind than the placement names.
    other_kind: Need,
}

/// The facts about a slot, and when time alone makes them others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged {
    pub(crate) facts: SlotFacts,
    pub(crate) until: Option<Timestamp>,
}

impl Judged {
    pub(crate) fn verdict(&self) -> Verdict {
        judge(&self.facts)
    }
}

/// Judges all slots of a service, unless nothing was edited since they were judged last.
pub(crate) fn agenda<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Agenda {
    if let Some(known) = service.agenda() {
        return known;
    }
    let mut agenda = Agenda::default();
    let facts = ServiceFacts::read(service, pass);
    for slot in service.slots.iter() {
        let judged = facts.of(service, slot, pass);
        let verdict = judged.verdict();
        match verdict.phase() {
            Some(phase) => agenda.add(phase),
            None if verdict != Verdict::Keep => agenda.add_waiting(),
            None => {}
        }
        if slot.is_active() && judged.facts.content != Content::Current {
            agenda.add(Phase::Roll);
        }
        if let Some(until) = judged.until {
            agenda.add_waiting();
            pass.wake(until);
        }
    }
    service.set_agenda(agenda);
    agenda
}

impl<'a> ServiceFacts<'a> {
    pub(crate) fn read(service: &ServiceDraft<'a>, pass: &Pass<'a>) -> Self {
        let goal = service.goal();
        Self {
            goal,
            role: service.role,
            proof: service.proof(),
            hosts: match hosts::shortage(service, pass) {
                Some(_) => Hosts::Short,
                None => Hosts::Enough,
            },
            surplus: surplus(service, pass),
            other_kind: other_kind(service, pass),
        }
    }

    /// The facts about one of its slots.
    pub(crate) fn of(
        &self,
        service: &ServiceDraft<'a>,
        slot: &SlotDraft<'a>,
        pass: &Pass<'a>,
    ) -> Judged {
        let now = pass.input.now;
        let mut until = None;
        let mut note = |at: Timestamp| until = until.into_iter().chain([at]).min();
        let need = self.need(slot);
        let desired = desired(service, slot, pass);
        let bound = bound(slot, self.goal, self.role);
        let mut colocation = service.colocation_of(slot);
        if colocation == Colocation::Replaced && !shares_namespaces(slot) {
            // It holds nothing of the old partner, and a rollout gives it what it should share.
            colocation = Colocation::Met;
        }
        let node = self.node(slot, need, bound, colocation, pass, &mut note);
        let failure = failure(slot, self.role, pass, &mut note);
        let facts = SlotFacts {
            need,
            desired,
            node,
            bound,
            colocation,
            handover: self.handover(slot, now, &mut note),
            failure,
            completion: completion(slot, self.role, failure),
            restarts: restarts(slot, self.role, pass, &mut note),
            content: self.content(slot, need, node, bound),
            report: reported(slot),
            endpoints: match slot.is_terminating {
                true => Endpoints::Terminating,
                false => Endpoints::Free,
            },
            hosts: self.hosts,
            search: slot.search,
        };
        Judged { facts, until: until.filter(|_| slot.is_active()) }
    }

    fn need(&self, slot: &SlotDraft<'_>) -> Need {
        if !is_own_kind(slot, &self.goal.spec.placement) {
            return self.other_kind;
        }
        match self.surplus.contains(&slot.ordinal) {
            true => Need::Surplus,
            false => Need::Wanted,
        }
    }

    fn node(
        &self,
        slot: &SlotDraft<'_>,
        need: Need,
        bound: Bound,
        colocation: Colocation,
        pass: &Pass<'_>,
        note: &mut impl FnMut(Timestamp),
    ) -> NodeFact {
        if let (Need::Wanted, Ordinal::Host(_)) = (need, &slot.ordinal) {
            return self.own_host(slot, colocation, pass);
        }
        let Some(row) = slot.current.at.map(|at| pass.nodes.row(at)) else {
            return NodeFact::Gone;
        };
        let policy = slot.current.spec.unwrap_or(self.goal.spec).on_node_loss;
        match row.status {
            NodeStatus::Down => {
                let lost_at =
                    policy.replaced_after().map(|silence| row.silent_since.after(silence));
                match lost_at {
                    Some(at) if at <= pass.input.now => NodeFact::Lost,
                    Some(at) => {
                        if bound == Bound::Free {
                            note(at);
                        }
                        NodeFact::Silent
                    }
                    None => NodeFact::Silent,
                }
            }
            // It lives and can stop nothing: what must not run twice waits for the engine.
            NodeStatus::EngineDown => match policy {
                OnNodeLoss::Replace { .. } => NodeFact::Lost,
                OnNodeLoss::Wait | OnNodeLoss::StopSelf { .. } => NodeFact::Silent,
            },
            NodeStatus::Joining | NodeStatus::Ready | NodeStatus::DiskFull => {
                self.working(row, colocation)
            }
        }
    }

    fn working(&self, row: &NodeRow<'_>, colocation: Colocation) -> NodeFact {
        if row.availability == Availability::Draining {
            NodeFact::Leave(Leave::Drained)
        } else if !row.is_named_by(&self.goal.spec.placement) {
            NodeFact::NotPinned
        } else if colocation == Colocation::Missing {
            NodeFact::Leave(Leave::PartnerMissing)
        } else {
            NodeFact::Keeps
        }
    }

    /// A slot that is named after a host goes by the member of that name, whatever its instance is on.
    fn own_host(&self, slot: &SlotDraft<'_>, colocation: Colocation, pass: &Pass<'_>) -> NodeFact {
        let Some(at) = home(slot, pass) else { return NodeFact::Gone };
        let is_another = slot.current.at != Some(at);
        let row = pass.nodes.row(at);
        match row.status {
            NodeStatus::Down | NodeStatus::EngineDown if is_another => NodeFact::Gone,
            // It is not waited for where it could not run anyway.
            NodeStatus::Down | NodeStatus::EngineDown if colocation == Colocation::Missing => {
                NodeFact::Leave(Leave::PartnerMissing)
            }
            NodeStatus::Down | NodeStatus::EngineDown => NodeFact::Silent,
            NodeStatus::Joining | NodeStatus::Ready | NodeStatus::DiskFull => {
                let fact = self.working(row, colocation);
                let has_labels = self.has_labels(slot, row);
                match (fact == NodeFact::Keeps, has_labels, is_another) {
                    (true, false, _) => NodeFact::Leave(Leave::LabelMissing),
                    (true, true, true) => NodeFact::Returned,
                    (true, true, false) | (false, ..) => fact,
                }
            }
        }
    }

    /// Whether a replica that is named after the node may stay by the node's labels. Where an apply changed the constraints,
    /// it stays until a rollout has replaced it: all that serve would stop at once otherwise.
    fn has_labels(&self, slot: &SlotDraft<'_>, row: &NodeRow<'_>) -> bool {
        let (goal, own) = (&self.goal.spec.scheduling, slot.current.spec);
        let was_allowed = || own.is_none_or(|own| labels_satisfy(row.node, &own.scheduling));
        missing_label(row.node, goal).is_none() && (labels_satisfy(row.node, goal) || was_allowed())
    }

    fn handover(
        &self,
        slot: &SlotDraft<'_>,
        now: Timestamp,
        note: &mut impl FnMut(Timestamp),
    ) -> HandoverFact {
        let Some(retiring) = &slot.retiring else { return HandoverFact::None };
        if retiring.at.is_none() {
            return HandoverFact::Over;
        }
        match self.proof.of(slot, now) {
            Proven::Yes => HandoverFact::Over,
            Proven::No => HandoverFact::Pending,
            Proven::NotBefore(at) => {
                note(at);
                HandoverFact::Pending
            }
        }
    }

    fn content(&self, slot: &SlotDraft<'_>, need: Need, node: NodeFact, bound: Bound) -> Content {
        let is_misplaced = need == Need::Wanted
            && slot.is_active()
            && self.hosts == Hosts::Enough
            && (node, bound) == (NodeFact::NotPinned, Bound::Free);
        match (slot.is_outdated(&self.goal), is_misplaced) {
            (false, false) => Content::Current,
            (true, _) | (_, true) if self.goal.roll == Roll::Paused => Content::Paused,
            (true, _) => Content::Outdated,
            (false, true) => Content::Misplaced,
        }
    }
}

/// Whether operators want a slot to run, and whether it does.
fn desired(service: &ServiceDraft<'_>, slot: &SlotDraft<'_>, pass: &Pass<'_>) -> Desired {
    let disabled = &pass.input.state.disabled;
    let is_disabled_on = |node: NodeId| disabled.of(&service.key, Some(&slot.id), node).is_some();
    let serves_elsewhere = |old: &InstanceDraft<'_>| old.is_running() && !is_disabled_on(old.node);
    let is_disabled = is_disabled_on(slot.current.node);
    match slot.completion() {
        Some(_) if is_disabled => return Desired::FinishedAndDisabled,
        Some(Completion::Failed) if slot.restarts.exhausted == Exhausted::No => {
            return Desired::Retried;
        }
        Some(_) => return Desired::Finished,
        None => {}
    }
    match (slot.is_active(), is_disabled) {
        (true, false) => Desired::Active,
        (true, true) if slot.retiring.as_deref().is_some_and(serves_elsewhere) => {
            Desired::Returning
        }
        (true, true) => Desired::Disabling,
        (false, true) => Desired::Disabled,
        (false, false) => Desired::Starting,
    }
}

/// Whether the current instance itself shares namespaces, whatever the goal says.
fn shares_namespaces(slot: &SlotDraft<'_>) -> bool {
    let spec = slot.current.spec;
    spec.is_some_and(|spec| !spec.scheduling.shares_namespaces_with.is_empty())
}

/// Whether the node reported the current instance. One whose spec is not kept any more is run by no node,
/// so there is no report to wait for.
fn reported(slot: &SlotDraft<'_>) -> Reported {
    match (slot.current.observed, slot.current.spec) {
        (Some(_), _) | (_, None) => Reported::Yes,
        (None, Some(_)) if slot.completion().is_some() => Reported::Yes,
        (None, Some(_)) => Reported::NotYet,
    }
}

/// A replica is bound by data once it runs a spec that has some, or is disabled and did.
fn bound(slot: &SlotDraft<'_>, goal: Goal<'_>, role: ServiceRole) -> Bound {
    let storage = match (slot.desired_state, slot.data) {
        (DesiredState::Disabled, SlotData::None) => Storage::Stateless,
        (DesiredState::Disabled, SlotData::Possible)
        | (DesiredState::Active | DesiredState::Finished(_), _) => {
            slot.current.spec.map_or(goal.spec.storage, |spec| spec.storage)
        }
    };
    let runs_job = role == ServiceRole::Job && slot.is_active() && slot.current.is_running();
    match (&slot.ordinal, goal.spec.storage, storage) {
        (Ordinal::Host(_), ..) => Bound::Host,
        (Ordinal::Index(_), Storage::Stateful, Storage::Stateful) => Bound::Data,
        (Ordinal::Index(_), ..) if runs_job => Bound::Job,
        (Ordinal::Index(_), Storage::Stateless, _) | (Ordinal::Index(_), _, Storage::Stateless) => {
            Bound::Free
        }
    }
}
