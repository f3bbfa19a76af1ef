//! Stores fake containers on disk, so that they survive the daemon as real ones do.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use jaco_types::{
    BlobDigest, DeploymentName, Exit, InstanceId, InvalidName, Millis, NetworkId, NetworkReach,
    NetworkScope, ReplicaId, ServiceKey, ServiceName, SpecHash, StateIndex, Subnet, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::host::{FakeContainer, FakeHost, container_id};
use super::script::{Behaviour, ImageCheck, ImageScript, SpecKeys};
use crate::engine::{AttachedNetwork, ContainerRequest, Health, MountedFiles};

#[derive(Debug, Serialize, Deserialize)]
struct HostRecord {
    made: u64,
    images: Vec<String>,
    /// Layers of pushed images.
    #[serde(default)]
    layers: Vec<String>,
    /// Volumes by name, with their deployments.
    #[serde(default)]
    volumes: BTreeMap<String, String>,
    containers: BTreeMap<String, ContainerRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ContainerRecord {
    replica: String,
    raft_index: u64,
    deployment: String,
    service: String,
    image: String,
    container: String,
    spec_hash: String,
    started_at: u64,
    stop_asked_at: Option<u64>,
    killed: Option<ExitRecord>,
    /// Output of a healthcheck that was forced to fail.
    unhealthy: Option<String>,
    stop_takes: u64,
    #[serde(default)]
    pre_stop_takes: u64,
    #[serde(default)]
    image_checked: bool,
    healthy_after: u64,
    unhealthy_after: Option<u64>,
    exit: Option<ExitRecord>,
    #[serde(default)]
    networks: Vec<NetworkRecord>,
}

/// A network of the cluster, with the container's address in it.
#[derive(Debug, Serialize, Deserialize)]
struct NetworkRecord {
    id: u32,
    name: String,
    subnet: String,
    internal: bool,
    mtu: u16,
    address: Ipv4Addr,
}

#[derive(Debug, Serialize, Deserialize)]
struct ExitRecord {
    at: u64,
    code: i64,
    out_of_memory: bool,
}

/// Writes the host's images and containers atomically.
pub(super) fn save(host: &FakeHost, path: &Path) -> io::Result<()> {
    let present = host.images.iter().filter(|(_, script)| **script == ImageScript::Present);
    let containers =
        host.containers.iter().map(|(id, container)| (id.to_string(), write(container)));
    let volumes = host.volumes.iter().map(|(name, of)| (name.clone(), of.to_string()));
    let record = HostRecord {
        volumes: volumes.collect(),
        made: host.made,
        images: present.map(|(image, _)| image.clone()).collect(),
        layers: host.layers.iter().map(ToString::to_string).collect(),
        containers: containers.collect(),
    };
    let draft = path.with_extension("draft");
    fs::write(&draft, serde_json::to_vec_pretty(&record)?)?;
    fs::rename(&draft, path)
}

/// Reads them; a missing file is an empty host.
pub(super) fn load(host: &mut FakeHost, path: &Path) -> io::Result<()> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let record: HostRecord = serde_json::from_slice(&bytes)?;
    host.made = record.made;
    for image in record.images {
        host.images.insert(image, ImageScript::Present);
    }
    host.layers = record.layers.iter().filter_map(|layer| BlobDigest::parse(layer)).collect();
    for (name, deployment) in record.volumes {
        let deployment = DeploymentName::new(&deployment).map_err(io::Error::other)?;
        host.volumes.insert(name, deployment);
    }
    for (id, container) in record.containers {
        let container = read(container).map_err(io::Error::other)?;
        let networks = container.request.networks.iter();
        host.cluster_networks.extend(networks.map(|network| (network.id, network.subnet)));
        host.containers.insert(container_id(&id), container);
    }
    Ok(())
}

fn write(container: &FakeContainer) -> ContainerRecord {
    let FakeContainer { request, behaviour, .. } = container;
    let unhealthy = match &container.forced_health {
        Some(Health::Unhealthy { output }) => Some(output.clone()),
        Some(Health::None | Health::Starting | Health::Healthy) | None => None,
    };
    let exit_record =
        |at: u64, exit: Exit| ExitRecord { at, code: exit.code, out_of_memory: exit.out_of_memory };
    ContainerRecord {
        replica: request.instance.replica.to_string(),
        raft_index: request.instance.raft_index.0,
        deployment: request.service.deployment.to_string(),
        service: request.service.service.to_string(),
        image: request.image.to_string(),
        container: request.container.to_string(),
        spec_hash: request.spec_hash.to_string(),
        started_at: container.started_at.0,
        stop_asked_at: container.stop_asked_at.map(|at| at.0),
        killed: container.killed.map(|(at, exit)| exit_record(at.0, exit)),
        unhealthy,
        stop_takes: behaviour.stop_takes.0,
        pre_stop_takes: behaviour.pre_stop_takes.0,
        image_checked: behaviour.image_check == ImageCheck::Present,
        healthy_after: behaviour.healthy_after.0,
        unhealthy_after: behaviour.unhealthy_after.map(|after| after.0),
        exit: behaviour.exit.map(|(after, exit)| exit_record(after.0, exit)),
        networks: request.networks.iter().map(write_network).collect(),
    }
}

fn write_network(network: &AttachedNetwork) -> NetworkRecord {
    NetworkRecord {
        id: network.id.0,
        name: network.scope.to_string(),
        subnet: network.subnet.prefix().to_string(),
        internal: network.reach == NetworkReach::Internal,
        mtu: network.mtu,
        address: network.address,
    }
}

fn read_network(record: &NetworkRecord) -> Result<AttachedNetwork, InvalidName> {
    let reach = if record.internal { NetworkReach::Internal } else { NetworkReach::Outside };
    Ok(AttachedNetwork {
        id: NetworkId(record.id),
        scope: NetworkScope::parse(&record.name)?,
        subnet: Subnet::new(record.subnet.parse()?)?,
        reach,
        mtu: record.mtu,
        address: record.address,
    })
}

fn read(record: ContainerRecord) -> Result<FakeContainer, InvalidName> {
    let mut hash = [0; 32];
    // An unreadable hash differs from every other: the container is not the desired one.
    let _unreadable = hex::decode_to_slice(&record.spec_hash, &mut hash);
    let exit =
        |record: &ExitRecord| Exit { code: record.code, out_of_memory: record.out_of_memory };
    let request = ContainerRequest {
        instance: InstanceId {
            replica: ReplicaId::parse(&record.replica)?,
            raft_index: StateIndex(record.raft_index),
        },
        service: ServiceKey {
            deployment: DeploymentName::new(&record.deployment)?,
            service: ServiceName::new(&record.service)?,
        },
        image: record.image.into(),
        container: record.container.into(),
        spec_hash: SpecHash(hash),
        files: MountedFiles::default(),
        gpus: Vec::new(),
        networks: record.networks.iter().map(read_network).collect::<Result<_, _>>()?,
    };
    let behaviour = Behaviour {
        start_takes: Millis(0),
        stop_takes: Millis(record.stop_takes),
        pre_stop_takes: Millis(record.pre_stop_takes),
        image_check: match record.image_checked {
            true => ImageCheck::Present,
            false => ImageCheck::None,
        },
        healthy_after: Millis(record.healthy_after),
        unhealthy_after: record.unhealthy_after.map(Millis),
        exit: record.exit.as_ref().map(|record| (Millis(record.at), exit(record))),
        refuse: None,
    };
    Ok(FakeContainer {
        keys: SpecKeys::read(&request.container),
        request,
        started_at: Timestamp(record.started_at),
        stop_asked_at: record.stop_asked_at.map(Timestamp),
        killed: record.killed.as_ref().map(|record| (Timestamp(record.at), exit(record))),
        forced_health: record.unhealthy.map(|output| Health::Unhealthy { output }),
        behaviour,
    })
}
