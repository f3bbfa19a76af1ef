//! Commands about networks of the cluster.

use jaco_types::{Ipv4Prefix, NetworkName, NetworkReach, NetworkScope};

/// Makes networks the cluster's: from now on deployments have networks with one subnet on all nodes.
/// Proposed once, when all members understand it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkBegin {
    /// Where subnets come from.
    pub prefix: Ipv4Prefix,
    /// The MTU of containers.
    pub mtu: u16,
}

impl NetworkBegin {
    /// Creates the command.
    #[must_use]
    pub fn new(prefix: Ipv4Prefix, mtu: u16) -> Self {
        Self { prefix, mtu }
    }
}

/// Creates a shared network, which deployments name as external.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkCreate {
    /// Its name.
    pub name: NetworkName,
    /// What its members reach besides each other.
    pub reach: NetworkReach,
    /// The prefix length of its subnet; the default without.
    pub length: Option<u8>,
}

impl NetworkCreate {
    /// Creates the command, with every option at its default.
    #[must_use]
    pub fn new(name: NetworkName) -> Self {
        Self { name, reach: NetworkReach::Outside, length: None }
    }

    /// Sets [`Self::reach`].
    #[must_use]
    pub fn reach(mut self, reach: NetworkReach) -> Self {
        self.reach = reach;
        self
    }

    /// Sets [`Self::length`].
    #[must_use]
    pub fn length(mut self, length: Option<u8>) -> Self {
        self.length = length;
        self
    }
}

/// Removes a shared network that nothing is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRemove {
    /// Its name.
    pub name: NetworkName,
}

impl NetworkRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(name: NetworkName) -> Self {
        Self { name }
    }
}

/// Gives a network that nothing is attached to a subnet of another size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkResize {
    /// The network.
    pub scope: NetworkScope,
    /// The prefix length of its new subnet.
    pub length: u8,
}

impl NetworkResize {
    /// Creates the command.
    #[must_use]
    pub fn new(scope: NetworkScope, length: u8) -> Self {
        Self { scope, length }
    }
}
