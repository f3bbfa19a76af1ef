//! What a network between containers is made of, and how a service is attached to it, as plain data.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// A network that services of the deployment are attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFacts {
    /// Whose it is, which is also what it is found by.
    pub owner: NetworkOwner,
    /// What its members reach besides each other.
    pub reach: NetworkReach,
    /// The largest packet in bytes, from 576; `None` is the cluster's choice.
    pub mtu: Option<u16>,
    /// The prefix length of the IPv4 subnet that the file asks for, from 8 to 29; `None` is the cluster's choice.
    pub prefix_length: Option<u8>,
}

/// Whose a network is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkOwner {
    /// The deployment's alone, under its key in the compose file.
    Deployment,
    /// Of all deployments that give a network this `name`.
    Name(String),
    /// The cluster's, which has it under this name before the deployment is applied (`external: true`).
    Cluster(String),
}

/// What the members of a network reach besides each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkReach {
    /// Whatever their node reaches.
    Outside,
    /// Nothing (`internal: true`).
    Internal,
}

/// How a service is attached to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAttachment {
    /// The key of the network, of [`crate::Resolved::networks`].
    pub network: String,
    /// The names that the service has there only, beside [`super::Facts::names`]: its `aliases`, and those that
    /// links of other services give it.
    pub aliases: BTreeSet<String>,
}

/// Name resolution in the containers of a service, beside the names of the deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// The servers to ask instead of the node's, in order.
    pub servers: Vec<IpAddr>,
    /// The domains in which short names are searched for, in order.
    pub search: Vec<String>,
    /// Options of the resolver, such as `ndots:2`.
    pub options: Vec<String>,
}
