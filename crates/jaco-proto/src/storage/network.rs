//! Networks of the cluster and their addresses.

use std::net::Ipv4Addr;

use jaco_state::network::{Network, NetworkPool, Quarantine};
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec};
use jaco_types::{
    InstanceAddress, InstanceId, Ipv4Prefix, NetworkId, NetworkName, NetworkReach, NetworkScope,
    NodeId, Subnet, Timestamp,
};

use super::convert::{Wire, ascending, list, required, to_list, wire_enum};
use super::error::Problem;
use super::wire::attachment::Network as Attached;
use super::wire::network_scope::{Kind, Own};
use super::wire::{self};

wire_enum!(NetworkReach, "reach of a network", [Outside, Internal]);

impl Wire for Ipv4Prefix {
    type Message = wire::Ipv4Prefix;

    fn to_wire(&self) -> wire::Ipv4Prefix {
        wire::Ipv4Prefix { address: self.first().to_bits(), length: self.length().into() }
    }

    fn from_wire(message: wire::Ipv4Prefix) -> Result<Self, Problem> {
        Ok(Self::new(Ipv4Addr::from_bits(message.address), prefix_length(message.length)?)?)
    }
}

impl Wire for Subnet {
    type Message = wire::Ipv4Prefix;

    fn to_wire(&self) -> wire::Ipv4Prefix {
        self.prefix().to_wire()
    }

    fn from_wire(message: wire::Ipv4Prefix) -> Result<Self, Problem> {
        Ok(Self::new(Wire::from_wire(message)?)?)
    }
}

impl Wire for NetworkScope {
    type Message = wire::NetworkScope;

    fn to_wire(&self) -> wire::NetworkScope {
        let kind = match self {
            Self::Deployment { deployment, key } => {
                Kind::Own(Own { deployment: deployment.to_wire(), key: key.to_wire() })
            }
            Self::Shared(name) => Kind::Shared(name.to_wire()),
        };
        wire::NetworkScope { kind: Some(kind) }
    }

    fn from_wire(message: wire::NetworkScope) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of network"))? {
            Kind::Own(own) => Self::Deployment {
                deployment: Wire::from_wire(own.deployment)?,
                key: Wire::from_wire(own.key)?,
            },
            Kind::Shared(name) => Self::Shared(Wire::from_wire(name)?),
        })
    }
}

impl Wire for InstanceAddress {
    type Message = wire::InstanceAddress;

    fn to_wire(&self) -> wire::InstanceAddress {
        wire::InstanceAddress { network: self.network.0, address: self.address.to_bits() }
    }

    fn from_wire(message: wire::InstanceAddress) -> Result<Self, Problem> {
        let (network, address) = (NetworkId(message.network), message.address);
        Ok(Self { network, address: Ipv4Addr::from_bits(address) })
    }
}

impl Wire for Attachment {
    type Message = wire::Attachment;

    fn to_wire(&self) -> wire::Attachment {
        let network = match &self.network {
            NetworkRef::Own(key) => Attached::Own(key.to_wire()),
            NetworkRef::Shared(name) => Attached::Shared(name.to_wire()),
        };
        let aliases = self.aliases.iter().map(ToString::to_string).collect();
        wire::Attachment { network: Some(network), aliases }
    }

    fn from_wire(message: wire::Attachment) -> Result<Self, Problem> {
        let network = match message.network.ok_or(Problem::Missing("network of an attachment"))? {
            Attached::Own(key) => NetworkRef::Own(Wire::from_wire(key)?),
            Attached::Shared(name) => NetworkRef::Shared(Wire::from_wire(name)?),
        };
        Ok(Self { network, aliases: message.aliases.into_iter().map(Into::into).collect() })
    }
}

impl Wire for NetworkPool {
    type Message = wire::NetworkPool;

    fn to_wire(&self) -> wire::NetworkPool {
        wire::NetworkPool {
            prefix: Some(self.prefix.to_wire()),
            mtu: self.mtu.into(),
            next_network: self.next_network,
            next_subnet: self.next_subnet.to_bits(),
            next_mesh: self.next_mesh.to_bits(),
        }
    }

    fn from_wire(message: wire::NetworkPool) -> Result<Self, Problem> {
        let pool = Self::new(required("prefix", message.prefix)?, mtu(message.mtu)?)?;
        Ok(Self {
            next_network: message.next_network,
            next_subnet: Ipv4Addr::from_bits(message.next_subnet),
            next_mesh: Ipv4Addr::from_bits(message.next_mesh),
            ..pool
        })
    }
}

impl Wire for Network {
    type Message = wire::Network;

    fn to_wire(&self) -> wire::Network {
        let taken = self.taken.iter().map(|(address, holder)| wire::TakenAddress {
            address: address.to_bits(),
            holder: Some(holder.to_wire()),
        });
        wire::Network {
            id: self.id.0,
            scope: Some(self.scope.to_wire()),
            reach: self.reach.to_wire(),
            subnet: Some(self.subnet.to_wire()),
            cursor: self.cursor,
            taken: taken.collect(),
        }
    }

    fn from_wire(message: wire::Network) -> Result<Self, Problem> {
        let taken = message.taken.into_iter().map(|row: wire::TakenAddress| {
            Ok((Ipv4Addr::from_bits(row.address), required("holder", row.holder)?))
        });
        Ok(Self {
            id: NetworkId(message.id),
            scope: required("scope", message.scope)?,
            reach: Wire::from_wire(message.reach)?,
            subnet: required("subnet", message.subnet)?,
            cursor: message.cursor,
            taken: ascending("taken addresses", taken)?,
        })
    }
}

pub(super) fn from_quarantine(id: &InstanceId, row: &Quarantine) -> wire::AddressQuarantine {
    wire::AddressQuarantine {
        instance: Some(id.to_wire()),
        node: row.node.0,
        addresses: to_list(&row.addresses),
        until_ms: row.until.map(|until| until.0),
    }
}

pub(super) fn to_quarantine(
    message: wire::AddressQuarantine,
) -> Result<(InstanceId, Quarantine), Problem> {
    let quarantine = Quarantine {
        node: NodeId(message.node),
        addresses: list(message.addresses)?,
        until: message.until_ms.map(Timestamp),
    };
    Ok((required("instance", message.instance)?, quarantine))
}

pub(super) fn to_deployment_network(
    (key, network): (&NetworkName, &NetworkSpec),
) -> wire::DeploymentNetwork {
    wire::DeploymentNetwork {
        key: key.to_wire(),
        reach: network.reach.to_wire(),
        length: network.length.map(Into::into),
    }
}

pub(super) fn from_deployment_network(
    message: wire::DeploymentNetwork,
) -> Result<(NetworkName, NetworkSpec), Problem> {
    let length = message.length.map(prefix_length).transpose()?;
    let network = NetworkSpec { reach: Wire::from_wire(message.reach)?, length };
    Ok((Wire::from_wire(message.key)?, network))
}

pub(super) fn prefix_length(length: u32) -> Result<u8, Problem> {
    let out_of_range = |_| Problem::OutOfRange { what: "prefix length", value: length.into() };
    u8::try_from(length).map_err(out_of_range)
}

pub(super) fn mtu(mtu: u32) -> Result<u16, Problem> {
    u16::try_from(mtu).map_err(|_| Problem::OutOfRange { what: "MTU", value: mtu.into() })
}
