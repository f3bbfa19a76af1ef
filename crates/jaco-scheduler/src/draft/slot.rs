//! A slot as it will be after the pass. Each edit changes the slot, what is reserved of the nodes and
//! the list of changes at once, so that the three cannot disagree.

use jaco_state::Change;
use jaco_state::command::{Previous, ReplaceCause};
use jaco_types::slot::{Exhausted, SlotData};
use jaco_types::spec::{ServiceSpec, Storage};
use jaco_types::{
    Completion, DesiredState, Ordinal, ReplicaId, ReplicaState, RestartCount, Revision,
};

use super::goal::{Goal, ServiceRole};
use super::instance::InstanceDraft;
use super::pass::Pass;
use crate::nodes::gpu::{Held, grant};
use crate::nodes::{NodeIx, NodeRow, NodeTable};

/// A replica identity that survives the replacement of its instances.
pub(crate) struct SlotDraft<'a> {
    pub(crate) id: ReplicaId,
    pub(crate) ordinal: Ordinal,
    /// A disabled slot runs nothing, reserves nothing of its node, and retires nothing: its current
    /// instance is what it would run. That of a finished one has ended.
    pub(crate) desired_state: DesiredState,
    pub(crate) current: InstanceDraft<'a>,
    /// Boxed, because most slots have none.
    pub(crate) retiring: Option<Box<InstanceDraft<'a>>>,
    /// Whether data binds it to its node while it is disabled.
    pub(crate) data: SlotData,
    pub(crate) restarts: RestartCount,
    /// Whether an earlier instance of it is still terminating: one thing at a time.
    pub(crate) is_terminating: bool,
    /// Whether this round of the pass has looked for a node for it in vain.
    pub(crate) search: Search,
}

/// What came of looking for a node for a slot that should move or start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// It was not looked for in this round, or not needed.
    Open,
    /// No node takes it.
    NoNode,
}

/// How a new instance follows the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handover {
    /// Whatever serves now continues until the new instance does.
    StartFirst,
    /// Nothing else of the slot runs beside the new instance.
    StopFirst,
    /// The current instance is of no use any more; a retiring one continues to serve.
    Abandon,
}

/// A new instance and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Successor<'a> {
    pub(crate) at: NodeIx,
    pub(crate) revision: Revision,
    pub(crate) spec: &'a ServiceSpec,
    pub(crate) cause: ReplaceCause,
    pub(crate) handover: Handover,
    pub(crate) consecutive_failures: u32,
}

impl<'a> SlotDraft<'a> {
    /// Completes the handover: only the current instance remains.
    pub(crate) fn complete_handover(&mut self, pass: &mut Pass<'a>) {
        if let Some(retiring) = self.retiring.take() {
            self.is_terminating |= retiring.end(pass);
            pass.changes.push(Change::SlotSettle { id: self.id.clone() });
        }
    }

    /// Abandons the handover: only the retiring instance remains, and the failures of the other one
    /// are not held against it.
    pub(crate) fn revert_handover(&mut self, pass: &mut Pass<'a>) {
        if let Some(retiring) = self.retiring.take() {
            self.is_terminating |= self.current.end(pass);
            move_count(&mut pass.nodes, self.current.at, retiring.at);
            self.current = *retiring;
            pass.changes.push(Change::SlotRevert { id: self.id.clone() });
            self.set_restarts(pass, RestartCount::default());
        }
    }

    /// Puts a new instance in.
    pub(crate) fn replace(&mut self, pass: &mut Pass<'a>, successor: Successor<'a>) {
        let was_active = self.is_active();
        // What a disabled slot names holds nothing that could be taken over.
        let before = [Some(self.current).filter(|_| was_active), self.retiring.as_deref().copied()];
        self.release_lasting(&mut pass.nodes);
        let previous = self.part_with_current(pass, successor.handover);
        let gpus = self.take_over_gpus(pass, before, previous, successor);
        let next = InstanceDraft {
            node: pass.nodes.row(successor.at).id,
            at: Some(successor.at),
            since: None,
            revision: successor.revision,
            hash: successor.spec.hash,
            spec: Some(successor.spec),
            observed: None,
            gpus,
        };
        next.reserve(&mut pass.nodes);
        move_count(&mut pass.nodes, self.current.at.filter(|_| was_active), next.at);
        let old = std::mem::replace(&mut self.current, next);
        self.desired_state = DesiredState::Active;
        self.data = SlotData::Possible;
        match previous {
            Previous::Retire => self.retiring = Some(Box::new(old)),
            Previous::Drop if was_active => self.is_terminating |= old.end(pass),
            // What a disabled slot names never ran, what a finished one does has ended.
            Previous::Drop => {}
        }
        let consecutive = successor.consecutive_failures;
        self.restarts = RestartCount { consecutive, exhausted: Exhausted::No };
        pass.changes.push(Change::SlotReplace {
            id: self.id.clone(),
            instance: next.as_new(&pass.nodes),
            previous,
            cause: successor.cause,
            consecutive_failures: consecutive,
        });
    }

    /// The GPUs of a successor. It may have those of the instances `before` it that are on its node and
    /// end before it begins; where its node does not have enough any more, it is left with what the one
    /// before it had, and the engine says what is wrong with them.
    fn take_over_gpus(
        &self,
        pass: &Pass<'a>,
        before: [Option<InstanceDraft<'a>>; 2],
        previous: Previous,
        successor: Successor<'a>,
    ) -> Held<'a> {
        let Some(demand) = &successor.spec.gpus else { return Held::NONE };
        let row = pass.nodes.row(successor.at);
        let stays = |instance: &InstanceDraft<'a>| match previous {
            Previous::Retire => instance.since == self.current.since,
            Previous::Drop => {
                self.retiring.as_ref().is_some_and(|kept| kept.since == instance.since)
            }
        };
        let ended = before.into_iter().flatten();
        let ended = ended.filter(|instance| instance.at == Some(successor.at) && !stays(instance));
        let own: Vec<_> = ended.map(|instance| instance.gpus).collect();
        match grant(row.node, &row.usage, demand, &own) {
            Ok(granted) => Held::Granted(granted),
            Err(_) => own.first().copied().unwrap_or(Held::NONE),
        }
    }

    /// A slot holds two instances at most, so before a third comes, one has to go: the retiring one
    /// where the current one serves already, else the current one.
    fn part_with_current(&mut self, pass: &mut Pass<'a>, handover: Handover) -> Previous {
        match handover {
            Handover::Abandon => Previous::Drop,
            Handover::StopFirst => {
                self.complete_handover(pass);
                Previous::Drop
            }
            Handover::StartFirst => {
                if self.retiring.is_some() && !self.current.is_running() {
                    return Previous::Drop;
                }
                self.complete_handover(pass);
                let is_over = self.current.state().is_some_and(ReplicaState::is_over);
                if is_over { Previous::Drop } else { Previous::Retire }
            }
        }
    }

    /// Sets the failures in a row.
    pub(crate) fn set_restarts(&mut self, pass: &mut Pass<'a>, restarts: RestartCount) {
        if self.restarts == restarts {
            return;
        }
        self.restarts = restarts;
        let RestartCount { consecutive, exhausted } = restarts;
        pass.changes.push(Change::SlotSetRestarts { id: self.id.clone(), consecutive, exhausted });
    }

    /// Disables the slot: nothing of it runs any more; it keeps what it would run, and where.
    pub(crate) fn disable(&mut self, pass: &mut Pass<'a>) {
        self.count_out(pass);
        self.data = self.data_left();
        self.desired_state = DesiredState::Disabled;
        self.retiring = None;
        self.restarts = RestartCount::default();
        self.reserve_lasting(&mut pass.nodes);
        self.define(pass, self.current);
    }

    /// Records that its current instance ran to its end: it reserves nothing any more.
    pub(crate) fn finish(&mut self, pass: &mut Pass<'a>, completion: Completion, failures: u32) {
        self.count_out(pass);
        self.desired_state = DesiredState::Finished(completion);
        let (consecutive, exhausted) = match completion {
            Completion::Succeeded => (0, Exhausted::No),
            Completion::Failed => (failures, Exhausted::Yes),
        };
        self.restarts = RestartCount { consecutive, exhausted };
        pass.changes.push(Change::SlotFinish {
            id: self.id.clone(),
            completion,
            consecutive_failures: consecutive,
        });
    }

    /// Whether it may leave data on its node when it is disabled: the same question that `apply` asks.
    fn data_left(&self) -> SlotData {
        let is_stateless = |instance: &InstanceDraft<'_>| {
            instance.spec.is_some_and(|spec| spec.storage == Storage::Stateless)
        };
        if self.desired_state == DesiredState::Disabled {
            return self.data;
        }
        if self.instances().all(is_stateless) { SlotData::None } else { SlotData::Possible }
    }

    /// Sets what a disabled slot would run from now on.
    pub(crate) fn define(&mut self, pass: &mut Pass<'a>, current: InstanceDraft<'a>) {
        self.release_lasting(&mut pass.nodes);
        self.current = InstanceDraft { since: None, observed: None, gpus: Held::NONE, ..current };
        self.reserve_lasting(&mut pass.nodes);
        let instance = self.current.as_new(&pass.nodes);
        pass.changes.push(Change::SlotDisable { id: self.id.clone(), instance });
    }

    /// Whether it runs something, or is to.
    pub(crate) fn is_active(&self) -> bool {
        self.desired_state == DesiredState::Active
    }

    /// How its current instance ran to its end, if it did.
    pub(crate) fn completion(&self) -> Option<Completion> {
        match self.desired_state {
            DesiredState::Finished(completion) => Some(completion),
            DesiredState::Active | DesiredState::Disabled => None,
        }
    }

    /// Whether its current instance has completed what it was for, recorded or not.
    pub(crate) fn has_completed(&self, role: ServiceRole) -> bool {
        self.completion() == Some(Completion::Succeeded)
            || (self.is_active() && self.current.has_completed(role))
    }

    /// Counts the slot out of its nodes, and proposes to remove it. One that this plan creates is not created: a plan
    /// that removes what is not there is refused whole, and would be made again.
    pub(crate) fn remove(&mut self, pass: &mut Pass<'a>) {
        self.count_out(pass);
        if pass.input.state.slots.contains(&self.id) {
            pass.changes.push(Change::SlotRemove { id: self.id.clone() });
        } else {
            pass.changes.retain(
                |change| !matches!(change, Change::SlotCreate { id, .. } if *id == self.id),
            );
        }
    }

    /// A disabled replica reserves nothing but the ports that it comes back to where its data is, and the space of
    /// its volumes: if another had them then, it could never start again.
    pub(super) fn reserve_lasting(&self, nodes: &mut NodeTable<'a>) {
        if let Some((at, spec)) = self.kept_lasting() {
            nodes.row_mut(at).usage.take_lasting(spec);
        }
    }

    fn release_lasting(&self, nodes: &mut NodeTable<'a>) {
        if let Some((at, spec)) = self.kept_lasting() {
            nodes.row_mut(at).usage.release_lasting(spec);
        }
    }

    fn kept_lasting(&self) -> Option<(NodeIx, &'a ServiceSpec)> {
        let spec = self.current.spec.filter(|spec| keeps_lasting(spec, &self.ordinal));
        self.current.at.zip(spec).filter(|_| self.desired_state == DesiredState::Disabled)
    }

    /// Whether its node has room for it to start there.
    pub(crate) fn fits_at(&self, row: &NodeRow<'a>, spec: &ServiceSpec) -> bool {
        match self.kept_lasting() {
            Some((_, own)) if !own.host_ports.is_empty() || !own.volumes.is_empty() => {
                let mut row = row.clone();
                row.usage.release_lasting(own);
                row.fits(spec)
            }
            Some(_) | None => row.fits(spec),
        }
    }

    fn count_out(&mut self, pass: &mut Pass<'a>) {
        if !self.is_active() {
            return self.release_lasting(&mut pass.nodes);
        }
        let mut terminates = false;
        for instance in self.instances() {
            terminates |= instance.end(pass);
        }
        self.is_terminating |= terminates;
        move_count(&mut pass.nodes, self.current.at, None);
    }

    /// Counts the slot in on its nodes.
    pub(crate) fn count_in(&self, nodes: &mut NodeTable<'a>) {
        if !self.is_active() {
            return self.reserve_lasting(nodes);
        }
        for instance in self.instances() {
            instance.reserve(nodes);
        }
        move_count(nodes, None, self.current.at);
    }

    /// Takes what it reserves of a node out of that row.
    pub(crate) fn release_from(&self, at: NodeIx, row: &mut NodeRow<'_>) {
        if !self.is_active() {
            return;
        }
        for instance in self.instances().filter(|instance| instance.at == Some(at)) {
            if let Some(spec) = instance.spec {
                row.usage.release(spec, instance.gpus.ids(row.node));
            }
        }
        row.usage.replicas -= u32::from(self.current.at == Some(at));
    }

    /// Its live instances, the current one first.
    pub(crate) fn instances(&self) -> impl Iterator<Item = &InstanceDraft<'a>> {
        std::iter::once(&self.current).chain(self.retiring.as_deref())
    }

    pub(crate) fn is_outdated(&self, goal: &Goal<'_>) -> bool {
        self.current.hash != goal.spec.hash || self.current.spec.is_none()
    }

    /// Whether some instance of it is up.
    pub(crate) fn serves(&self, role: ServiceRole) -> bool {
        self.has_completed(role)
            || self.current.is_running()
            || self.retiring.as_ref().is_some_and(|retiring| retiring.is_running())
    }
}

/// Whether a disabled replica that would run this keeps its ports and the space of its volumes on its node.
pub(crate) fn keeps_lasting(spec: &ServiceSpec, ordinal: &Ordinal) -> bool {
    spec.storage == Storage::Stateful && matches!(ordinal, Ordinal::Index(_))
}

pub(super) fn move_count(nodes: &mut NodeTable<'_>, from: Option<NodeIx>, to: Option<NodeIx>) {
    if let Some(from) = from {
        nodes.row_mut(from).usage.replicas -= 1;
    }
    if let Some(to) = to {
        nodes.row_mut(to).usage.replicas += 1;
    }
}
