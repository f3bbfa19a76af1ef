//! Connections to ports of a container, from the node: to its addresses on the engine's bridges, which the node is
//! attached to itself.

use std::time::Duration;

use bollard::Docker;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;
use jaco_agent::engine::{ContainerId, EngineError};
use jaco_agent::transfer::BoxConnection;
use tokio::net::TcpStream;

use crate::error::engine_error;

/// Deadline of a connection on the same machine: only one whose packets are dropped exceeds it.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// See [`jaco_agent::ContainerEngine::connect`].
pub(crate) async fn connect(
    docker: &Docker,
    container: &ContainerId,
    port: u16,
) -> Result<BoxConnection, EngineError> {
    let refused = |reason: String| EngineError::Refused { reason };
    let addresses = match shared(docker, &container.0).await? {
        Network::Own(addresses) => addresses,
        Network::Host => vec!["127.0.0.1".to_owned()],
    };
    let mut failures = Vec::new();
    for address in addresses {
        let connecting = TcpStream::connect((address.as_str(), port));
        match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(Ok(stream)) => {
                // What is forwarded is often typed.
                stream.set_nodelay(true).ok();
                return Ok(Box::new(stream));
            }
            Ok(Err(error)) => failures.push(format!("{address}:{port}: {error}")),
            Err(_) => failures.push(format!("{address}:{port}: no answer in {CONNECT_LIMIT:?}")),
        }
    }
    match failures.is_empty() {
        true => Err(refused("the container has no network".to_owned())),
        false => Err(refused(failures.join(", "))),
    }
}

/// The network that a container listens in.
enum Network {
    /// One with these addresses; none without a network.
    Own(Vec<String>),
    /// That of the node.
    Host,
}

/// The network of a container, or of the one whose network it shares.
async fn shared(docker: &Docker, container: &str) -> Result<Network, EngineError> {
    let inspect = async |id: &str| {
        let found = docker.inspect_container(id, None::<InspectContainerOptions>).await;
        found.map_err(engine_error)
    };
    let own = inspect(container).await?;
    match mode(&own).strip_prefix("container:") {
        // Of a container that shares one as well Docker takes the last.
        Some(other) => Ok(network(&inspect(other).await?)),
        None => Ok(network(&own)),
    }
}

fn network(container: &ContainerInspectResponse) -> Network {
    if mode(container) == "host" {
        return Network::Host;
    }
    let settings = container.network_settings.as_ref();
    let networks = settings.and_then(|settings| settings.networks.as_ref());
    let mut all: Vec<_> = networks.into_iter().flatten().collect();
    all.sort_by_key(|(name, _)| name.as_str());
    let addresses = all.into_iter().filter_map(|(_, endpoint)| endpoint.ip_address.clone());
    Network::Own(addresses.filter(|address| !address.is_empty()).collect())
}

fn mode(container: &ContainerInspectResponse) -> &str {
    let host = container.host_config.as_ref();
    host.and_then(|host| host.network_mode.as_deref()).unwrap_or_default()
}
