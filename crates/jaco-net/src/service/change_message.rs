//! A change of a plan as it is said over the socket and kept for the next process.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use jaco_dataplane::{
    Asker, ByDeployment, NamesChange, Owner, PeerChange, PlanChange, Port, PublicKey,
};
use jaco_types::{Ipv4Prefix, NetworkId, StateIndex};
use serde::{Deserialize, Serialize};

use super::plan_message::{
    AskerMessage, KnownMessage, PortMessage, TunnelMessage, known, known_messages, listener_texts,
    read_listeners,
};

/// What differs between the plans of two states. In a table, `None` removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangeMessage {
    /// The state of the plan that it is a change of.
    pub(super) base: u64,
    /// The state of the plan that it leads to.
    pub(super) index: u64,
    /// All prefixes as text.
    pool: New<Option<String>>,
    mesh: New<Option<String>>,
    tunnel: New<Option<TunnelMessage>>,
    ports: Vec<(u32, Option<PortMessage>)>,
    peers: Vec<([u8; 32], Option<PeerMessage>)>,
    routes: Vec<(Ipv4Addr, Option<u32>)>,
    #[serde(default)]
    served: Vec<(Ipv4Addr, Option<u32>)>,
    known: Vec<(u32, String, Option<Vec<KnownMessage>>)>,
    owners: Vec<(Ipv4Addr, Option<(u32, String)>)>,
    askers: Vec<(Ipv4Addr, Option<AskerMessage>)>,
    /// All of them, if any comes or goes.
    #[serde(default)]
    listeners: Option<Vec<String>>,
}

/// The new value of what may stay as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum New<T> {
    Same,
    Is(T),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PeerMessage {
    endpoint: Option<SocketAddr>,
    lost: Vec<Ipv4Addr>,
    gained: Vec<Ipv4Addr>,
}

impl ChangeMessage {
    pub(super) fn new(base: StateIndex, index: StateIndex, change: &PlanChange) -> Self {
        let text = |prefix: &Option<Ipv4Prefix>| prefix.map(|prefix| prefix.to_string());
        let names = &change.names;
        let askers = names.askers.iter().map(|(address, asker)| {
            (*address, asker.as_ref().map(|asker| AskerMessage::new((address, asker))))
        });
        let owner = |owner: &Owner| (owner.network.0, owner.name.clone());
        Self {
            base: base.0,
            index: index.0,
            pool: New::of(names.pool.as_ref().map(text)),
            mesh: New::of(change.mesh.as_ref().map(text)),
            tunnel: New::of(change.tunnel.map(|tunnel| tunnel.map(TunnelMessage::new))),
            ports: listed(&change.ports, |id| id.0, PortMessage::new),
            peers: listed(&change.peers, |key| key.0, PeerMessage::new),
            routes: listed(&change.routes, |address| *address, |id| id.0),
            served: listed(&change.served, |address| *address, |id| id.0),
            known: names.known.iter().map(known_message).collect(),
            owners: listed(&names.owners, |address| *address, owner),
            askers: askers.collect(),
            listeners: change.listeners.as_ref().map(listener_texts),
        }
    }

    /// The change; `None` if anything in it is not what a plan can hold.
    pub(super) fn change(&self) -> Option<PlanChange> {
        let prefix = |text: &Option<String>| match text {
            Some(text) => text.parse::<Ipv4Prefix>().ok().map(Some),
            None => Some(None),
        };
        let tunnel = |tunnel: &Option<TunnelMessage>| match tunnel {
            Some(tunnel) => tunnel.tunnel().map(Some),
            None => Some(None),
        };
        let ports = self.ports.iter().map(|(id, port)| read_port(NetworkId(*id), port.as_ref()));
        let ports: Option<BTreeMap<_, _>> = ports.collect();
        let peers = self.peers.iter();
        let owners = self.owners.iter().map(|(address, owner)| {
            let owner = owner.as_ref();
            let owner =
                owner.map(|(id, name)| Owner { network: NetworkId(*id), name: name.clone() });
            (*address, owner)
        });
        let known: Option<BTreeMap<_, _>> = self.known.iter().map(read_known).collect();
        let askers = self.askers.iter().map(|(address, asker)| read_asker(*address, asker));
        let askers: Option<BTreeMap<_, _>> = askers.collect();
        let listeners = match &self.listeners {
            Some(texts) => read_listeners(texts).map(Some),
            None => Some(None),
        };
        Some(PlanChange {
            tunnel: self.tunnel.read(tunnel)?,
            mesh: self.mesh.read(prefix)?,
            ports: ports?,
            peers: peers
                .map(|(key, peer)| (PublicKey(*key), peer.as_ref().map(PeerMessage::change)))
                .collect(),
            routes: by_address(&self.routes),
            served: by_address(&self.served),
            names: NamesChange {
                known: known?,
                owners: owners.collect(),
                askers: askers?,
                pool: self.pool.read(prefix)?,
            },
            listeners: listeners?,
        })
    }
}

impl<T> New<T> {
    fn of(value: Option<T>) -> Self {
        value.map_or(Self::Same, Self::Is)
    }

    /// `None` if the value is not readable.
    fn read<V>(&self, value: impl Fn(&T) -> Option<V>) -> Option<Option<V>> {
        match self {
            Self::Same => Some(None),
            Self::Is(it) => value(it).map(Some),
        }
    }
}

impl PeerMessage {
    fn new(change: &PeerChange) -> Self {
        Self {
            endpoint: change.endpoint,
            lost: change.lost.iter().copied().collect(),
            gained: change.gained.iter().copied().collect(),
        }
    }

    fn change(&self) -> PeerChange {
        PeerChange {
            endpoint: self.endpoint,
            lost: self.lost.iter().copied().collect(),
            gained: self.gained.iter().copied().collect(),
        }
    }
}

fn by_address(networks: &[(Ipv4Addr, Option<u32>)]) -> BTreeMap<Ipv4Addr, Option<NetworkId>> {
    networks.iter().map(|(address, id)| (*address, id.map(NetworkId))).collect()
}

fn listed<K, V, L, M>(
    table: &BTreeMap<K, Option<V>>,
    key: impl Fn(&K) -> L,
    value: impl Fn(&V) -> M,
) -> Vec<(L, Option<M>)> {
    table.iter().map(|(k, v)| (key(k), v.as_ref().map(&value))).collect()
}

type KnownRow = ((NetworkId, String), Option<ByDeployment>);

fn known_message(
    (key, known): (&(NetworkId, String), &Option<ByDeployment>),
) -> (u32, String, Option<Vec<KnownMessage>>) {
    let messages = known.as_ref().map(|by_deployment| {
        known_messages(&BTreeMap::from([(key.clone(), by_deployment.clone())]))
    });
    (key.0.0, key.1.clone(), messages)
}

fn read_known(
    (network, name, messages): &(u32, String, Option<Vec<KnownMessage>>),
) -> Option<KnownRow> {
    let key = (NetworkId(*network), name.clone());
    let Some(messages) = messages else { return Some((key, None)) };
    let by_deployment = known(messages)?.remove(&key)?;
    Some((key, Some(by_deployment)))
}

fn read_port(id: NetworkId, port: Option<&PortMessage>) -> Option<(NetworkId, Option<Port>)> {
    let Some(port) = port else { return Some((id, None)) };
    port.port(id).map(|(id, port)| (id, Some(port)))
}

fn read_asker(
    address: Ipv4Addr,
    asker: &Option<AskerMessage>,
) -> Option<(Ipv4Addr, Option<Asker>)> {
    let Some(asker) = asker else { return Some((address, None)) };
    asker.asker().map(|(_, asker)| (address, Some(asker)))
}

#[cfg(test)]
mod tests {
    use jaco_dataplane::SitePlan;

    use super::super::message::{Order, receive, send};
    use super::super::plan_message::tests::everything;
    use super::*;

    /// NET-13: a router is told exactly what has changed, be it everything.
    #[tokio::test]
    async fn a_change_arrives_as_it_was() {
        let (nothing, everything) = (SitePlan::default(), everything());
        for (before, after) in [(&nothing, &everything), (&everything, &nothing)] {
            let change = PlanChange::between(before, after);
            let message = ChangeMessage::new(StateIndex(41), StateIndex(42), &change);
            let mut wire = Vec::new();
            send(&mut wire, &Order::Change(Box::new(message))).await.unwrap();
            let Some(Order::Change(read)) = receive(&mut wire.as_slice()).await.unwrap() else {
                panic!()
            };
            assert_eq!((read.base, read.index, read.change()), (41, 42, Some(change)));
        }
    }

    #[test]
    fn what_no_plan_holds_is_refused() {
        let change = PlanChange::between(&SitePlan::default(), &everything());
        let mut message = ChangeMessage::new(StateIndex(1), StateIndex(2), &change);
        message.mesh = New::Is(Some("10.65.7.1/24".to_owned()));
        assert_eq!(message.change(), None);
    }
}
