//! Ports that every node answers and that a change adds, removes and changes. Pure.

use std::collections::BTreeSet;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::edge::PortClaim;
use jaco_types::PortKey;

/// The ports that differ, by key.
pub(super) fn ports(before: &ClusterState, after: &ClusterState) -> Vec<v1::PlannedPort> {
    let (old, new) = (&before.edges.ports, &after.edges.ports);
    let keys: BTreeSet<&PortKey> = old.keys().chain(new.keys()).collect();
    let rows = keys.into_iter().filter_map(|key| {
        let (change, claim) = match (old.get(key), new.get(key)) {
            (None, Some(claim)) => ("added", claim),
            (Some(claim), None) => ("removed", claim),
            (Some(before), Some(claim)) if use_of(before) != use_of(claim) => ("updated", claim),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(v1::PlannedPort {
            deployment: claim.service.deployment.to_string(),
            port: key.to_string(),
            change: change.to_owned(),
            target: format!("{}:{}", claim.service.service, claim.target),
        })
    });
    rows.collect()
}

/// A claim without its age.
fn use_of(claim: &PortClaim) -> impl PartialEq + '_ {
    (&claim.service, claim.target, claim.proxy_protocol)
}
