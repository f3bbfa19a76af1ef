//! What a planner remembers from pass to pass: the state that it saw last, what all slots take of
//! the nodes, and the deployments that need another look.
//!
//! A deployment is unsettled until a pass finds nothing to do about it, nothing of it waits and no
//! moment is to come at which that changes. From then on it is skipped until something that it
//! depends on is different. The state that was seen shares its rows with the present one, so that
//! finding the difference costs what is different.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::{Change, ClusterState, Deployment};
use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{
    Availability, DeploymentName, DesiredState, FirstWatch, Instance, NodeId, NodeStatus,
    ReplicaId, RolloutState, Scheduling, ServiceKey, ServiceName, Slot,
};

use crate::attribute::ClusterDemands;
use crate::draft::{Draft, Pass, ServiceDraft, keeps_lasting};
use crate::nodes::{Lasting, NodeTable, Usage};

/// What is known of the state that was seen last; in the beginning, that of an empty cluster.
#[derive(Default)]
pub(crate) struct Memory {
    seen: ClusterState,
    /// The members, in the order of their host names.
    hosts: Vec<NodeId>,
    accounts: BTreeMap<NodeId, Account>,
    groups: BTreeMap<DeploymentName, Group>,
    unsettled: BTreeSet<DeploymentName>,
    /// How each node was judged.
    judged_nodes: BTreeMap<NodeId, Judged>,
    /// Nodes that are not what they were when they were judged last.
    moved: BTreeSet<NodeId>,
    /// What follows from the nodes, as long as none changes.
    lasting: Lasting,
}

/// What is taken of a node, and by whom.
#[derive(Default)]
struct Account {
    usage: Usage,
    /// How many instances of each deployment are there.
    deployments: BTreeMap<DeploymentName, u32>,
}

/// What belongs to a deployment, whether or not anybody wants it.
#[derive(Default)]
struct Group {
    slots: BTreeSet<ReplicaId>,
    /// The services that the planner keeps something about.
    records: BTreeSet<ServiceName>,
    follows: Follows,
}

/// Which nodes' changes a deployment depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Follows {
    /// Those of the nodes that it is on.
    #[default]
    ItsNodes,
    /// Those of every node.
    AllNodes,
}

/// What decides whether a node keeps what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Judged {
    status: NodeStatus,
    availability: Availability,
}

impl Memory {
    /// Brings the memory up to this state. Whatever changed is unsettled.
    pub(crate) fn follow(&mut self, state: &ClusterState) {
        let seen = std::mem::replace(&mut self.seen, state.for_decisions());
        self.follow_nodes(&seen, state);
        let rewritten = self.forget_rewritten(&seen, state);
        self.follow_slots(&seen, state, &rewritten);
        for name in &rewritten {
            for id in self.groups.get(name).map(|group| group.slots.clone()).unwrap_or_default() {
                self.count_in(state, &id);
            }
        }
        for change in state.scheduling.changed_since(&seen.scheduling) {
            let ServiceKey { deployment, service } = change.key;
            let records = &mut self.groups.entry(deployment.clone()).or_default().records;
            match change.new {
                Some(_) => records.insert(service.clone()),
                None => records.remove(service),
            };
            self.unsettled.insert(deployment.clone());
        }
        for change in state.observed.changed_since(&seen.observed) {
            if let Some(slot) = state.slots.get(&change.key.replica) {
                self.unsettle(&slot.service.deployment);
            }
        }
        self.follow_disabled(&seen, state);
        if state.constraints != seen.constraints {
            self.lasting = Lasting::default();
            self.unsettle_followers();
        }
        for terminating in state.terminating.values() {
            self.unsettle(&terminating.service.deployment);
        }
    }

    /// What was disabled or enabled: all of the services that are named, and what is on the nodes.
    fn follow_disabled(&mut self, seen: &ClusterState, state: &ClusterState) {
        for change in state.disabled.waiting.changed_since(&seen.disabled.waiting) {
            self.unsettle(&change.key.deployment);
        }
        for change in state.disabled.scopes.changed_since(&seen.disabled.scopes) {
            if let Some(service) = change.key.service() {
                self.unsettle(&service.deployment);
                continue;
            }
            let there = change.key.node().and_then(|node| self.accounts.get(&node));
            self.unsettled
                .extend(there.into_iter().flat_map(|there| there.deployments.keys()).cloned());
            self.unsettle_followers();
        }
    }

    fn follow_nodes(&mut self, seen: &ClusterState, state: &ClusterState) {
        let changed = state.nodes.changed_since(&seen.nodes);
        let hostname = |node: Option<&jaco_types::Node>| node.map(|node| node.hostname.clone());
        if changed.iter().any(|change| hostname(change.old) != hostname(change.new)) {
            let mut hosts: Vec<_> = state.nodes.values().collect();
            hosts.sort_unstable_by_key(|node| (&node.hostname, node.id));
            self.hosts = hosts.into_iter().map(|node| node.id).collect();
        }
        if !changed.is_empty() {
            self.lasting = Lasting::default();
        }
        self.moved.extend(changed.iter().map(|change| *change.key));
    }

    /// Counts out all slots of the deployments that were written, by the specs they had; names those
    /// deployments.
    fn forget_rewritten(
        &mut self,
        seen: &ClusterState,
        state: &ClusterState,
    ) -> BTreeSet<DeploymentName> {
        let mut rewritten = BTreeSet::new();
        for change in state.deployments.changed_since(&seen.deployments) {
            let group = self.groups.entry(change.key.clone()).or_default();
            group.follows = change.new.map_or(Follows::ItsNodes, follows);
            for id in group.slots.clone() {
                self.count_out(seen, &id);
            }
            self.unsettle(change.key);
            rewritten.insert(change.key.clone());
        }
        rewritten
    }

    fn follow_slots(
        &mut self,
        seen: &ClusterState,
        state: &ClusterState,
        rewritten: &BTreeSet<DeploymentName>,
    ) {
        for change in state.slots.changed_since(&seen.slots) {
            if let Some(old) = change.old {
                let name = &old.service.deployment;
                if !rewritten.contains(name) {
                    self.count_out(seen, change.key);
                }
                if let Some(group) = self.groups.get_mut(name) {
                    group.slots.remove(change.key);
                }
                self.unsettle(name);
            }
            if let Some(new) = change.new {
                let name = &new.service.deployment;
                let group = self.groups.entry(name.clone()).or_default();
                group.slots.insert(change.key.clone());
                if !rewritten.contains(name) {
                    self.count_in(state, change.key);
                }
                self.unsettle(name);
            }
        }
    }

    fn count_in(&mut self, state: &ClusterState, id: &ReplicaId) {
        for part in state.slots.get(id).into_iter().flat_map(|slot| parts(state, slot)) {
            let account = self.accounts.entry(part.node).or_default();
            account.usage.replicas += part.replicas;
            if let Some(spec) = part.keeps_lasting_of {
                account.usage.take_lasting(spec);
            }
            if let Some(spec) = part.spec {
                account.usage.take(spec, part.gpus);
            }
            *account.deployments.entry(part.deployment.clone()).or_default() += 1;
        }
    }

    /// Reverts what [`Memory::count_in`] did with the same state.
    fn count_out(&mut self, state: &ClusterState, id: &ReplicaId) {
        for part in state.slots.get(id).into_iter().flat_map(|slot| parts(state, slot)) {
            let Some(account) = self.accounts.get_mut(&part.node) else { continue };
            account.usage.replicas -= part.replicas;
            if let Some(spec) = part.keeps_lasting_of {
                account.usage.release_lasting(spec);
            }
            if let Some(spec) = part.spec {
                account.usage.release(spec, part.gpus);
            }
            let Some(count) = account.deployments.get_mut(part.deployment) else { continue };
            *count -= 1;
            if *count == 0 {
                account.deployments.remove(part.deployment);
            }
            if account.deployments.is_empty() {
                self.accounts.remove(&part.node);
            }
        }
    }

    fn unsettle(&mut self, name: &DeploymentName) {
        if !self.unsettled.contains(name) {
            self.unsettled.insert(name.clone());
        }
    }

    /// The nodes with what the slots take of them.
    pub(crate) fn nodes<'a>(&self, state: &'a ClusterState) -> NodeTable<'a> {
        let usage = |id: &NodeId| self.accounts.get(id).map(|account| account.usage.clone());
        let rows = self.hosts.iter().filter_map(|id| state.nodes.get(id));
        let rows = rows.map(|node| (node, usage(&node.id).unwrap_or_default()));
        let table = NodeTable::new(rows, ClusterDemands::read(&state.constraints));
        table.with_lasting(self.lasting.clone())
    }

    /// A draft of the deployments that need a look, now that the nodes are judged.
    pub(crate) fn read<'a>(&mut self, pass: Pass<'a>) -> Draft<'a> {
        self.follow_judged_nodes(&pass.nodes);
        let state = pass.input.state;
        let groups = self.unsettled.iter().filter_map(|name| Some((name, self.groups.get(name)?)));
        let mut records: Vec<(&'a ServiceKey, &'a Scheduling)> = Vec::new();
        let mut ids = BTreeSet::new();
        for (name, group) in groups {
            ids.extend(&group.slots);
            records.extend(group.records.iter().filter_map(|service| {
                let key = ServiceKey { deployment: name.clone(), service: service.clone() };
                state.scheduling.range(&key..=&key).next()
            }));
        }
        let deployments = self.unsettled.iter().filter_map(|name| state.deployments.get(name));
        let slots = ids.into_iter().filter_map(|id| state.slots.get(id));
        Draft::read_some(pass, deployments, slots, records)
    }

    /// What is on a node that is not what it was needs a look; so does all that goes by every node.
    fn follow_judged_nodes(&mut self, nodes: &NodeTable<'_>) {
        let mut moved = std::mem::take(&mut self.moved);
        for (_, row) in nodes.rows() {
            let (id, availability) = (row.id, row.availability);
            let judged = Judged { status: row.status, availability };
            if self.judged_nodes.get(&id) != Some(&judged) {
                self.judged_nodes.insert(id, judged);
                moved.insert(id);
            }
        }
        if moved.is_empty() {
            return;
        }
        for id in &moved {
            if nodes.find(*id).is_none() {
                self.judged_nodes.remove(id);
            }
            let there =
                self.accounts.get(id).into_iter().flat_map(|there| there.deployments.keys());
            self.unsettled.extend(there.cloned());
        }
        self.unsettle_followers();
    }

    fn unsettle_followers(&mut self) {
        let all = self.groups.iter().filter(|(_, group)| group.follows == Follows::AllNodes);
        self.unsettled.extend(all.map(|(name, _)| name.clone()));
    }

    /// Notes what a pass left unsettled: what it wants changed, and what has not converged.
    pub(crate) fn note_settled(&mut self, draft: &Draft<'_>) {
        let (pass, services) = (&draft.pass, draft.services());
        let state = pass.input.state;
        let touched = pass.changes.iter().filter_map(|change| touched(state, change));
        let unsettled_services = services.iter().filter(|service| !is_settled(service));
        let unsettled_services = unsettled_services.map(|service| &service.key.deployment);
        let unsettled = touched.chain(unsettled_services).cloned().collect();
        self.lasting = pass.nodes.lasting();
        for name in std::mem::replace(&mut self.unsettled, unsettled) {
            if self.groups.get(&name).is_some_and(|group| group.is_empty())
                && !state.deployments.contains(&name)
            {
                self.groups.remove(&name);
            }
        }
    }
}

/// Whether nothing can come of looking at the service again, after a pass that changed nothing of
/// it, as long as its deployment, its record, its slots, what was reported of them, and the nodes that
/// they are on stay as they are. One that is placed by host or on every node depends on all nodes
/// besides.
///
/// The rules are strict on purpose. A service that could be called settled and is not costs a look; one
/// that is called settled and is not would be forgotten.
fn is_settled(service: &ServiceDraft<'_>) -> bool {
    let is_rolling = service.record.rollout.as_ref().is_some_and(|one| {
        one.state == RolloutState::InProgress || one.rollback_progress.is_some()
    });
    let is_kept = service.agenda().is_some_and(|agenda| agenda.is_empty());
    let is_watched = service.record.first_watch == FirstWatch::Open;
    service.unplaced.is_empty() && !is_rolling && !is_watched && is_kept
}

impl Group {
    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.records.is_empty()
    }
}

/// What one instance of a slot takes of its node.
struct Part<'s> {
    node: NodeId,
    deployment: &'s DeploymentName,
    /// One for the current instance: a retiring one is no replica more.
    replicas: u32,
    /// Absent where the revision is no longer kept.
    spec: Option<&'s ServiceSpec>,
    /// What a disabled slot reserves the ports and the space of volumes of, and nothing else.
    keeps_lasting_of: Option<&'s ServiceSpec>,
    gpus: &'s [Arc<str>],
}

fn parts<'s>(state: &'s ClusterState, slot: &'s Slot) -> impl Iterator<Item = Part<'s>> {
    let part = |instance: &'s Instance, replicas| {
        let spec = state.service_spec(&slot.service, instance.revision);
        let spec = spec.map(|spec| &**spec).filter(|spec| spec.hash == instance.spec_hash);
        let (deployment, gpus) = (&slot.service.deployment, &*instance.gpus);
        Part { node: instance.node, deployment, replicas, spec, keeps_lasting_of: None, gpus }
    };
    let retiring = slot.retiring.as_ref().map(|instance| part(instance, 0));
    let current = match slot.desired_state {
        DesiredState::Active => part(&slot.current, 1),
        // What it was for is done: it takes nothing of its node.
        DesiredState::Finished(_) => Part { spec: None, ..part(&slot.current, 0) },
        // It runs nothing, and what becomes of its node concerns it all the same.
        DesiredState::Disabled => {
            let part = part(&slot.current, 0);
            let keeps_lasting_of = part.spec.filter(|spec| keeps_lasting(spec, &slot.ordinal));
            Part { replicas: 0, spec: None, keeps_lasting_of, ..part }
        }
    };
    std::iter::once(current).chain(retiring)
}

/// A rollout may go back to any revision that is kept, so all of them count.
fn follows(deployment: &Deployment) -> Follows {
    let specs = deployment.revisions.values().flat_map(|record| record.spec.services.values());
    let mut placements = specs.map(|spec| &spec.placement);
    match placements.any(|placement| matches!(placement, Placement::Hosts(_) | Placement::Global)) {
        true => Follows::AllNodes,
        false => Follows::ItsNodes,
    }
}

/// The deployment that a change is about.
fn touched<'a>(state: &'a ClusterState, change: &'a Change) -> Option<&'a DeploymentName> {
    match change {
        Change::SlotCreate { service, .. }
        | Change::ImageResolve { service, .. }
        | Change::SchedulingSet { service, .. } => Some(&service.deployment),
        Change::SlotReplace { id, .. }
        | Change::SlotDisable { id, .. }
        | Change::SlotFinish { id, .. }
        | Change::SlotSettle { id }
        | Change::SlotRevert { id }
        | Change::SlotSetRestarts { id, .. }
        | Change::SlotRemove { id } => Some(&state.slots.get(id)?.service.deployment),
        Change::TerminatingRemove { id } => Some(&state.terminating.get(id)?.service.deployment),
        Change::ConsumerExpire { .. }
        | Change::NodeStatusSet { .. }
        | Change::DrainTimeout { .. } => None,
    }
}
