//! A wanted service and its slots, as a pass edits them.

use std::collections::BTreeSet;
use std::rc::Rc;

use jaco_state::{Change, Deployment};
use jaco_types::slot::SlotData;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    DesiredState, ImageDigest, Ordinal, ReplicaId, RestartCount, Revision, RolloutState,
    Scheduling, ServiceKey,
};

use super::agenda::Agenda;
use super::goal::{Goal, Roll, ServiceRole};
use super::instance::InstanceDraft;
use super::pass::Pass;
use super::proof::Proof;
use super::slot::{Search, SlotDraft, move_count};
use super::slots::Slots;
use crate::eligibility::{Colocation, ColocationView, Limit, Others};
use crate::nodes::gpu::{Held, grant};
use crate::nodes::{NodeIx, NodeTable};
use crate::report::NotPlaced;

/// A wanted service and its slots.
pub(crate) struct ServiceDraft<'a> {
    pub(crate) key: ServiceKey,
    pub(crate) deployment: &'a Deployment,
    goal: Goal<'a>,
    pub(crate) slots: Slots<'a>,
    pub(crate) record: Scheduling,
    /// The record as it is in the state.
    pub(crate) known: Option<&'a Scheduling>,
    pub(crate) role: ServiceRole,
    /// What cannot be done now, and why.
    pub(crate) unplaced: Vec<NotPlaced>,
    /// How many of its slots this pass removed.
    pub(crate) removed: u32,
    /// The digest that this pass resolved its image to, at the revision that users want.
    pub(crate) resolved: Option<ImageDigest>,
    /// Whether this pass has looked if a rollout of it begins.
    pub(crate) is_rollout_judged: bool,
    /// The nodes on which the service is disabled: no replica goes there to run.
    pub(crate) disabled_on: Rc<BTreeSet<NodeIx>>,
    /// Where the services are that it is colocated with, and which versions of them that was read from.
    pub(super) colocation: Rc<ColocationView<'a>>,
    pub(super) read_from: Vec<(usize, u32)>,
    /// How often its goal was set.
    goals: u32,
    /// What its slots were judged to need, until something of it is edited.
    agenda: Option<(u32, Agenda)>,
}

impl<'a> ServiceDraft<'a> {
    /// A service without slots, at the revision that users want.
    pub(super) fn new(
        key: ServiceKey,
        deployment: &'a Deployment,
        spec: &'a ServiceSpec,
        known: Option<&'a Scheduling>,
        role: ServiceRole,
        disabled_on: Rc<BTreeSet<NodeIx>>,
    ) -> Self {
        Self {
            key,
            deployment,
            goal: Goal { revision: deployment.revision, spec, roll: Roll::Forward },
            slots: Slots::default(),
            record: record_of(known, deployment),
            known,
            role,
            unplaced: Vec::new(),
            removed: 0,
            resolved: None,
            is_rollout_judged: false,
            disabled_on,
            colocation: Rc::default(),
            read_from: Vec::new(),
            goals: 0,
            agenda: None,
        }
    }

    /// What its replicas should become.
    pub(crate) fn goal(&self) -> Goal<'a> {
        self.goal
    }

    /// Sets what its replicas should become.
    pub(crate) fn set_goal(&mut self, goal: Goal<'a>) {
        self.goal = goal;
        self.goals += 1;
    }

    /// How often its goal was set.
    pub(super) fn goals(&self) -> u32 {
        self.goals
    }

    /// How often it was edited.
    pub(crate) fn version(&self) -> u32 {
        self.slots.version() + self.goals
    }

    /// What its slots were judged to need, if nothing was edited since.
    pub(crate) fn agenda(&self) -> Option<Agenda> {
        self.agenda.filter(|(version, _)| *version == self.version()).map(|(_, agenda)| agenda)
    }

    /// Keeps what its slots were judged to need.
    pub(crate) fn set_agenda(&mut self, agenda: Agenda) {
        self.agenda = Some((self.version(), agenda));
    }

    /// Where its colocated services are.
    pub(crate) fn colocation(&self) -> &Rc<ColocationView<'a>> {
        &self.colocation
    }

    pub(super) fn set_colocation(&mut self, view: ColocationView<'a>, from: Vec<(usize, u32)>) {
        (self.colocation, self.read_from) = (Rc::new(view), from);
        self.agenda = None;
    }

    /// Whether a slot has the partners that it needs; where its node left, that says more.
    pub(crate) fn colocation_of(&self, slot: &SlotDraft<'_>) -> Colocation {
        if self.colocation.is_empty() {
            return Colocation::Met;
        }
        let view = &self.colocation;
        slot.current.at.map_or(Colocation::Met, |node| view.of(node, slot.current.since))
    }

    /// Notes that no node takes a slot.
    pub(crate) fn set_no_node(&mut self, at: usize) {
        self.slots.set_no_node(at);
        self.agenda = None;
    }

    pub(super) fn search_again(&mut self) {
        if self.slots.search_again() {
            self.agenda = None;
        }
    }

    /// The spec of this service at a revision, if that is kept.
    pub(crate) fn spec_at(&self, revision: Revision) -> Option<&'a ServiceSpec> {
        let deployment: &'a Deployment = self.deployment;
        let record = deployment.revisions.get(&revision)?;
        record.spec.services.get(&self.key.service).map(|spec| &**spec)
    }

    /// Gives the current step its full time from now: a successor was placed, for the first time or
    /// again because its node was lost.
    pub(crate) fn begin_step(&mut self, pass: &mut Pass<'_>) {
        let target = self.deployment.revision;
        let Some(rollout) = &mut self.record.rollout else { return };
        if rollout.target_revision == target && rollout.state == RolloutState::InProgress {
            rollout.last_step_at = pass.input.now;
            pass.wake(rollout.last_step_at.after(self.goal.spec.update.step_timeout));
        } else if self.goal.roll == Roll::Back {
            rollout.last_step_at = pass.input.now;
        }
    }

    /// How many replicas each node has, where it may not have any number of them.
    pub(crate) fn limit(&self, nodes: &NodeTable<'_>) -> Option<Limit> {
        let on_nodes: Vec<_> = self.slots.iter().filter_map(|slot| slot.current.at).collect();
        let max = nodes.demands.max_per_node(&self.goal.spec.scheduling);
        let paired = self.colocation.paired_with().map(|_| &*self.colocation);
        Limit::new(nodes, max, paired, &on_nodes)
    }

    /// What is on the nodes already and has a say about a new replica.
    pub(crate) fn others<'s>(&'s self, limit: Option<&'s Limit>) -> Others<'s> {
        Others { colocation: &self.colocation, limit, disabled: &self.disabled_on }
    }

    /// Whether a replica that is new on a node runs there.
    pub(crate) fn desired_state_of_new(&self, pass: &Pass<'_>, at: NodeIx) -> DesiredState {
        let node = pass.nodes.row(at).id;
        match pass.input.state.disabled.of(&self.key, None, node) {
            Some(_) => DesiredState::Disabled,
            None => DesiredState::Active,
        }
    }

    /// Adds a slot with its first instance on this node; a disabled one where operators disabled the
    /// service there.
    pub(crate) fn create(&mut self, pass: &mut Pass<'a>, ordinal: Ordinal, at: NodeIx) {
        let id = ReplicaId::new(&self.key, &ordinal);
        let desired_state = self.desired_state_of_new(pass, at);
        let row = pass.nodes.row(at);
        let granted =
            self.goal.spec.gpus.as_ref().filter(|_| desired_state == DesiredState::Active);
        let granted = granted.and_then(|demand| grant(row.node, &row.usage, demand, &[]).ok());
        let current = InstanceDraft {
            node: row.id,
            at: Some(at),
            since: None,
            revision: self.goal.revision,
            hash: self.goal.spec.hash,
            spec: Some(self.goal.spec),
            observed: None,
            gpus: granted.map_or(Held::NONE, Held::Granted),
        };
        if desired_state == DesiredState::Active {
            current.reserve(&mut pass.nodes);
            pass.take_addresses(&self.key, self.goal.revision, self.goal.spec);
            move_count(&mut pass.nodes, None, Some(at));
        }
        pass.changes.push(Change::SlotCreate {
            id: id.clone(),
            service: self.key.clone(),
            ordinal: ordinal.clone(),
            instance: current.as_new(&pass.nodes),
            desired_state,
        });
        let slot = SlotDraft {
            id,
            ordinal,
            desired_state,
            current,
            retiring: None,
            data: match desired_state {
                DesiredState::Active | DesiredState::Finished(_) => SlotData::Possible,
                DesiredState::Disabled => SlotData::None,
            },
            restarts: RestartCount::default(),
            is_terminating: false,
            search: Search::Open,
        };
        if desired_state == DesiredState::Disabled {
            slot.reserve_lasting(&mut pass.nodes);
        }
        self.slots.push(slot);
    }

    /// What a good instance of it has to show.
    pub(crate) fn proof(&self) -> Proof {
        let wanted = self.spec_at(self.deployment.revision);
        let monitor_back = match self.goal.roll {
            Roll::Back => wanted.and_then(|spec| spec.update.rollback.monitor),
            Roll::Forward | Roll::Paused => None,
        };
        Proof::new(self.role, monitor_back)
    }
}

/// What is known of a service. Revisions count anew for a deployment that was deleted and applied again:
/// of the one before it only the counter of indices is kept.
fn record_of(known: Option<&Scheduling>, deployment: &Deployment) -> Scheduling {
    let record = known.cloned().unwrap_or_default();
    let target = record
        .rollout
        .as_ref()
        .map_or(record.planned_revision, |last| last.target_revision.max(record.planned_revision));
    if target <= deployment.revision {
        return record;
    }
    let Scheduling { next_index, modified, .. } = record;
    Scheduling { next_index, modified, ..Scheduling::default() }
}
