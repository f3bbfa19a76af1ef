//! The domains for which the cluster orders certificates.

use jaco_types::route::{RouteDomain, RouteTls};

use crate::state::ClusterState;

/// The domains of desired routes with `tls: auto`, in order, each once.
pub fn ordered_domains(state: &ClusterState) -> impl Iterator<Item = &RouteDomain> {
    let mut before: Option<&RouteDomain> = None;
    let wanted = state.edges.claims.iter().filter_map(|(key, claim)| {
        let route = state.deployments.get(&claim.deployment)?.spec().routes.get(key)?;
        (route.tls == RouteTls::Auto).then_some(&key.domain)
    });
    wanted.filter(move |domain| before.replace(*domain) != Some(*domain))
}
