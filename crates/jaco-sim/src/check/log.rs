//! What must never be in the log.

use std::sync::Arc;

use jaco_state::audit::AuditKind;
use jaco_state::command::{Previous, ReplaceCause};
use jaco_state::view::is_running;
use jaco_state::{Change, ClusterState, Entry, Outcome};
use jaco_types::spec::{Placement, ServiceSpec, UpdateOrder};
use jaco_types::{
    NodeId, NodeStatus, Ordinal, ReplicaId, Revision, RolloutState, ServiceKey, Slot, Standing,
};

use super::stops_after;
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
                Acknowledged::Revision(revision) => {
                    self.deleted.contains(name) || known.is_some_and(|known| known >= *revision)
                }
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
        // Changes of one batch follow each other: what was reverted may move on at once.
        let mut before = before.clone();
        for change in changes {
            let now = &before;
            match change {
                Change::SlotReplace { id, previous: Previous::Drop, cause, instance, .. } => {
                    self.check_drop(now, id, *cause, instance.revision);
                }
                Change::SlotRemove { id } => self.check_removal(now, id),
                Change::SlotRevert { id } => {
                    self.check_revert(now, id);
                    if let Some(slot) = before.slots.get_mut(id)
                        && let Some(old) = slot.retiring.take()
                    {
                        slot.current = old;
                    }
                }
                Change::SlotDisable { id, .. } => self.check_disable(now, id),
                Change::SlotSettle { id } => self.check_settle(now, id, changes),
                Change::SlotReplace { previous: Previous::Retire, .. }
                | Change::SlotCreate { .. }
                | Change::SlotSetRestarts { .. }
                | Change::SchedulingSet { .. }
                | Change::LeavingEnd { .. }
                | Change::ConsumerExpire { .. }
                | Change::NodeStatusSet { .. }
                | Change::ImageResolve { .. }
                | Change::DrainGiveUp { .. } => {}
            }
        }
    }

    /// SIM-16. What people want to rest stops serving, and that is theirs to want.
    fn check_disable(&mut self, before: &ClusterState, id: &ReplicaId) {
        let Some(slot) = before.slots.get(id) else { return };
        let rests = before.disabled.of_slot(slot).is_some();
        if slot.standing == Standing::Active && !rests {
            self.broken("SIM-16", format!("{id} was disabled, and nobody wants it to rest"));
        }
        self.excused.extend(slot.instances().map(|(instance, _)| instance));
    }

    fn check_drop(
        &mut self,
        before: &ClusterState,
        id: &ReplicaId,
        cause: ReplaceCause,
        next: Revision,
    ) {
        let Some(slot) = before.slots.get(id) else { return };
        let instance = slot.current_id();
        let other_serves = slot.retiring_id().is_some_and(|old| is_running(before, &old));
        let serves = is_running(before, &instance) && !other_serves;
        let is_lost = is_lost(&self.reference, slot.current.node);
        let is_fine = match cause {
            ReplaceCause::Failed => !serves,
            ReplaceCause::NodeLost => is_lost,
            ReplaceCause::Enabled => !serves && slot.standing == Standing::Disabled,
            ReplaceCause::SpecChanged | ReplaceCause::Moved | ReplaceCause::CompanyReplaced => {
                !serves || must_stop_first(&self.reference, slot, next)
            }
        };
        if !is_fine {
            let what = format!("{instance} serves and was dropped, cause {}", cause.as_str());
            self.broken("SIM-5", what);
        }
        let is_member = self.reference.nodes.contains(&slot.current.node);
        let stops_itself = stops_after(before, slot, &slot.current).is_some();
        if cause == ReplaceCause::NodeLost && is_member && stops_itself {
            self.given_up.insert(instance.clone());
        }
        match cause {
            ReplaceCause::Failed | ReplaceCause::NodeLost => self.excused.insert(instance),
            ReplaceCause::SpecChanged
            | ReplaceCause::Moved
            | ReplaceCause::CompanyReplaced
            | ReplaceCause::Enabled => false,
        };
    }

    /// The old instance goes because the new one serves. If that ends before the old one has
    /// stopped, it was not us.
    fn check_settle(&mut self, before: &ClusterState, id: &ReplicaId, changes: &[Change]) {
        let Some(slot) = before.slots.get(id) else { return };
        let (Some(old), Some(was)) = (slot.retiring_id(), &slot.retiring) else { return };
        let is_over =
            before.observed.get(&slot.current_id()).is_some_and(|seen| seen.state.is_over());
        let makes_room = changes.iter().any(|change| {
            let Change::SlotReplace { id: other, previous: Previous::Drop, instance, .. } = change
            else {
                return false;
            };
            other == id && must_stop_first(&self.reference, slot, instance.revision)
        });
        if is_running(before, &slot.current_id()) {
            self.excused.insert(old);
        } else if is_running(before, &old)
            && !is_lost(&self.reference, was.node)
            && !is_over
            && !makes_room
        {
            let what = format!("{old} serves and was let go, and its successor does not serve");
            self.broken("SIM-5", what);
        }
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
        // After an aborted rollout the revision before says what is wanted.
        let aborted = self.reference.scheduling.get(&slot.service).is_some_and(|record| {
            let rollout = record.rollout.as_ref();
            rollout.is_some_and(|rollout| {
                matches!(rollout.state, RolloutState::Aborted | RolloutState::RollbackPaused)
            })
        });
        if aborted {
            return;
        }
        let own_kind = match (&slot.ordinal, &spec.placement) {
            (Ordinal::Host(_), Placement::Global) => {
                let lost = is_lost(&self.reference, slot.current.node);
                let leaves = self
                    .reference
                    .nodes
                    .get(&slot.current.node)
                    .is_none_or(|node| node.availability == jaco_types::Availability::Draining);
                if !lost && !leaves && !is_deserted(&self.reference, slot, spec) {
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
        if own_kind && left < wanted {
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
        NodeStatus::Joining | NodeStatus::Ready | NodeStatus::DiskFull => false,
    })
}

/// Whether the next instance of a slot cannot run beside the present one.
fn must_stop_first(state: &ClusterState, slot: &Slot, next: Revision) -> bool {
    let clashes = |spec: &Arc<ServiceSpec>| {
        spec.update.order == UpdateOrder::StopFirst
            || !spec.host_ports.is_empty()
            || spec.reservation != jaco_types::unit::Resources::default()
    };
    state.service_spec(&slot.service, next).is_none_or(clashes)
}

/// Whether nothing is left on its node of a service that the replica cannot do without.
fn is_deserted(state: &ClusterState, slot: &Slot, spec: &ServiceSpec) -> bool {
    spec.scheduling.beside.iter().any(|other| {
        let mut others = state.slots.values().filter(|known| {
            known.service.deployment == slot.service.deployment && known.service.service == *other
        });
        !others.any(|known| known.instances().any(|(_, one)| one.node == slot.current.node))
    })
}

fn wanted_spec<'a>(state: &'a ClusterState, service: &ServiceKey) -> Option<&'a ServiceSpec> {
    let deployment = state.deployments.get(&service.deployment)?;
    deployment.spec().services.get(&service.service).map(|spec| &**spec)
}
