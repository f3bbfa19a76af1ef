//! What is said over the socket of the router: JSON, each message with its length before it.
//!
//! Both ends are of one program and one version, on one machine; what cannot be read ends the connection.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use jaco_dataplane::{
    Addresses, Asker, InterfaceName, Names, Owner, Peer, Policy, Port, PublicKey, SitePlan, Tunnel,
};
use jaco_types::{
    DeploymentName, Ipv4Prefix, NetworkId, NetworkReach, StateIndex, Subnet, TunnelBackend,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::tunnel::Backend;

/// The longest message: a plan of several hundred thousand addresses.
const LENGTH_MAX: usize = 256 << 20;

/// What the router is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Hold this.
    Plan(Box<PlanMessage>),
    /// Try again at once what failed for want of a bridge.
    Retry,
}

/// What a router says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterStatus {
    key: [u8; 32],
    /// The UDP port that it listens on.
    pub port: u16,
    userspace: bool,
    applied: Option<u64>,
    failed: BTreeMap<u32, String>,
    /// Why the last plan could not be carried out, if that is so.
    pub error: Option<String>,
}

/// Why a router has no port in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFailure {
    /// The network.
    pub network: NetworkId,
    /// Why.
    pub reason: String,
}

impl RouterStatus {
    pub(super) fn new(key: PublicKey, port: u16, backend: Backend) -> Self {
        let userspace = backend == Backend::Userspace;
        let (applied, failed, error) = (None, BTreeMap::new(), None);
        Self { key: key.0, port, userspace, applied, failed, error }
    }

    /// Its public key.
    pub fn key(&self) -> PublicKey {
        PublicKey(self.key)
    }

    /// Where its tunnel runs.
    pub fn backend(&self) -> TunnelBackend {
        match self.userspace {
            true => TunnelBackend::Userspace,
            false => TunnelBackend::Kernel,
        }
    }

    /// The state that the plan is of which it holds. What failed in it is in [`RouterStatus::failure`].
    pub fn applied(&self) -> Option<StateIndex> {
        self.applied.map(StateIndex)
    }

    /// Why it has no port in one of these networks, if that is so.
    pub fn failure(&self, networks: &[NetworkId]) -> Option<NetworkFailure> {
        networks.iter().find_map(|network| {
            let reason = self.failed.get(&network.0)?.clone();
            Some(NetworkFailure { network: *network, reason })
        })
    }

    pub(super) fn has_failures(&self) -> bool {
        self.error.is_some() || !self.failed.is_empty()
    }

    pub(super) fn hold(&mut self, index: StateIndex, failed: BTreeMap<NetworkId, String>) {
        self.applied = Some(index.0);
        self.failed = failed.into_iter().map(|(id, reason)| (id.0, reason)).collect();
        self.error = None;
    }
}

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
    known: Vec<KnownMessage>,
    owners: Vec<(Ipv4Addr, u32, String)>,
    askers: Vec<AskerMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TunnelMessage {
    address: Ipv4Addr,
    mesh: String,
    key: [u8; 32],
    mtu: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PortMessage {
    bridge: String,
    subnet: String,
    mtu: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KnownMessage {
    network: u32,
    name: String,
    deployment: String,
    ready_here: Vec<Ipv4Addr>,
    ready_elsewhere: Vec<Ipv4Addr>,
    starting: Vec<Ipv4Addr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AskerMessage {
    address: Ipv4Addr,
    deployment: String,
    networks: Vec<u32>,
    internal: bool,
}

impl PlanMessage {
    pub(super) fn new(index: StateIndex, plan: &SitePlan) -> Self {
        let text = |prefix: Ipv4Prefix| prefix.to_string();
        let tunnel = |tunnel: Tunnel| TunnelMessage {
            address: tunnel.address,
            mesh: text(tunnel.mesh),
            key: tunnel.key.0,
            mtu: tunnel.mtu,
        };
        let port = |(id, port): (&NetworkId, &Port)| {
            let (bridge, subnet) = (port.bridge.to_string(), text(port.subnet.prefix()));
            (id.0, PortMessage { bridge, subnet, mtu: port.mtu })
        };
        let peers = plan.peers.iter();
        let names = &plan.names;
        Self {
            index: index.0,
            pool: names.pool.map(text),
            mesh: plan.policy.mesh.map(text),
            tunnel: plan.tunnel.map(tunnel),
            ports: plan.ports.iter().map(port).collect(),
            peers: peers
                .map(|(key, peer)| (key.0, peer.endpoint, peer.addresses.iter().copied().collect()))
                .collect(),
            routes: plan.routes.iter().map(|(address, id)| (*address, id.0)).collect(),
            known: known_message(names),
            owners: names
                .owners
                .iter()
                .map(|(address, owner)| (*address, owner.network.0, owner.name.clone()))
                .collect(),
            askers: names.askers.iter().map(asker_message).collect(),
        }
    }

    /// The plan; `None` if anything in it is not what a plan can hold.
    pub(super) fn plan(&self) -> Option<SitePlan> {
        let prefix = |text: &Option<String>| match text {
            Some(text) => text.parse::<Ipv4Prefix>().ok().map(Some),
            None => Some(None),
        };
        let tunnel = match &self.tunnel {
            Some(tunnel) => Some(Tunnel {
                address: tunnel.address,
                mesh: tunnel.mesh.parse().ok()?,
                key: PublicKey(tunnel.key),
                mtu: tunnel.mtu,
            }),
            None => None,
        };
        let ports: Option<BTreeMap<_, _>> = self.ports.iter().map(port).collect();
        let ports = ports?;
        let peers = self.peers.iter().map(|(key, endpoint, addresses)| {
            let addresses = addresses.iter().copied().collect();
            (PublicKey(*key), Peer { endpoint: *endpoint, addresses })
        });
        let owners = self.owners.iter().map(|(address, network, name)| {
            (*address, Owner { network: NetworkId(*network), name: name.clone() })
        });
        let askers: Option<BTreeMap<_, _>> = self.askers.iter().map(asker).collect();
        Some(SitePlan {
            policy: Policy::of(&ports, prefix(&self.mesh)?),
            tunnel,
            ports,
            peers: peers.collect(),
            routes: self.routes.iter().map(|(address, id)| (*address, NetworkId(*id))).collect(),
            names: Names {
                known: known(&self.known)?,
                owners: owners.collect(),
                askers: askers?,
                pool: prefix(&self.pool)?,
            },
        })
    }
}

fn port((id, port): &(u32, PortMessage)) -> Option<(NetworkId, Port)> {
    let bridge = InterfaceName::new(&port.bridge).ok()?;
    let subnet = Subnet::new(port.subnet.parse().ok()?).ok()?;
    Some((NetworkId(*id), Port::new(NetworkId(*id), bridge, subnet, port.mtu)))
}

fn known_message(names: &Names) -> Vec<KnownMessage> {
    let list = |addresses: &BTreeSet<Ipv4Addr>| addresses.iter().copied().collect();
    let known = names.known.iter().flat_map(|((network, name), by_deployment)| {
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

type Known = BTreeMap<(NetworkId, String), BTreeMap<DeploymentName, Addresses>>;

fn known(messages: &[KnownMessage]) -> Option<Known> {
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

fn asker_message((address, asker): (&Ipv4Addr, &Asker)) -> AskerMessage {
    AskerMessage {
        address: *address,
        deployment: asker.deployment.to_string(),
        networks: asker.networks.iter().map(|id| id.0).collect(),
        internal: asker.reach == NetworkReach::Internal,
    }
}

fn asker(message: &AskerMessage) -> Option<(Ipv4Addr, Asker)> {
    let reach = match message.internal {
        true => NetworkReach::Internal,
        false => NetworkReach::Outside,
    };
    let asker = Asker {
        deployment: DeploymentName::new(&message.deployment).ok()?,
        networks: message.networks.iter().map(|id| NetworkId(*id)).collect(),
        reach,
    };
    Some((message.address, asker))
}

/// Writes a message.
pub(super) async fn send<M: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&body).await
}

/// Reads a message; `None` at the end of the connection.
pub(super) async fn receive<M: for<'a> Deserialize<'a>>(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<M>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > LENGTH_MAX {
        return Err(io::Error::other(format!("a message of {length} bytes is too long")));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn everything() -> SitePlan {
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
        };
        SitePlan {
            policy: Policy::of(&ports, Some(prefix("10.64.0.0/16"))),
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

    #[tokio::test]
    async fn what_no_plan_holds_is_refused() {
        let mut message = PlanMessage::new(StateIndex(1), &everything());
        message.ports[0].1.subnet = "10.65.7.1/24".to_owned();
        assert_eq!(message.plan(), None);
        let mut too_long: &[u8] = &[0xff; 8];
        assert!(receive::<Order>(&mut too_long).await.is_err());
    }
}
