//! A plan as it is said over the socket and kept for the next process.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use jaco_dataplane::edge::ListenerKey;
use jaco_dataplane::{
    Addresses, Asker, ByDeployment, InterfaceName, Names, Owner, Peer, Policy, Port, PublicKey,
    SitePlan, Tunnel,
};
use jaco_types::{DeploymentName, Ipv4Prefix, NetworkId, NetworkReach, StateIndex, Subnet};
use serde::{Deserialize, Serialize};

/// A plan, with the state that it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlanMessage {
    pub(super) index: u64,
    /// All prefixes as text.
    pool: Option<String>,
    mesh: Option<String>,
    tunnel: Option<TunnelMessage>,
    ports: Vec<(u32, PortMessage)>,
    peers: Vec<([u8; 32], Option<SocketAddr>, Vec<Ipv4Addr>)>,
    routes: Vec<(Ipv4Addr, u32)>,
    #[serde(default)]
    served: Vec<(Ipv4Addr, u32)>,
    known: Vec<KnownMessage>,
    owners: Vec<(Ipv4Addr, u32, String)>,
    askers: Vec<AskerMessage>,
    /// As text.
    #[serde(default)]
    listeners: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TunnelMessage {
    address: Ipv4Addr,
    mesh: String,
    key: [u8; 32],
    mtu: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PortMessage {
    bridge: String,
    subnet: String,
    mtu: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownMessage {
    network: u32,
    name: String,
    deployment: String,
    ready_here: Vec<Ipv4Addr>,
    ready_elsewhere: Vec<Ipv4Addr>,
    starting: Vec<Ipv4Addr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AskerMessage {
    address: Ipv4Addr,
    deployment: String,
    networks: Vec<u32>,
    internal: bool,
    #[serde(default)]
    resolvers: Vec<IpAddr>,
}

impl PlanMessage {
    pub(super) fn new(index: StateIndex, plan: &SitePlan) -> Self {
        let text = |prefix: Ipv4Prefix| prefix.to_string();
        let peers = plan.peers.iter();
        let names = &plan.names;
        Self {
            index: index.0,
            pool: names.pool.map(text),
            mesh: plan.policy.mesh.map(text),
            tunnel: plan.tunnel.map(TunnelMessage::new),
            ports: plan.ports.iter().map(|(id, port)| (id.0, PortMessage::new(port))).collect(),
            peers: peers
                .map(|(key, peer)| (key.0, peer.endpoint, peer.addresses.iter().copied().collect()))
                .collect(),
            routes: networks(&plan.routes),
            served: networks(&plan.policy.served),
            known: known_messages(&names.known),
            owners: names
                .owners
                .iter()
                .map(|(address, owner)| (*address, owner.network.0, owner.name.clone()))
                .collect(),
            askers: names.askers.iter().map(AskerMessage::new).collect(),
            listeners: listener_texts(&plan.listeners),
        }
    }

    /// The plan; `None` if anything in it is not what a plan can hold.
    pub(super) fn plan(&self) -> Option<SitePlan> {
        let prefix = |text: &Option<String>| match text {
            Some(text) => text.parse::<Ipv4Prefix>().ok().map(Some),
            None => Some(None),
        };
        let tunnel = match &self.tunnel {
            Some(tunnel) => Some(tunnel.tunnel()?),
            None => None,
        };
        let ports = self.ports.iter().map(|(id, port)| port.port(NetworkId(*id)));
        let ports: Option<BTreeMap<_, _>> = ports.collect();
        let ports = ports?;
        let peers = self.peers.iter().map(|(key, endpoint, addresses)| {
            let addresses = addresses.iter().copied().collect();
            (PublicKey(*key), Peer { endpoint: *endpoint, addresses })
        });
        let owners = self.owners.iter().map(|(address, network, name)| {
            (*address, Owner { network: NetworkId(*network), name: name.clone() })
        });
        let askers: Option<BTreeMap<_, _>> = self.askers.iter().map(AskerMessage::asker).collect();
        Some(SitePlan {
            policy: Policy {
                served: by_address(&self.served),
                ..Policy::of(&ports, prefix(&self.mesh)?)
            },
            tunnel,
            ports,
            peers: peers.collect(),
            routes: by_address(&self.routes),
            names: Names {
                known: known(&self.known)?,
                owners: owners.collect(),
                askers: askers?,
                pool: prefix(&self.pool)?,
            },
            listeners: read_listeners(&self.listeners)?,
        })
    }
}

fn networks(addresses: &BTreeMap<Ipv4Addr, NetworkId>) -> Vec<(Ipv4Addr, u32)> {
    addresses.iter().map(|(address, id)| (*address, id.0)).collect()
}

fn by_address(networks: &[(Ipv4Addr, u32)]) -> BTreeMap<Ipv4Addr, NetworkId> {
    networks.iter().map(|(address, id)| (*address, NetworkId(*id))).collect()
}

impl TunnelMessage {
    pub(super) fn new(tunnel: Tunnel) -> Self {
        let Tunnel { address, mesh, key, mtu } = tunnel;
        Self { address, mesh: mesh.to_string(), key: key.0, mtu }
    }

    pub(super) fn tunnel(&self) -> Option<Tunnel> {
        let mesh = self.mesh.parse().ok()?;
        Some(Tunnel { address: self.address, mesh, key: PublicKey(self.key), mtu: self.mtu })
    }
}

impl PortMessage {
    pub(super) fn new(port: &Port) -> Self {
        let (bridge, subnet) = (port.bridge.to_string(), port.subnet.prefix().to_string());
        Self { bridge, subnet, mtu: port.mtu }
    }

    pub(super) fn port(&self, id: NetworkId) -> Option<(NetworkId, Port)> {
        let bridge = InterfaceName::new(&self.bridge).ok()?;
        let subnet = Subnet::new(self.subnet.parse().ok()?).ok()?;
        Some((id, Port::new(id, bridge, subnet, self.mtu)))
    }
}

pub(super) fn known_messages(known: &Known) -> Vec<KnownMessage> {
    let list = |addresses: &BTreeSet<Ipv4Addr>| addresses.iter().copied().collect();
    let known = known.iter().flat_map(|((network, name), by_deployment)| {
        by_deployment.iter().map(move |(deployment, addresses)| KnownMessage {
            network: network.0,
            name: name.clone(),
            deployment: deployment.to_string(),
            ready_here: list(&addresses.ready_here),
            ready_elsewhere: list(&addresses.ready_elsewhere),
            starting: list(&addresses.starting),
        })
    });
    known.collect()
}

type Known = BTreeMap<(NetworkId, String), ByDeployment>;

pub(super) fn known(messages: &[KnownMessage]) -> Option<Known> {
    let mut known = Known::new();
    for message in messages {
        let key = (NetworkId(message.network), message.name.clone());
        let set = |addresses: &[Ipv4Addr]| addresses.iter().copied().collect();
        let addresses = Addresses {
            ready_here: set(&message.ready_here),
            ready_elsewhere: set(&message.ready_elsewhere),
            starting: set(&message.starting),
        };
        let deployment = DeploymentName::new(&message.deployment).ok()?;
        known.entry(key).or_default().insert(deployment, addresses);
    }
    Some(known)
}

impl AskerMessage {
    pub(super) fn new((address, asker): (&Ipv4Addr, &Asker)) -> Self {
        Self {
            address: *address,
            deployment: asker.deployment.to_string(),
            networks: asker.networks.iter().map(|id| id.0).collect(),
            internal: asker.reach == NetworkReach::Internal,
            resolvers: asker.resolvers.clone(),
        }
    }

    pub(super) fn asker(&self) -> Option<(Ipv4Addr, Asker)> {
        let reach = match self.internal {
            true => NetworkReach::Internal,
            false => NetworkReach::Outside,
        };
        let asker = Asker {
            deployment: DeploymentName::new(&self.deployment).ok()?,
            networks: self.networks.iter().map(|id| NetworkId(*id)).collect(),
            reach,
            resolvers: self.resolvers.clone(),
        };
        Some((self.address, asker))
    }
}

pub(super) fn listener_texts(listeners: &BTreeSet<ListenerKey>) -> Vec<String> {
    listeners.iter().map(ListenerKey::to_string).collect()
}

pub(super) fn read_listeners(texts: &[String]) -> Option<BTreeSet<ListenerKey>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{Ipv6Addr, SocketAddr};

    use super::super::message::{Order, receive, send};
    use super::*;

    pub(in crate::service) fn everything() -> SitePlan {
        let prefix = |text: &str| text.parse::<Ipv4Prefix>().unwrap();
        let at = |last| Ipv4Addr::new(10, 65, 7, last);
        let subnet = Subnet::new(prefix("10.65.7.0/24")).unwrap();
        let port = Port::new(NetworkId(7), InterfaceName::new("jn7").unwrap(), subnet, 1420);
        let ports = BTreeMap::from([(NetworkId(7), port)]);
        let deployment = DeploymentName::new("shop").unwrap();
        let addresses = Addresses {
            ready_here: [at(3)].into(),
            ready_elsewhere: [at(4)].into(),
            starting: [at(5)].into(),
        };
        let asker = |reach| Asker {
            deployment: deployment.clone(),
            networks: vec![NetworkId(7), NetworkId(8)],
            reach,
            resolvers: vec![[192, 0, 2, 53].into(), Ipv6Addr::LOCALHOST.into()],
        };
        SitePlan {
            policy: Policy {
                served: [(at(3), NetworkId(7))].into(),
                ..Policy::of(&ports, Some(prefix("10.64.0.0/16")))
            },
            tunnel: Some(Tunnel {
                address: Ipv4Addr::new(10, 64, 0, 1),
                mesh: prefix("10.64.0.0/16"),
                key: PublicKey([7; 32]),
                mtu: 1420,
            }),
            ports,
            peers: [(
                PublicKey([9; 32]),
                Peer {
                    endpoint: Some(SocketAddr::from(([192, 0, 2, 1], 51820))),
                    addresses: [at(4)].into(),
                },
            )]
            .into(),
            routes: [(at(4), NetworkId(7))].into(),
            names: Names {
                known: [(
                    (NetworkId(7), "web".to_owned()),
                    [(deployment.clone(), addresses)].into(),
                )]
                .into(),
                owners: [(at(3), Owner { network: NetworkId(7), name: "web-0.shop".to_owned() })]
                    .into(),
                askers: [
                    (at(3), asker(NetworkReach::Internal)),
                    (at(5), asker(NetworkReach::Outside)),
                ]
                .into(),
                pool: Some(prefix("10.64.0.0/12")),
            },
            listeners: ["tcp/443", "udp/[2001:db8::1]:53"].map(|key| key.parse().unwrap()).into(),
        }
    }

    /// NET-12: the router is told exactly what was planned, an empty plan included.
    #[tokio::test]
    async fn a_plan_arrives_as_it_was() {
        for plan in [everything(), SitePlan::default()] {
            let order = Order::Plan(Box::new(PlanMessage::new(StateIndex(42), &plan)));
            let mut wire = Vec::new();
            send(&mut wire, &order).await.unwrap();
            let mut wire = wire.as_slice();
            let Some(Order::Plan(read)) = receive(&mut wire).await.unwrap() else { panic!() };
            assert_eq!((read.index, read.plan()), (42, Some(plan)));
            assert!(receive::<Order>(&mut wire).await.unwrap().is_none());
        }
    }

    #[test]
    fn what_no_plan_holds_is_refused() {
        let mut message = PlanMessage::new(StateIndex(1), &everything());
        message.ports[0].1.subnet = "10.65.7.1/24".to_owned();
        assert_eq!(message.plan(), None);
    }
}
