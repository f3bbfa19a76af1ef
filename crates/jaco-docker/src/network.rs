//! Networks of this node's deployments, and those of the cluster on this node: created when first needed,
//! kept while in use.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::Docker;
use bollard::models::{Ipam, IpamConfig, Network, NetworkCreateRequest, NetworkInspect};
use bollard::query_parameters::{InspectNetworkOptions, ListNetworksOptions};
use jaco_agent::engine::{AttachedNetwork, EngineError, KeptNetworks, Owner, StartError};
use jaco_types::{DeploymentName, NetworkId};
use tokio::sync::OnceCell;

use crate::error::{NOT_FOUND, engine_error, status};
use crate::names;
use crate::spec::{NeededNetwork, NetworkOrigin, NetworkReach};

/// How often a network is looked for whose subnet is taken: another node that shares the engine may be making it.
const LOOKS: u32 = 20;

/// Between two such looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Networks known to exist.
///
/// Network names are not unique in Docker: two concurrent requests create two networks. So the
/// first caller looks and creates, and the others wait.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    known: Mutex<BTreeMap<String, Arc<OnceCell<()>>>>,
}

impl Networks {
    /// Ensures that the network exists.
    pub(crate) async fn ensure(
        &self,
        docker: &Docker,
        owner: &Owner,
        deployment: &DeploymentName,
        network: &NeededNetwork,
    ) -> Result<(), StartError> {
        let cell = {
            let mut known = self.known.lock().expect("no holder of the lock panics");
            Arc::clone(known.entry(network.name.clone()).or_default())
        };
        cell.get_or_try_init(|| find_or_create(docker, owner, deployment, network)).await?;
        Ok(())
    }

    /// Drops the cached knowledge of this network.
    pub(crate) fn forget(&self, name: &str) {
        self.known.lock().expect("no holder of the lock panics").remove(name);
    }

    /// Removes networks that are not in `keep`.
    pub(crate) async fn remove_unused(
        &self,
        docker: &Docker,
        owner: &Owner,
        keep: &KeptNetworks,
    ) -> Result<(), EngineError> {
        let is_kept = |label: Option<&String>, keeps: &dyn Fn(&str) -> bool| {
            label.is_some_and(|label| keeps(label))
        };
        let deployments = |label: &str| keep.deployments.iter().any(|name| name.as_str() == label);
        for network in list(docker, names::owner_filter(owner)).await? {
            let labels = network.labels.unwrap_or_default();
            if !is_kept(labels.get(names::DEPLOYMENT), &deployments) {
                self.remove(docker, network.name).await?;
            }
        }
        let cluster =
            |label: &str| label.parse().is_ok_and(|id| keep.cluster.contains(&NetworkId(id)));
        for network in list(docker, names::cluster_network_filter(owner)).await? {
            let labels = network.labels.unwrap_or_default();
            if !is_kept(labels.get(names::NETWORK_ID), &cluster) {
                self.remove(docker, network.name).await?;
            }
        }
        Ok(())
    }

    /// Removes a network, unless it is in use.
    async fn remove(&self, docker: &Docker, name: Option<String>) -> Result<(), EngineError> {
        let Some(name) = name else { return Ok(()) };
        self.forget(&name);
        match docker.remove_network(&name).await {
            Ok(()) => tracing::info!(network = %name, "network removed"),
            // Still in use, or already gone.
            Err(error) if status(&error).is_some() => {
                tracing::debug!(network = %name, %error, "network kept");
            }
            Err(error) => return Err(engine_error(error)),
        }
        Ok(())
    }
}

async fn list(
    docker: &Docker,
    filters: HashMap<String, Vec<String>>,
) -> Result<Vec<Network>, EngineError> {
    let options = ListNetworksOptions { filters: Some(filters) };
    docker.list_networks(Some(options)).await.map_err(engine_error)
}

async fn find_or_create(
    docker: &Docker,
    owner: &Owner,
    deployment: &DeploymentName,
    network: &NeededNetwork,
) -> Result<(), StartError> {
    let name = &network.name;
    let request = match &network.origin {
        NetworkOrigin::External | NetworkOrigin::Node => {
            if find(docker, name).await?.is_some() {
                return Ok(());
            }
            if network.origin == NetworkOrigin::External {
                let reason = format!("the external network {name:?} is not on this node");
                return Err(StartError::Refused { reason });
            }
            NetworkCreateRequest {
                name: name.clone(),
                driver: Some("bridge".to_owned()),
                internal: Some(network.reach == NetworkReach::Internal),
                labels: Some(names::deployment_labels(owner, deployment)),
                ..NetworkCreateRequest::default()
            }
        }
        NetworkOrigin::Cluster(attached) => {
            return ensure_cluster_network(docker, owner, network, attached).await;
        }
    };
    match docker.create_network(request).await {
        Ok(_) => {
            tracing::info!(network = %name, "network created");
            Ok(())
        }
        Err(error) => Err(refusal(name, engine_error(error))),
    }
}

async fn find(docker: &Docker, name: &str) -> Result<Option<NetworkInspect>, EngineError> {
    match docker.inspect_network(name, None::<InspectNetworkOptions>).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
        Err(error) => Err(engine_error(error)),
    }
}

/// Creates a network of the cluster unless it is there. Another node that shares the engine may do so at
/// the same time: the engine takes the subnet once, and the one that comes second finds it.
async fn ensure_cluster_network(
    docker: &Docker,
    owner: &Owner,
    network: &NeededNetwork,
    attached: &AttachedNetwork,
) -> Result<(), StartError> {
    let name = &network.name;
    let in_use = |reason: String| StartError::SubnetInUse {
        network: attached.scope.to_string(),
        subnet: attached.subnet.prefix().to_string(),
        reason,
    };
    if let Some(found) = find(docker, name).await? {
        return is_of_cluster(owner, attached, &found).map_err(in_use);
    }
    match docker.create_network(cluster_network(owner, network, attached)).await {
        Ok(_) => {
            tracing::info!(network = %name, subnet = %attached.subnet.prefix(), "network created");
            Ok(())
        }
        Err(error) => {
            let error = engine_error(error);
            let is_taken = matches!(&error, EngineError::Refused { reason } if is_overlap(reason));
            // The engine knows the subnet of the other node's request a moment before the network's name.
            let looks = if is_taken { LOOKS } else { 1 };
            for look in 0..looks {
                if let Some(found) = find(docker, name).await? {
                    return is_of_cluster(owner, attached, &found).map_err(in_use);
                }
                if look + 1 < looks {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
            match error {
                EngineError::Refused { reason } if is_taken => Err(in_use(reason)),
                other @ (EngineError::Refused { .. } | EngineError::Unreachable { .. }) => {
                    Err(other.into())
                }
            }
        }
    }
}

/// The network as the router of the node expects it: the engine has the first address, the router the second,
/// which no container may get.
fn cluster_network(
    owner: &Owner,
    network: &NeededNetwork,
    attached: &AttachedNetwork,
) -> NetworkCreateRequest {
    let subnet = attached.subnet;
    let router = HashMap::from([("router".to_owned(), subnet.router().to_string())]);
    let range = IpamConfig {
        subnet: Some(subnet.prefix().to_string()),
        gateway: Some(subnet.gateway().to_string()),
        auxiliary_addresses: Some(router),
        ..IpamConfig::default()
    };
    let options = [
        ("com.docker.network.bridge.name", attached.id.bridge()),
        ("com.docker.network.driver.mtu", attached.mtu.to_string()),
    ];
    NetworkCreateRequest {
        name: network.name.clone(),
        driver: Some("bridge".to_owned()),
        internal: Some(network.reach == NetworkReach::Internal),
        ipam: Some(Ipam { config: Some(vec![range]), ..Ipam::default() }),
        options: Some(options.map(|(key, value)| (key.to_owned(), value)).into()),
        labels: Some(names::cluster_network_labels(owner, attached.id, &attached.scope)),
        ..NetworkCreateRequest::default()
    }
}

/// Whether the network that was found under the name is the one of this cluster, with its subnet.
fn is_of_cluster(
    owner: &Owner,
    attached: &AttachedNetwork,
    found: &NetworkInspect,
) -> Result<(), String> {
    let wanted = names::cluster_network_labels(owner, attached.id, &attached.scope);
    let is_ours = found.labels.as_ref().is_some_and(|labels| {
        [names::CLUSTER, names::NETWORK_ID].iter().all(|key| labels.get(*key) == wanted.get(*key))
    });
    let ranges = found.ipam.iter().flat_map(|ipam| ipam.config.iter().flatten());
    let subnets: Vec<&str> = ranges.filter_map(|range| range.subnet.as_deref()).collect();
    if is_ours && subnets == [attached.subnet.prefix().to_string()] {
        return Ok(());
    }
    let name = found.name.as_deref().unwrap_or_default();
    Err(format!("network {name} with subnet {} is not the cluster's", subnets.join(", ")))
}

/// Another network has an address of the subnet, or the name of the bridge. The message differs between
/// versions.
fn is_overlap(reason: &str) -> bool {
    const OVERLAPS: [&str; 4] =
        ["Pool overlaps", "overlapping IPv4", "same bridge name", "conflicts with network"];
    OVERLAPS.iter().any(|words| reason.contains(words))
}

/// Docker has about thirty address ranges unless configured otherwise. The message differs between
/// versions.
fn refusal(name: &str, error: EngineError) -> StartError {
    const EXHAUSTED: [&str; 3] =
        ["non-overlapping IPv4 address pool", "fully subnetted", "no available network"];
    if let EngineError::Refused { reason } = &error
        && EXHAUSTED.iter().any(|words| reason.contains(words))
    {
        return StartError::AddressPoolExhausted { network: name.to_owned() };
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of Docker 20.10 and Docker 28.
    #[test]
    fn overlapping_subnets_are_recognised() {
        for reason in [
            "Pool overlaps with other one on this address space",
            "invalid pool request: Pool overlaps with other one on this address space",
            "cannot create network 12 (jn1): conflicts with network 34 (jn1): networks have same bridge \
             name",
            "cannot create network 12 (jn2): conflicts with network 34 (br-34): networks have overlapping \
             IPv4",
        ] {
            assert!(is_overlap(reason), "{reason}");
        }
        assert!(!is_overlap("network with name n already exists"));
    }

    /// Messages of Docker 20.10 and Docker 28.
    #[test]
    fn exhausted_address_pools_are_recognised() {
        let says = |reason: &str| refusal("n", EngineError::Refused { reason: reason.to_owned() });
        let exhausted = StartError::AddressPoolExhausted { network: "n".to_owned() };
        assert_eq!(
            says(
                "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"
            ),
            exhausted
        );
        assert_eq!(says("all predefined address pools have been fully subnetted"), exhausted);
        assert_ne!(says("network with name n already exists"), exhausted);
    }
}
