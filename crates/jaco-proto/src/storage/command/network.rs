//! Commands about networks of the cluster.

use jaco_state::command::{NetworkBegin, NetworkCreate, NetworkRemove, NetworkResize};

use crate::storage::convert::{Wire, required};
use crate::storage::error::Problem;
use crate::storage::network::{mtu, prefix_length};
use crate::storage::wire;

impl Wire for NetworkBegin {
    type Message = wire::NetworkBegin;

    fn to_wire(&self) -> wire::NetworkBegin {
        let Self { prefix, mtu } = self;
        wire::NetworkBegin { prefix: Some(prefix.to_wire()), mtu: (*mtu).into() }
    }

    fn from_wire(message: wire::NetworkBegin) -> Result<Self, Problem> {
        Ok(Self { prefix: required("prefix", message.prefix)?, mtu: mtu(message.mtu)? })
    }
}

impl Wire for NetworkCreate {
    type Message = wire::NetworkCreate;

    fn to_wire(&self) -> wire::NetworkCreate {
        let Self { name, reach, length } = self;
        let length = length.map(Into::into);
        wire::NetworkCreate { name: name.to_wire(), reach: reach.to_wire(), length }
    }

    fn from_wire(message: wire::NetworkCreate) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            reach: Wire::from_wire(message.reach)?,
            length: message.length.map(prefix_length).transpose()?,
        })
    }
}

impl Wire for NetworkRemove {
    type Message = wire::NetworkRemove;

    fn to_wire(&self) -> wire::NetworkRemove {
        let Self { name } = self;
        wire::NetworkRemove { name: name.to_wire() }
    }

    fn from_wire(message: wire::NetworkRemove) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)? })
    }
}

impl Wire for NetworkResize {
    type Message = wire::NetworkResize;

    fn to_wire(&self) -> wire::NetworkResize {
        let Self { scope, length } = self;
        wire::NetworkResize { scope: Some(scope.to_wire()), length: (*length).into() }
    }

    fn from_wire(message: wire::NetworkResize) -> Result<Self, Problem> {
        Ok(Self {
            scope: required("network", message.scope)?,
            length: prefix_length(message.length)?,
        })
    }
}
