//! A rollout to networks of the cluster begins once what runs is attached to them: before that, its successors would ask for
//! it by names that lead nowhere.

use jaco_state::ClusterState;
use jaco_state::view::slots_of;
use jaco_types::{DeploymentName, Millis, Timestamp};

/// How long a rollout waits at most: a node may be down, and its engine may refuse.
const JOIN_WAIT: Millis = Millis(10_000);

/// Until when the rollouts of a deployment wait for its instances to be attached to its networks, if they do.
pub(super) fn until(
    state: &ClusterState,
    deployment: &DeploymentName,
    now: Timestamp,
) -> Option<Timestamp> {
    state.networks.pool.as_ref()?;
    let instances = slots_of(state, deployment).flat_map(|slot| slot.instances());
    let since = instances.filter_map(|(_, instance)| instance.joining_since).max()?;
    Some(since.after(JOIN_WAIT)).filter(|until| now < *until)
}
