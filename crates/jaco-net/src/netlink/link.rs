//! Network interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use jaco_dataplane::{InterfaceName, Port};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};

use super::socket::{Missing, Socket};

/// The smallest MTU of an interface with IPv6, in bytes.
const IPV6_MTU_MIN: u16 = 1280;

/// So many interfaces are asked for one by one.
const NAMES: usize = 16;

/// Queues of each end of a port. The kernel uses one of a pair whatever it has; where it is not asked for one, it makes
/// as many as there are processors and gives the others up again, which waits for all of these.
const QUEUES: u32 = 1;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) kind: LinkKind,
    /// Whether it is set up.
    pub(crate) up: bool,
    /// Whether it is set up, and so is its other end.
    pub(crate) running: bool,
    pub(crate) mtu: u32,
    /// The bridge that it is a port of.
    pub(crate) controller: Option<u32>,
    pub(crate) address: Vec<u8>,
}

/// Kinds of interfaces that the router has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkKind {
    Veth,
    Tun,
    WireGuard,
    Other,
}

/// A port to be made: its plan, and where its ends go.
#[derive(Debug)]
pub(crate) struct NewPort<'a, Fd: AsFd> {
    pub(crate) port: &'a Port,
    /// The index of the bridge.
    pub(crate) bridge: u32,
    /// The namespace of the router.
    pub(crate) router: Fd,
}

impl Socket {
    /// All interfaces.
    pub(crate) fn links(&mut self) -> io::Result<Vec<Link>> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let found = self.dump(request, 0)?.into_iter();
        Ok(found.filter_map(link).collect())
    }

    /// The interface of this name.
    pub(crate) fn link(&mut self, name: &str) -> io::Result<Option<Link>> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        Ok(self.get(RouteNetlinkMessage::GetLink(message))?.and_then(link))
    }

    /// Those of these names that are there, by name. Few are asked for one by one: a list of all is as long as the
    /// namespace is large.
    pub(crate) fn links_named(
        &mut self,
        names: &BTreeSet<&str>,
    ) -> io::Result<BTreeMap<String, Link>> {
        let found: Vec<Link> = if names.len() <= NAMES {
            let found: io::Result<Vec<Option<Link>>> =
                names.iter().map(|name| self.link(name)).collect();
            found?.into_iter().flatten().collect()
        } else {
            let mut links = self.links()?;
            links.retain(|link| names.contains(link.name.as_str()));
            links
        };
        Ok(found.into_iter().map(|link| (link.name.clone(), link)).collect())
    }

    /// Makes the pairs of interfaces of ports: one end in its bridge and up, the other in the router and down,
    /// as the kernel sets none up whose other end is not there yet.
    pub(crate) fn add_ports<Fd: AsFd>(&mut self, ports: &[NewPort<'_, Fd>]) -> io::Result<()> {
        let messages = ports.iter().map(|port| RouteNetlinkMessage::NewLink(pair(port)));
        self.request(messages, NLM_F_CREATE | NLM_F_EXCL, Missing::Error)?;
        // Without an address of its own: that would be a route in the namespace of the container engine. Interfaces that
        // are too small for IPv6 get none, and refuse to be told so.
        let settings = ports.iter().flat_map(|port| {
            let (mut silent, mut up) = (LinkMessage::default(), up());
            let name = LinkAttribute::IfName(port.port.bridge_end.as_str().to_owned());
            let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
            let family = vec![AfSpecUnspec::Inet6(vec![mode])];
            silent.attributes = vec![name.clone(), LinkAttribute::AfSpecUnspec(family)];
            up.attributes = vec![name];
            let silent = (port.port.mtu >= IPV6_MTU_MIN).then_some(silent);
            silent.into_iter().chain([up]).map(RouteNetlinkMessage::SetLink)
        });
        self.request(settings, 0, Missing::Error)
    }

    /// Removes interfaces, and with them the other ends of pairs.
    pub(crate) fn remove_links(&mut self, names: &[InterfaceName]) -> io::Result<()> {
        let messages = names.iter().map(|name| {
            let mut message = LinkMessage::default();
            message.attributes.push(LinkAttribute::IfName(name.as_str().to_owned()));
            RouteNetlinkMessage::DelLink(message)
        });
        self.request(messages, 0, Missing::Ignore)
    }

    /// Sets interfaces up, each with its MTU.
    pub(crate) fn set_up(&mut self, links: impl Iterator<Item = (u32, u16)>) -> io::Result<()> {
        let messages = links.map(|(index, mtu)| {
            let mut message = up();
            message.header.index = index;
            message.attributes.push(LinkAttribute::Mtu(mtu.into()));
            RouteNetlinkMessage::SetLink(message)
        });
        self.request(messages, 0, Missing::Error)
    }

    /// Renames an interface that is down.
    pub(crate) fn rename(&mut self, index: u32, name: &str) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.request([RouteNetlinkMessage::SetLink(message)], 0, Missing::Error)
    }

    /// Makes a WireGuard interface. Its UDP socket is in the namespace of this socket, the interface in `router`,
    /// if one is given. The name must be free in both: kernels such as 6.1 look for it in that of the socket.
    pub(crate) fn add_wireguard(
        &mut self,
        name: &str,
        router: Option<impl AsFd>,
    ) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        if let Some(router) = &router {
            message.attributes.push(LinkAttribute::NetNsFd(router.as_fd().as_raw_fd()));
        }
        let kind = vec![LinkInfo::Kind(InfoKind::Wireguard)];
        message.attributes.push(LinkAttribute::LinkInfo(kind));
        let message = RouteNetlinkMessage::NewLink(message);
        self.request([message], NLM_F_CREATE | NLM_F_EXCL, Missing::Error)
    }
}

/// The hardware address of a router's interface follows from its address, so that containers which remember it
/// are right after the interface was made anew. The second bit says that nobody assigned it.
pub(crate) fn hardware_address(router: Ipv4Addr) -> Vec<u8> {
    let mut address = vec![0x02, 0x4a];
    address.extend(router.octets());
    address
}

fn up() -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message
}

fn pair<Fd: AsFd>(new: &NewPort<'_, Fd>) -> LinkMessage {
    let NewPort { port, bridge, router } = new;
    let mut inside = LinkMessage::default();
    inside.attributes = vec![
        LinkAttribute::IfName(port.interface.as_str().to_owned()),
        LinkAttribute::Address(hardware_address(port.subnet.router())),
        LinkAttribute::Mtu(port.mtu.into()),
        LinkAttribute::NetNsFd(router.as_fd().as_raw_fd()),
        LinkAttribute::NumTxQueues(QUEUES),
        LinkAttribute::NumRxQueues(QUEUES),
    ];
    let mut outside = LinkMessage::default();
    outside.attributes = vec![
        LinkAttribute::IfName(port.bridge_end.as_str().to_owned()),
        LinkAttribute::Mtu(port.mtu.into()),
        LinkAttribute::Controller(*bridge),
        LinkAttribute::NumTxQueues(QUEUES),
        LinkAttribute::NumRxQueues(QUEUES),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(inside))),
        ]),
    ];
    outside
}

fn link(message: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        kind: LinkKind::Other,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::LowerUp),
        mtu: 0,
        controller: None,
        address: Vec::new(),
    };
    for attribute in message.attributes {
        if let LinkAttribute::IfName(name) = attribute {
            link.name = name;
        } else if let LinkAttribute::Mtu(mtu) = attribute {
            link.mtu = mtu;
        } else if let LinkAttribute::Controller(index) = attribute {
            link.controller = Some(index);
        } else if let LinkAttribute::Address(address) = attribute {
            link.address = address;
        } else if let LinkAttribute::LinkInfo(infos) = attribute {
            link.kind = infos.iter().find_map(kind).unwrap_or(LinkKind::Other);
        }
    }
    Some(link)
}

fn kind(info: &LinkInfo) -> Option<LinkKind> {
    let LinkInfo::Kind(kind) = info else { return None };
    let known = [
        (InfoKind::Veth, LinkKind::Veth),
        (InfoKind::Tun, LinkKind::Tun),
        (InfoKind::Wireguard, LinkKind::WireGuard),
    ];
    known.into_iter().find_map(|(theirs, ours)| (theirs == *kind).then_some(ours))
}
