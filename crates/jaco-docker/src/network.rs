//! Networks of this node's deployments: created when first needed, kept while in use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bollard::Docker;
use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::{InspectNetworkOptions, ListNetworksOptions};
use jaco_agent::engine::{EngineError, Owner, StartError};
use jaco_types::DeploymentName;
use tokio::sync::OnceCell;

use crate::error::{NOT_FOUND, engine_error, status};
use crate::names;
use crate::spec::{NeededNetwork, NetworkOrigin, NetworkReach};

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

    /// Removes networks of other deployments than those in `keep`.
    pub(crate) async fn remove_unused(
        &self,
        docker: &Docker,
        owner: &Owner,
        keep: &BTreeSet<DeploymentName>,
    ) -> Result<(), EngineError> {
        let filters = Some(names::owner_filter(owner));
        let listed = docker.list_networks(Some(ListNetworksOptions { filters })).await;
        for network in listed.map_err(engine_error)? {
            let label = network.labels.as_ref().and_then(|labels| labels.get(names::DEPLOYMENT));
            let kept = label.is_some_and(|label| keep.iter().any(|name| name.as_str() == label));
            let (Some(name), false) = (network.name, kept) else { continue };
            self.forget(&name);
            match docker.remove_network(&name).await {
                Ok(()) => tracing::info!(network = %name, "network removed"),
                // Still in use, or already gone.
                Err(error) if status(&error).is_some() => {
                    tracing::debug!(network = %name, %error, "network kept");
                }
                Err(error) => return Err(engine_error(error)),
            }
        }
        Ok(())
    }
}

async fn find_or_create(
    docker: &Docker,
    owner: &Owner,
    deployment: &DeploymentName,
    network: &NeededNetwork,
) -> Result<(), StartError> {
    let name = &network.name;
    match docker.inspect_network(name, None::<InspectNetworkOptions>).await {
        Ok(_) => return Ok(()),
        Err(error) if status(&error) == Some(NOT_FOUND) => {}
        Err(error) => return Err(engine_error(error).into()),
    }
    if network.origin == NetworkOrigin::External {
        let reason = format!("the external network {name:?} is not on this node");
        return Err(StartError::Refused { reason });
    }
    let request = NetworkCreateRequest {
        name: name.clone(),
        driver: Some("bridge".to_owned()),
        internal: Some(network.reach == NetworkReach::Internal),
        labels: Some(names::deployment_labels(owner, deployment)),
        ..NetworkCreateRequest::default()
    };
    match docker.create_network(request).await {
        Ok(_) => {
            tracing::info!(network = %name, "network created");
            Ok(())
        }
        Err(error) => Err(refusal(name, engine_error(error))),
    }
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
