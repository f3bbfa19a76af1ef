//! The volumes of a node, by their owner's labels, and garbage collection of those that removed allocations left. Volumes
//! without these labels are never touched.

use std::collections::{BTreeMap, BTreeSet};

use bollard::Docker;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum, Volume};
use bollard::query_parameters::{ListContainersOptions, ListVolumesOptions, RemoveVolumeOptions};
use jaco_agent::engine::{
    CollectedVolume, EngineError, GcMode, HeldVolume, Owner, VolumeAccess, VolumeGc, VolumeMount,
};
use jaco_types::DeploymentName;

use crate::convert::parse_time;
use crate::error::{NOT_FOUND, engine_error, status};
use crate::volume_class::{Place, VolumeHost};
use crate::{names, spec, volume_access};

/// See [`jaco_agent::ContainerEngine::volumes`].
pub(crate) async fn held(host: &VolumeHost) -> Result<Vec<HeldVolume>, EngineError> {
    let (docker, owner) = (&host.docker, &host.owner);
    let (volumes, mut mounts) = tokio::try_join!(owned(docker, owner), mounts(docker))?;
    let places: Vec<_> = volumes.iter().map(|(_, volume)| host.place_of(volume)).collect();
    let mut used = host.used(places.iter().flatten().map(Place::path).collect()).await.into_iter();
    let held = volumes.into_iter().zip(places).map(|((deployment, volume), place)| HeldVolume {
        key: spec::volume_key(owner, &deployment, &volume.name),
        used: place.as_ref().and_then(|_| used.next().flatten()),
        class: place.map(|place| place.class),
        deployment,
        created_at: volume.created_at.as_deref().and_then(parse_time),
        mounts: mounts.remove(&volume.name).unwrap_or_default(),
        name: volume.name,
    });
    let mut held: Vec<HeldVolume> = held.collect();
    held.sort_by(|a, b| (&a.deployment, &a.key, &a.name).cmp(&(&b.deployment, &b.key, &b.name)));
    Ok(held)
}

/// Volumes that were made for deployments of this owner.
async fn owned(
    docker: &Docker,
    owner: &Owner,
) -> Result<Vec<(DeploymentName, Volume)>, EngineError> {
    let filters = Some(names::owner_filter(owner));
    let listed = docker.list_volumes(Some(ListVolumesOptions { filters })).await;
    let listed = listed.map_err(engine_error)?.volumes.unwrap_or_default();
    let owned = listed.into_iter().filter_map(|volume| {
        let deployment = DeploymentName::new(volume.labels.get(names::DEPLOYMENT)?).ok()?;
        Some((deployment, volume))
    });
    Ok(owned.collect())
}

/// Which containers of the engine mount which volumes, whoever made them. Those that give access to a volume for a copy of its
/// contents are left out.
async fn mounts(docker: &Docker) -> Result<BTreeMap<String, Vec<VolumeMount>>, EngineError> {
    let options = ListContainersOptions { all: true, ..ListContainersOptions::default() };
    let containers = docker.list_containers(Some(options)).await.map_err(engine_error)?;
    let mut mounts: BTreeMap<String, Vec<VolumeMount>> = BTreeMap::new();
    for container in containers {
        let labels = container.labels.clone().unwrap_or_default();
        if labels.contains_key(volume_access::LABEL) {
            continue;
        }
        let instance = names::identity(&labels).map(|identity| identity.instance);
        for mount in container.mounts.iter().flatten() {
            let Some(name) = &mount.name else { continue };
            let access = access(&container, mount.rw != Some(false));
            let mount = VolumeMount { instance: instance.clone(), access };
            mounts.entry(name.clone()).or_default().push(mount);
        }
    }
    for mounts in mounts.values_mut() {
        mounts.sort_by(|a, b| (&a.instance, a.access).cmp(&(&b.instance, b.access)));
    }
    Ok(mounts)
}

fn access(container: &ContainerSummary, may_write: bool) -> VolumeAccess {
    match container.state {
        Some(
            ContainerSummaryStateEnum::CREATED
            | ContainerSummaryStateEnum::EXITED
            | ContainerSummaryStateEnum::DEAD,
        ) => VolumeAccess::Stopped,
        _ if may_write => VolumeAccess::Writes,
        _ => VolumeAccess::Reads,
    }
}

/// See [`jaco_agent::ContainerEngine::collect_volumes`].
pub(crate) async fn collect(
    host: &VolumeHost,
    collection: &VolumeGc,
) -> Result<Vec<CollectedVolume>, EngineError> {
    let needed = Needed::of(&host.owner, collection);
    let mut left = owned(&host.docker, &host.owner).await?;
    left.retain(|(deployment, volume)| {
        collection.deployment.as_ref().is_none_or(|wanted| wanted == deployment)
            && !needed.has(deployment, &volume.name)
    });
    left.sort_by(|(a_of, a), (b_of, b)| (a_of, &a.name).cmp(&(b_of, &b.name)));
    let mut collected = Vec::new();
    for (deployment, volume) in left {
        let kept = match collection.extent {
            GcMode::Remove => remove(host, &volume).await?,
            GcMode::DryRun => None,
        };
        collected.push(CollectedVolume { deployment, name: volume.name, kept });
    }
    Ok(collected)
}

/// Removes a volume; returns why it was kept, if it was. A missing volume is no error.
async fn remove(host: &VolumeHost, volume: &Volume) -> Result<Option<String>, EngineError> {
    let name = &*volume.name;
    match host.docker.remove_volume(name, None::<RemoveVolumeOptions>).await {
        Ok(()) => {
            tracing::info!(volume = %name, "volume removed");
            match host.remove_folder(volume).await {
                Err(EngineError::Refused { reason }) => {
                    Ok(Some(format!("its folder is not removed: {reason}")))
                }
                removed => removed.map(|()| None),
            }
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
                    needed.names.extend(spec::volumes(owner, deployment, &container).into_values());
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
