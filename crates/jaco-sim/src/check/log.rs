//! What must never be in the log.

use jaco_state::audit::AuditKind;
use jaco_state::command::{Previous, ReplaceCause};
use jaco_state::view::is_running;
use jaco_state::{Change, ClusterState, Entry, Outcome};
use jaco_types::spec::{Placement, ServiceSpec, UpdateOrder};
use jaco_types::{NodeId, NodeStatus, Ordinal, ReplicaId, ServiceKey, Slot};

use super::{Acknowledged, Checker};

impl Checker {
    /// SIM-10.
    pub(super) fn check_effect_of_request(&mut self, entry: &Entry, outcome: &Outcome) {
        let Some(request) = &entry.request else { return };
        let has_effect =
            self.reference.audit.events.iter().next_back().is_some_and(|(key, event)| {
                key.index == entry.index && event.kind != AuditKind::RequestRefused
            });
        if !has_effect {
            return;
        }
        if let Some(first) = self.effects.insert(request.clone(), entry.index) {
            let what = format!(
                "request {request} took effect at {first} and again at {}: {outcome:?}",
                entry.index
            );
            self.broken("SIM-10", what);
        }
    }

    /// SIM-9: to be asked when nothing is under way.
    pub(crate) fn check_acknowledged(&mut self) {
        let mut lost = Vec::new();
        for (name, told) in &self.acknowledged {
            let known = self.reference.deployments.get(name).map(|deployment| deployment.revision);
            let is_there = match told {
                Acknowledged::Revision(revision) => known.is_some_and(|known| known >= *revision),
                // A request in doubt may have been written after it.
                Acknowledged::Deleted => true,
            };
            if !is_there {
                lost.push(format!("{name}: {told:?} was acknowledged, and there is {known:?}"));
            }
        }
        for what in lost {
            self.broken("SIM-9", what);
        }
    }

    /// SIM-5 and SIM-7: what a plan may do to replicas.
    pub(super) fn check_changes(&mut self, before: &ClusterState, changes: &[Change]) {
        for change in changes {
            match change {
                Change::SlotReplace { id, previous: Previous::Drop, cause, .. } => {
                    self.check_drop(before, id, *cause);
                }
                Change::SlotRemove { id } => self.check_removal(before, id),
                Change::SlotRevert { id } => self.check_revert(before, id),
                Change::SlotReplace { previous: Previous::Retire, .. }
                | Change::SlotCreate { .. }
                | Change::SlotSettle { .. }
                | Change::SlotSetRestarts { .. }
                | Change::SchedulingSet { .. }
                | Change::NodeStatusSet { .. } => {}
            }
        }
    }

    fn check_drop(&mut self, before: &ClusterState, id: &ReplicaId, cause: ReplaceCause) {
        let Some(slot) = before.slots.get(id) else { return };
        let instance = slot.current_id();
        let other_serves = slot.retiring_id().is_some_and(|old| is_running(before, &old));
        let serves = is_running(before, &instance) && !other_serves;
        let is_lost = is_lost(&self.reference, slot.current.node);
        let is_fine = match cause {
            ReplaceCause::Failed => !serves,
            ReplaceCause::NodeLost => is_lost,
            ReplaceCause::SpecChanged | ReplaceCause::Moved => {
                !serves || must_stop_first(&self.reference, slot)
            }
        };
        if !is_fine {
            let what = format!("{instance} serves and was dropped, cause {}", cause.as_str());
            self.broken("SIM-5", what);
        }
        self.excused.insert(instance, cause);
    }

    /// A successor that is given up may serve, but not alone.
    fn check_revert(&mut self, before: &ClusterState, id: &ReplicaId) {
        let Some(slot) = before.slots.get(id) else { return };
        let old_serves = slot.retiring_id().is_some_and(|old| is_running(before, &old));
        if is_running(before, &slot.current_id()) && !old_serves {
            let what =
                format!("{id} goes back to an instance that does not serve, from one that does");
            self.broken("SIM-5", what);
        }
    }

    fn check_removal(&mut self, before: &ClusterState, id: &ReplicaId) {
        let Some(slot) = before.slots.get(id) else { return };
        let Some(spec) = wanted_spec(&self.reference, &slot.service) else { return };
        let own_kind = match (&slot.ordinal, &spec.placement) {
            (Ordinal::Host(_), Placement::Global) => {
                let lost = is_lost(&self.reference, slot.current.node);
                let leaves = self
                    .reference
                    .nodes
                    .get(&slot.current.node)
                    .is_none_or(|node| node.availability == jaco_types::Availability::Draining);
                if !lost && !leaves {
                    self.broken("SIM-7", format!("{id} was removed, and its node keeps it"));
                }
                return;
            }
            (Ordinal::Index(_), Placement::Global) | (Ordinal::Host(_), _) => false,
            (Ordinal::Index(_), _) => true,
        };
        let is_index = |slot: &&Slot| matches!(slot.ordinal, Ordinal::Index(_));
        let of_service = |slot: &&Slot| slot.service == *before_service(before, id);
        let left = self.reference.slots.values().filter(of_service).filter(is_index).count();
        let wanted = usize::try_from(spec.replicas).unwrap_or(usize::MAX);
        // A rollout that was aborted wants as many as the revision before.
        let aborted = self.reference.scheduling.get(&slot.service).is_some_and(|record| {
            let rollout = record.rollout.as_ref();
            rollout.is_some_and(|rollout| rollout.state == jaco_types::RolloutState::Aborted)
        });
        if own_kind && left < wanted && !aborted {
            self.broken("SIM-7", format!("{id} was removed: {left} are left and {wanted} wanted"));
        }
    }
}

fn before_service<'a>(before: &'a ClusterState, id: &ReplicaId) -> &'a ServiceKey {
    &before.slots.get(id).expect("looked up before").service
}

/// Whether a node cannot keep what it has.
fn is_lost(state: &ClusterState, node: NodeId) -> bool {
    state.nodes.get(&node).is_none_or(|node| match node.status {
        NodeStatus::Down | NodeStatus::EngineDown => true,
        NodeStatus::Joining | NodeStatus::Ready => false,
    })
}

/// Whether two instances of a slot cannot run side by side, before or after the change.
fn must_stop_first(state: &ClusterState, slot: &Slot) -> bool {
    let clashes = |spec: &ServiceSpec| {
        spec.update.order == UpdateOrder::StopFirst
            || !spec.host_ports.is_empty()
            || spec.reservation != jaco_types::unit::Resources::default()
    };
    let running = state.service_spec(&slot.service, slot.current.revision);
    wanted_spec(state, &slot.service).is_none_or(clashes)
        || running.is_none_or(|spec| clashes(spec))
}

fn wanted_spec<'a>(state: &'a ClusterState, service: &ServiceKey) -> Option<&'a ServiceSpec> {
    let deployment = state.deployments.get(&service.deployment)?;
    deployment.spec().services.get(&service.service).map(|spec| &**spec)
}
