//! Volumes by the name that they have on the nodes, which may be those of another deployment.

use jaco_compose::model::ContainerSpec;
use jaco_types::spec::DeploymentSpec;
use jaco_types::{DeploymentName, ErrorCode, Rejection};

/// Refuses a spec that names volumes of the nodes, for who may change some deployments only: a volume that is its own has a
/// name made from those of deployment and volume.
pub(crate) fn volumes_of_others(
    deployment: &DeploymentName,
    spec: &DeploymentSpec,
) -> Option<Rejection> {
    spec.services.values().find_map(|service| {
        let container = ContainerSpec::parse(&service.container).ok()?;
        let is_foreign = |(key, volume): &(&String, &jaco_compose::model::Volume)| {
            volume.external || volume.name != format!("{deployment}_{key}")
        };
        let (key, volume) = container.volumes.iter().find(is_foreign)?;
        let message = format!(
            "service {} names the volume {} of its nodes (volumes.{key}), which may be another deployment's: a deployer \
             has volumes without `external` and `name` only; someone with role operator can apply it",
            service.name, volume.name
        );
        Some(Rejection::new(ErrorCode::PermissionDenied, message).with("needs", "operator"))
    })
}
