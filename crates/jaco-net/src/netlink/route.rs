//! Addresses of interfaces, and routes.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::socket::{Missing, Socket};

/// An IPv4 address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    pub(crate) index: u32,
    pub(crate) address: Ipv4Addr,
    pub(crate) length: u8,
}

/// A route to one address, out of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) index: u32,
    pub(crate) destination: Ipv4Addr,
}

impl Socket {
    /// The IPv4 addresses of all interfaces.
    pub(crate) fn addresses(&mut self) -> io::Result<Vec<InterfaceAddress>> {
        let mut request = AddressMessage::default();
        request.header.family = AddressFamily::Inet;
        let found = self.dump(RouteNetlinkMessage::GetAddress(request), 0)?;
        Ok(found.iter().filter_map(address).collect())
    }

    /// Gives addresses to interfaces that may have them already.
    pub(crate) fn add_addresses(&mut self, addresses: &[InterfaceAddress]) -> io::Result<()> {
        let messages = addresses.iter().map(|new| {
            let mut message = AddressMessage::default();
            message.header.family = AddressFamily::Inet;
            message.header.prefix_len = new.length;
            message.header.index = new.index;
            let address = IpAddr::V4(new.address);
            message.attributes =
                vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
            RouteNetlinkMessage::NewAddress(message)
        });
        self.request(messages, NLM_F_CREATE | NLM_F_REPLACE, Missing::Error)
    }

    /// The routes to single addresses that were made by [`Socket::add_routes`].
    pub(crate) fn routes(&mut self) -> io::Result<Vec<Route>> {
        let mut request = RouteMessage::default();
        request.header.address_family = AddressFamily::Inet;
        let found = self.dump(RouteNetlinkMessage::GetRoute(request), 0)?;
        Ok(found.iter().filter_map(route).collect())
    }

    /// Makes routes, or leads those that are there out of the given interface.
    pub(crate) fn add_routes(&mut self, routes: impl Iterator<Item = Route>) -> io::Result<()> {
        let messages = routes.map(|route| RouteNetlinkMessage::NewRoute(message(route)));
        self.request(messages, NLM_F_CREATE | NLM_F_REPLACE, Missing::Error)
    }

    /// Removes routes that may be gone already.
    pub(crate) fn remove_routes(&mut self, routes: impl Iterator<Item = Route>) -> io::Result<()> {
        let messages = routes.map(|route| RouteNetlinkMessage::DelRoute(message(route)));
        self.request(messages, 0, Missing::Ignore)
    }
}

fn message(route: Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: 32,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Link,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(route.destination)),
        RouteAttribute::Oif(route.index),
    ];
    message
}

fn route(message: &RouteNetlinkMessage) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(message) = message else { return None };
    let header = &message.header;
    let ours = header.destination_prefix_length == 32
        && header.table == RouteHeader::RT_TABLE_MAIN
        && header.protocol == RouteProtocol::Static;
    let (mut destination, mut index) = (None, None);
    for attribute in message.attributes.iter().filter(|_| ours) {
        if let RouteAttribute::Destination(RouteAddress::Inet(address)) = attribute {
            destination = Some(*address);
        } else if let RouteAttribute::Oif(oif) = attribute {
            index = Some(*oif);
        }
    }
    Some(Route { index: index?, destination: destination? })
}

fn address(message: &RouteNetlinkMessage) -> Option<InterfaceAddress> {
    let RouteNetlinkMessage::NewAddress(message) = message else { return None };
    let local = message.attributes.iter().find_map(|attribute| {
        if let AddressAttribute::Local(IpAddr::V4(address)) = attribute {
            Some(*address)
        } else {
            None
        }
    });
    let (index, length) = (message.header.index, message.header.prefix_len);
    Some(InterfaceAddress { index, address: local?, length })
}
