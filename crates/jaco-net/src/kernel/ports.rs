//! Ports: pairs of interfaces, one end in the bridge of the container engine, one in the router.

use std::collections::BTreeMap;

use jaco_dataplane::{Found, InterfaceName, Port};
use jaco_types::{Ipv4Prefix, Subnet};

use super::{Kernel, settings};
use crate::error::{NetError, refused};
use crate::netlink::{InterfaceAddress, Link, LinkKind, NewPort};

/// The names of the router's own ends begin so.
const PREFIX: char = 's';

/// Makes ports. One whose bridge is missing does not keep the others from being made.
pub(super) fn add(kernel: &mut Kernel, ports: &[Port]) -> Vec<(InterfaceName, NetError)> {
    let (mut failed, mut new) = (Vec::new(), Vec::new());
    let ends = ports.iter().flat_map(|port| [port.bridge.as_str(), port.bridge_end.as_str()]);
    let found = kernel.outside.links_named(&ends.collect()).map_err(refused("list interfaces"));
    let by_name = match found {
        Ok(links) => links,
        Err(error) => return all_failed(ports, error),
    };
    // Half of a pair may be left where a namespace ended: its other half went with it, but later.
    let stale: Vec<InterfaceName> = ports
        .iter()
        .filter(|port| by_name.contains_key(port.bridge_end.as_str()))
        .map(|port| port.bridge_end.clone())
        .collect();
    if let Err(error) = kernel.outside.remove_links(&stale).map_err(refused("remove old ports")) {
        return all_failed(ports, error);
    }
    for port in ports {
        match by_name.get(port.bridge.as_str()) {
            Some(bridge) => {
                new.push(NewPort { port, bridge: bridge.index, router: &*kernel.namespace });
            }
            None => failed.push((port.interface.clone(), NetError::NoBridge(port.bridge.clone()))),
        }
    }
    let made: Vec<Port> = new.iter().map(|new| new.port.clone()).collect();
    let result = kernel.outside.add_ports(&new).map_err(refused("make ports"));
    if let Err(error) = result.and_then(|()| configure(kernel, &made)) {
        failed.extend(all_failed(&made, error));
    }
    failed
}

/// Where a batch fails, which of its ports it was is not known: all are seen anew.
fn all_failed(ports: &[Port], error: NetError) -> Vec<(InterfaceName, NetError)> {
    let first = ports.first().map(|port| (port.interface.clone(), error));
    first.into_iter().collect()
}

/// The settings come before the address: without an address the router answers nobody.
fn configure(kernel: &mut Kernel, ports: &[Port]) -> Result<(), NetError> {
    let names = ports.iter().map(|port| port.interface.as_str()).collect();
    let links = kernel.inside.links_named(&names).map_err(refused("list interfaces"))?;
    for port in ports {
        settings::write_port(&port.interface)?;
    }
    let indexed: Vec<(&Port, u32)> = ports
        .iter()
        .filter_map(|port| Some((port, links.get(port.interface.as_str())?.index)))
        .collect();
    let up = kernel.inside.set_up(indexed.iter().map(|(port, index)| (*index, port.mtu)));
    up.map_err(refused("set ports up"))?;
    let addresses: Vec<InterfaceAddress> = indexed
        .iter()
        .map(|&(port, index)| {
            let (address, length) = (port.subnet.router(), port.subnet.prefix().length());
            InterfaceAddress { index, address, length }
        })
        .collect();
    kernel.inside.add_addresses(&addresses).map_err(refused("give ports their addresses"))
}

/// The ports that are there.
pub(super) fn found(
    inside: &[Link],
    addresses: &[InterfaceAddress],
    outside: &[Link],
) -> BTreeMap<InterfaceName, Found<Port>> {
    let bridges: BTreeMap<u32, &Link> = outside.iter().map(|link| (link.index, link)).collect();
    let ends: BTreeMap<&str, &Link> =
        outside.iter().map(|link| (link.name.as_str(), link)).collect();
    let mut by_index: BTreeMap<u32, Vec<&InterfaceAddress>> = BTreeMap::new();
    for address in addresses {
        by_index.entry(address.index).or_default().push(address);
    }
    let ports = inside.iter().filter(|link| link.name.starts_with(PREFIX));
    let port = |link: &Link| {
        let interface = InterfaceName::new(&link.name).ok()?;
        let address = by_index.get(&link.index).map(Vec::as_slice);
        let port = sound(link, &interface, address, &ends, &bridges);
        Some((interface, port.map_or(Found::Broken, Found::Sound)))
    };
    ports.filter_map(port).collect()
}

/// The port as it works, or `None` if anything of it is not as we make ports.
fn sound(
    link: &Link,
    interface: &InterfaceName,
    addresses: Option<&[&InterfaceAddress]>,
    ends: &BTreeMap<&str, &Link>,
    bridges: &BTreeMap<u32, &Link>,
) -> Option<Port> {
    let [address] = addresses? else { return None };
    let subnet = subnet_of(address)?;
    let end = ends.get(format!("jr{}", &link.name[PREFIX.len_utf8()..]).as_str())?;
    let bridge = bridges.get(&end.controller?)?;
    let same = link.kind == LinkKind::Veth && link.running && end.running && end.mtu == link.mtu;
    let known = link.address == crate::netlink::hardware_address(subnet.router());
    if !same || !known || !settings::is_port_written(interface) {
        return None;
    }
    Some(Port {
        interface: interface.clone(),
        bridge_end: InterfaceName::new(&end.name).ok()?,
        bridge: InterfaceName::new(&bridge.name).ok()?,
        subnet,
        mtu: u16::try_from(link.mtu).ok()?,
    })
}

/// The subnet that a router's address stands for.
fn subnet_of(address: &InterfaceAddress) -> Option<Subnet> {
    let mask = u32::MAX.checked_shl(32_u32.checked_sub(address.length.into())?)?;
    let first = (u32::from(address.address) & mask).into();
    let subnet = Subnet::new(Ipv4Prefix::new(first, address.length).ok()?).ok()?;
    (subnet.router() == address.address).then_some(subnet)
}
