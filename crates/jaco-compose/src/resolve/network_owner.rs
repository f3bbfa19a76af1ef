//! Whose a declared network is. Reads its node alone.

use crate::facts::NetworkOwner;
use crate::yaml::node::Node;

/// Whose a declared network is.
pub(super) fn owner(deployment: &str, key: &str, network: &Node) -> NetworkOwner {
    let name = network.get_str("name").unwrap_or(key).to_owned();
    if is_on(network, "external") {
        NetworkOwner::Cluster(name)
    } else if name == format!("{deployment}_{key}") {
        NetworkOwner::Deployment
    } else {
        NetworkOwner::Name(name)
    }
}

/// Whether a flag of a network is set.
pub(super) fn is_on(network: &Node, key: &str) -> bool {
    network.get(key).and_then(Node::as_bool) == Some(true)
}
