//! What a change of a node's labels does to global services: they follow it at once, as no other service does.

use std::collections::BTreeSet;

use jaco_scheduler::attribute::count_admitted;
use jaco_state::ClusterState;
use jaco_types::spec::Placement;
use jaco_types::{NodeId, ServiceKey};

/// The global services that the node's labels and facts allow on it.
pub(super) fn global_services(state: &ClusterState, node: NodeId) -> BTreeSet<ServiceKey> {
    let Some(node) = state.nodes.get(&node) else { return BTreeSet::new() };
    let of_deployments = state.deployments.values().flat_map(|deployment| {
        let services = deployment.spec().services.values();
        let global = services.filter(|spec| spec.placement == Placement::Global);
        let allowed = global.filter(|spec| count_admitted(&[node], &spec.scheduling) == 1);
        allowed.map(|spec| ServiceKey {
            deployment: deployment.name.clone(),
            service: spec.name.clone(),
        })
    });
    of_deployments.collect()
}

/// What starts and stops on a node where these services were allowed and are now.
pub(super) fn effects(
    before: &BTreeSet<ServiceKey>,
    after: &BTreeSet<ServiceKey>,
    hostname: &str,
) -> Vec<String> {
    let stops = before.difference(after).map(|key| {
        format!("{key} is global and stops on {hostname}: its constraints do not allow the node any more")
    });
    let starts = after.difference(before).map(|key| {
        format!("{key} is global and starts on {hostname}: its constraints allow the node now")
    });
    stops.chain(starts).collect()
}
