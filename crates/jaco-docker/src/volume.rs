//! Garbage collection of volumes that removed allocations left: found by their owner's labels,
//! removed if unused. Volumes without these labels are never touched.

use std::collections::BTreeSet;

use bollard::Docker;
use bollard::query_parameters::{ListVolumesOptions, RemoveVolumeOptions};
use jaco_agent::engine::{CollectedVolume, EngineError, GcMode, Owner, VolumeGc};
use jaco_types::DeploymentName;

use crate::error::{NOT_FOUND, engine_error, status};
use crate::{names, spec};

/// See [`jaco_agent::ContainerEngine::collect_volumes`].
pub(crate) async fn collect(
    docker: &Docker,
    owner: &Owner,
    collection: &VolumeGc,
) -> Result<Vec<CollectedVolume>, EngineError> {
    let needed = Needed::of(owner, collection);
    let filters = Some(names::owner_filter(owner));
    let listed = docker.list_volumes(Some(ListVolumesOptions { filters })).await;
    let listed = listed.map_err(engine_error)?.volumes.unwrap_or_default();
    let mut left = Vec::new();
    for volume in listed {
        let label = volume.labels.get(names::DEPLOYMENT);
        let Some(deployment) = label.and_then(|name| DeploymentName::new(name).ok()) else {
            continue;
        };
        let is_meant = collection.deployment.as_ref().is_none_or(|wanted| *wanted == deployment);
        if is_meant && !needed.has(&deployment, &volume.name) {
            left.push(CollectedVolume { deployment, name: volume.name, kept: None });
        }
    }
    left.sort_by(|a, b| (&a.deployment, &a.name).cmp(&(&b.deployment, &b.name)));
    if collection.extent == GcMode::Remove {
        for volume in &mut left {
            volume.kept = remove(docker, &volume.name).await?;
        }
    }
    Ok(left)
}

/// Removes a volume; returns why it was kept, if it was. A missing volume is no error.
async fn remove(docker: &Docker, name: &str) -> Result<Option<String>, EngineError> {
    match docker.remove_volume(name, None::<RemoveVolumeOptions>).await {
        Ok(()) => {
            tracing::info!(volume = %name, "volume removed");
            Ok(None)
        }
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
        // In use by a container.
        Err(error) if status(&error).is_some() => Ok(Some(error.to_string())),
        Err(error) => Err(engine_error(error)),
    }
}

/// Volumes in use, by the engine's names.
struct Needed {
    names: BTreeSet<String>,
    whole: BTreeSet<DeploymentName>,
}

impl Needed {
    fn of(owner: &Owner, collection: &VolumeGc) -> Self {
        let mut needed = Self { names: BTreeSet::new(), whole: collection.needed.whole.clone() };
        for (deployment, spec) in &collection.needed.specs {
            match spec::read(&spec.container) {
                Ok(container) => {
                    needed.names.extend(spec::volume_names(owner, deployment, &container));
                }
                // A spec that cannot be parsed may mount any volume.
                Err(_) => drop(needed.whole.insert(deployment.clone())),
            }
        }
        needed
    }

    fn has(&self, deployment: &DeploymentName, name: &str) -> bool {
        self.whole.contains(deployment) || self.names.contains(name)
    }
}
