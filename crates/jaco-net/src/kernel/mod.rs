//! The router's namespace as the kernel has it, from a thread inside of it.
//!
//! The thread is there because a thread's namespace decides which settings it writes, where the programs run
//! that it starts and where the sockets are that it opens.

mod ports;
mod rules;
mod ruleset;
mod settings;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use jaco_dataplane::{Found, InterfaceName, Policy, Port, Tunnel};

use crate::error::{NetError, refused};
use crate::namespace::Namespace;
use crate::netlink::{InterfaceAddress, Link, LinkKind, Route, Socket, WireGuard};

pub(crate) use rules::Rules;
use rules::Traffic;
pub(crate) use worker::Worker;

/// The tunnel's interface in the router.
pub(crate) const TUNNEL: &str = "wg0";

/// The name of the kernel's tunnel while it is made. That of the tunnel is one that a VPN of the machine may have.
const NEW_TUNNEL: &str = "jaconew";

/// The router's namespace.
#[derive(Debug)]
pub(crate) struct Kernel {
    namespace: Arc<Namespace>,
    /// In the namespace of the container engine: for bridges and the outer ends of ports.
    outside: Socket,
    /// In the router.
    inside: Socket,
    /// In the router, where the kernel has WireGuard.
    pub(crate) wireguard: Option<WireGuard>,
    rules: Rules,
}

/// What the kernel has of the tunnel's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TunnelLink {
    pub(crate) kind: LinkKind,
    pub(crate) address: Option<(Ipv4Addr, u8)>,
    pub(crate) mtu: u32,
}

/// What the kernel has, without the tunnel's peers.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) policy: Option<Policy>,
    pub(crate) ports: BTreeMap<InterfaceName, Found<Port>>,
    pub(crate) routes: BTreeSet<Ipv4Addr>,
    pub(crate) tunnel: Option<TunnelLink>,
}

impl Kernel {
    /// To be called on a thread inside the namespace. `outside` was opened in that of the container engine.
    fn new(namespace: Arc<Namespace>, outside: Socket) -> Result<Self, NetError> {
        let inside = Socket::route().map_err(refused("open a netlink socket"))?;
        let wireguard = WireGuard::open().ok();
        let rules = Rules::new().map_err(refused("open a netlink socket"))?;
        Ok(Self { namespace, outside, inside, wireguard, rules })
    }

    /// Replaces settings and rules, at once as far as packets see it.
    pub(crate) fn load_policy(&mut self, policy: &Policy) -> Result<(), NetError> {
        settings::write_all()?;
        let links = self.inside.links().map_err(refused("list interfaces"))?;
        let (loopback, others): (Vec<_>, Vec<_>) =
            links.into_iter().partition(|link| link.name == "lo");
        if let Some(link) = loopback.iter().find(|link| !link.running) {
            let mtu = u16::try_from(link.mtu).unwrap_or(u16::MAX);
            let up = self.inside.set_up([(link.index, mtu)].into_iter());
            up.map_err(refused("set the loopback up"))?;
        }
        let traffic = if others.is_empty() { Traffic::None } else { Traffic::Possible };
        self.rules.load(policy, traffic)
    }

    pub(crate) fn rules(&mut self) -> &mut Rules {
        &mut self.rules
    }

    /// Everything that is there.
    pub(crate) fn observe(&mut self) -> Result<Observed, NetError> {
        let list = "list interfaces, addresses and routes";
        let links = self.inside.links().map_err(refused(list))?;
        let addresses = self.inside.addresses().map_err(refused(list))?;
        let routes = self.inside.routes().map_err(refused(list))?;
        let outside = self.outside.links().map_err(refused(list))?;
        let wg = links.iter().find(|link| link.name == TUNNEL);
        let tunnel = wg.map(|link| tunnel_link(link, &addresses));
        let through = |route: &&Route| wg.is_some_and(|link| link.index == route.index);
        Ok(Observed {
            policy: if settings::are_written() { self.rules.read()? } else { None },
            ports: ports::found(&links, &addresses, &outside),
            routes: routes.iter().filter(through).map(|route| route.destination).collect(),
            tunnel,
        })
    }

    /// Makes ports; those whose bridge is missing are returned with the reason.
    pub(crate) fn add_ports(&mut self, ports: &[Port]) -> Vec<(InterfaceName, NetError)> {
        ports::add(self, ports)
    }

    /// Removes ports that may be gone already.
    pub(crate) fn remove_ports(&mut self, names: &[InterfaceName]) -> Result<(), NetError> {
        self.inside.remove_now(names).map_err(refused("remove ports"))
    }

    /// Whether the kernel can make WireGuard interfaces, by making one.
    pub(crate) fn try_wireguard(&mut self) -> bool {
        let trial = "wgtrial";
        // A process that was killed in here has left its own, and there cannot be two.
        if self.remove_link(trial).is_err() {
            return false;
        }
        if self.inside.add_wireguard(trial, None::<&Namespace>).is_err() {
            return false;
        }
        // The kernel may have loaded its module only now.
        self.wireguard = self.wireguard.take().or_else(|| WireGuard::open().ok());
        self.remove_link(trial).is_ok() && self.wireguard.is_some()
    }

    /// Makes the kernel's tunnel, with its UDP socket in the namespace of the container engine.
    pub(crate) fn add_wireguard(&mut self) -> Result<(), NetError> {
        let what = "make a WireGuard interface";
        // A process that was killed in here has left its own.
        self.remove_link(NEW_TUNNEL)?;
        let made = self.outside.add_wireguard(NEW_TUNNEL, Some(&*self.namespace));
        made.map_err(refused(what))?;
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let link = self.link(NEW_TUNNEL)?.ok_or_else(gone).map_err(refused(what))?;
        self.inside.rename(link.index, TUNNEL).map_err(refused(what))
    }

    /// Gives the tunnel's interface its address, and sets it up.
    pub(crate) fn set_up_tunnel(&mut self, tunnel: Tunnel) -> Result<(), NetError> {
        let what = "set the tunnel up";
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let link = self.link(TUNNEL)?.ok_or_else(gone).map_err(refused(what))?;
        let length = tunnel.mesh.length();
        let address = InterfaceAddress { index: link.index, address: tunnel.address, length };
        self.inside.add_addresses(&[address]).map_err(refused(what))?;
        let up = self.inside.set_up([(link.index, tunnel.mtu)].into_iter());
        up.map_err(refused(what))
    }

    /// Removes the tunnel's interface, with its routes.
    pub(crate) fn remove_tunnel(&mut self) -> Result<(), NetError> {
        self.remove_link(TUNNEL)
    }

    /// The number of the tunnel's interface, if there is one.
    pub(crate) fn tunnel_index(&mut self) -> Result<Option<u32>, NetError> {
        Ok(self.link(TUNNEL)?.map(|link| link.index))
    }

    /// Leads addresses into the tunnel.
    pub(crate) fn add_routes(&mut self, routes: &BTreeSet<Ipv4Addr>) -> Result<(), NetError> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let link = self.link(TUNNEL)?.ok_or_else(gone).map_err(refused("find the tunnel"))?;
        let index = link.index;
        let routes = routes.iter().map(|destination| Route { index, destination: *destination });
        self.inside.add_routes(routes).map_err(refused("add routes"))
    }

    /// Leads addresses nowhere any more.
    pub(crate) fn remove_routes(&mut self, routes: &BTreeSet<Ipv4Addr>) -> Result<(), NetError> {
        let Some(Link { index, .. }) = self.link(TUNNEL)? else { return Ok(()) };
        let routes = routes.iter().map(|destination| Route { index, destination: *destination });
        self.inside.remove_routes(routes).map_err(refused("remove routes"))
    }

    fn remove_link(&mut self, name: &str) -> Result<(), NetError> {
        let name = InterfaceName::new(name).expect("constant names are valid");
        self.inside.remove_links(&[name]).map_err(refused("remove an interface"))
    }

    fn link(&mut self, name: &str) -> Result<Option<Link>, NetError> {
        self.inside.link(name).map_err(refused("find an interface"))
    }
}

fn tunnel_link(link: &Link, addresses: &[InterfaceAddress]) -> TunnelLink {
    let mut own = addresses.iter().filter(|address| address.index == link.index);
    let address = own.next().map(|found| (found.address, found.length));
    // Not what we made, or not set up as its port was in use: it is seen without an address, so that it is made anew.
    let address = address.filter(|_| own.next().is_none() && link.up);
    TunnelLink { kind: link.kind, address, mtu: link.mtu }
}
