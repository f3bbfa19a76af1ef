//! Published ports, and who has which.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use bytes::Bytes;
use jaco_state::edge::PortClaim;
use jaco_types::port::{ListenAddress, PortRange, ProxyProtocol, Transport};
use jaco_types::{IngressPort, PortKey, Timestamp};

use super::convert::{Wire, ascending, ip_from_wire, ip_to_wire, required, wire_enum};
use super::error::Problem;
use super::observed::port_number;
use super::wire;

wire_enum!(Transport, "transport of a port", [Tcp, Udp]);
wire_enum!(ProxyProtocol, "use of the PROXY protocol", [Off, V2]);

impl Wire for IngressPort {
    type Message = wire::IngressPort;

    fn to_wire(&self) -> wire::IngressPort {
        wire::IngressPort {
            transport: self.transport.to_wire(),
            target: self.target.get().into(),
            first: self.published.first().get().into(),
            last: self.published.last().get().into(),
            address: address_to_wire(self.address),
            proxy_protocol: self.proxy_protocol.to_wire(),
        }
    }

    fn from_wire(message: wire::IngressPort) -> Result<Self, Problem> {
        let what = "published port";
        let (first, last) = (port_number(what, message.first)?, port_number(what, message.last)?);
        Ok(Self {
            transport: Wire::from_wire(message.transport)?,
            target: some_port("port of a container", message.target)?,
            published: PortRange::new(first, last)?,
            address: address_from_wire(&message.address)?,
            proxy_protocol: Wire::from_wire(message.proxy_protocol)?,
        })
    }
}

pub(super) fn ingress_ports(
    messages: Vec<wire::IngressPort>,
) -> Result<BTreeSet<IngressPort>, Problem> {
    let port = |message| Ok((IngressPort::from_wire(message)?, ()));
    let ports = ascending("published ports", messages.into_iter().map(port))?;
    Ok(ports.into_keys().collect())
}

pub(super) fn from_claim(key: PortKey, claim: &PortClaim) -> wire::PortClaim {
    wire::PortClaim {
        transport: key.transport.to_wire(),
        port: key.port.get().into(),
        address: address_to_wire(key.address),
        service: Some(claim.service.to_wire()),
        target: claim.target.get().into(),
        proxy_protocol: claim.proxy_protocol.to_wire(),
        since_ms: claim.since.0,
    }
}

pub(super) fn to_claim(message: wire::PortClaim) -> Result<(PortKey, PortClaim), Problem> {
    let key = PortKey {
        transport: Wire::from_wire(message.transport)?,
        port: some_port("published port", message.port)?,
        address: address_from_wire(&message.address)?,
    };
    let claim = PortClaim {
        service: required("service of a published port", message.service)?,
        target: some_port("port of a container", message.target)?,
        proxy_protocol: Wire::from_wire(message.proxy_protocol)?,
        since: Timestamp(message.since_ms),
    };
    Ok((key, claim))
}

fn some_port(what: &'static str, number: u32) -> Result<NonZeroU16, Problem> {
    let port = NonZeroU16::new(port_number(what, number)?);
    port.ok_or(Problem::OutOfRange { what, value: number.into() })
}

fn address_to_wire(address: Option<ListenAddress>) -> Bytes {
    address.map_or_else(Bytes::new, |address| ip_to_wire(address.get()))
}

fn address_from_wire(bytes: &[u8]) -> Result<Option<ListenAddress>, Problem> {
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(ListenAddress::new(ip_from_wire(bytes)?)?))
}
