//! Ports that every node answers, in a spec: who has them already.

use jaco_state::edge::Edges;
use jaco_types::spec::DeploymentSpec;
use jaco_types::{DeploymentName, ErrorCode, IngressPort, PortKey, Rejection};

/// All ports that others publish, in one refusal; the rest of the rules is that of the state.
///
/// # Errors
/// `port_conflict`.
pub(super) fn check_owners(
    name: &DeploymentName,
    spec: &DeploymentSpec,
    edges: &Edges,
) -> Result<(), Rejection> {
    let ports = spec.services.values().flat_map(|service| &service.ingress_ports);
    let fixed = ports.copied().filter_map(IngressPort::fixed);
    let taken: Vec<(PortKey, &DeploymentName)> = fixed
        .filter_map(|port| {
            let mut claims = edges.claims_on(port.transport, port.port);
            let (key, claim) = claims
                .find(|(key, claim)| key.overlaps(port) && claim.service.deployment != *name)?;
            Some((key, &claim.service.deployment))
        })
        .collect();
    let Some((first, owner)) = taken.first() else { return Ok(()) };
    let named: Vec<String> =
        taken.iter().map(|(key, owner)| format!("{key} (deployment {owner})")).collect();
    let message = format!(
        "ports that other deployments publish: {}; remove them there first, or publish other ports",
        named.join(", ")
    );
    let rejection = Rejection::new(ErrorCode::PortConflict, message);
    Err(rejection.with("port", first.to_string()).with("owner", owner.to_string()))
}
