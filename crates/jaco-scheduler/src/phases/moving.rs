//! A deployment that moves from networks of each node to those of the cluster: what has been replaced goes on running as long
//! as others on its node, which have not, may still reach it by the engine's names. These do not follow the endpoints.

use jaco_state::ClusterState;
use jaco_state::network::Quarantine;
use jaco_state::view::{is_apart, is_running, slots_of};
use jaco_types::unit::Resources;
use jaco_types::{
    DesiredState, InstanceId, Millis, NodeId, ServiceKey, TerminatingInstance, Timestamp,
};

use crate::draft::Pass;

/// For how long at most: what is kept has its share of its node, which others of the deployment may wait for.
const MOVE_PATIENCE: Millis = Millis(120_000);

/// Until when an instance that has been replaced is kept for others, if it is.
pub(super) fn kept_until(pass: &Pass<'_>, terminating: &TerminatingInstance) -> Option<Timestamp> {
    let (state, now) = (pass.input.state, pass.input.now);
    let until = terminating.since.after(MOVE_PATIENCE);
    let (own, node) = (&terminating.service, terminating.node);
    let is_kept = now < until
        && state.networks.pool.is_some()
        && is_apart(state, own, terminating.revision)
        && is_replaced(state, &terminating.id)
        && (others_serve(state, own, node)
            || others_have_clients(pass, own, node)
            || dependents_leave(state, own, node));
    is_kept.then_some(until)
}

/// Whether the successor runs: where it cannot before this one has ended, nothing is gained by keeping it.
fn is_replaced(state: &ClusterState, id: &InstanceId) -> bool {
    state.slots.get(&id.replica).is_some_and(|slot| {
        slot.desired_state == DesiredState::Active && is_running(state, &slot.current_id())
    })
}

/// Whether another service of the deployment has an instance on the node that is still to be replaced, and none whose
/// successor may need the room that is reserved for this one.
fn others_serve(state: &ClusterState, own: &ServiceKey, node: NodeId) -> bool {
    let others = slots_of(state, &own.deployment).filter(|slot| slot.service != *own);
    let instances =
        others.flat_map(|slot| slot.instances().map(move |(id, one)| (&slot.service, id, one)));
    let mut serving = instances.filter(|(service, id, one)| {
        one.node == node && is_apart(state, service, one.revision) && is_running(state, id)
    });
    let keeps_room = reserves(state, own);
    let Some((first, ..)) = serving.next() else { return false };
    let needs_room = reserves(state, first) || serving.any(|(other, ..)| reserves(state, other));
    !(keeps_room && needs_room)
}

/// Whether a service reserves anything of its nodes.
fn reserves(state: &ClusterState, service: &ServiceKey) -> bool {
    let deployment = state.deployments.get(&service.deployment);
    let spec = deployment.and_then(|known| known.spec().services.get(&service.service));
    spec.is_some_and(|spec| spec.reservation != Resources::default() || spec.gpus.is_some())
}

/// Those of other services of the deployment that leave the node with it.
fn leaving<'a>(
    state: &'a ClusterState,
    own: &'a ServiceKey,
    node: NodeId,
) -> impl Iterator<Item = &'a TerminatingInstance> {
    state.terminating.values().filter(move |other| {
        other.node == node
            && other.service.deployment == own.deployment
            && other.service != *own
            && is_apart(state, &other.service, other.revision)
    })
}

/// Whether one that leaves the node with it may still be asked something: a request to that one may lead here.
fn others_have_clients(pass: &Pass<'_>, own: &ServiceKey, node: NodeId) -> bool {
    leaving(pass.input.state, own, node).any(|other| !pass.consumers.release(other))
}

/// Whether one of a service that depends on this leaves the node, too, or is being stopped there: it goes first.
fn dependents_leave(state: &ClusterState, own: &ServiceKey, node: NodeId) -> bool {
    let Some(deployment) = state.deployments.get(&own.deployment) else { return false };
    let depends = |other: &ServiceKey| {
        let spec = deployment.spec().services.get(&other.service);
        other.deployment == own.deployment
            && spec.is_some_and(|spec| spec.depends_on.iter().any(|it| it.service == own.service))
    };
    let is_stopped = |(id, row): (&InstanceId, &Quarantine)| {
        let observed = state.observed.get(id).filter(|seen| !seen.state.is_over());
        row.node == node && observed.is_some_and(|seen| depends(&seen.service))
    };
    leaving(state, own, node).any(|other| depends(&other.service))
        || state.networks.quarantine.iter().any(is_stopped)
}
