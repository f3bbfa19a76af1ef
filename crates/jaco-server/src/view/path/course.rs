//! What the state says of the way from one replica to others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_state::ClusterState;
use jaco_state::view::in_routing;
use jaco_types::{NetworkId, NodeId};

use super::ends::{Destination, Live};
use super::outcome::{Broken, Step, Walk};
use crate::view::hostname;

/// The way from one replica to others, in one network.
#[derive(Debug)]
pub(crate) struct Course<'a> {
    pub(crate) asker: &'a Live,
    /// The address of the one that asks, in that network.
    pub(crate) source: Ipv4Addr,
    /// What it asks its resolver for.
    pub(crate) name: String,
    pub(super) network: NetworkId,
    /// The network, as users call it.
    pub(super) network_name: String,
    /// Ready instances of the destination, by their addresses there.
    pub(super) ready: BTreeMap<Ipv4Addr, &'a Live>,
    /// Those that are not ready.
    pub(super) unready: BTreeMap<Ipv4Addr, &'a Live>,
}

impl<'a> Course<'a> {
    /// The first network of the one that asks in which the destination has an address: it answers for a name that
    /// several networks know.
    ///
    /// # Errors
    /// The walk that ends here: no network connects the two.
    pub(crate) fn begin(
        state: &ClusterState,
        asker: &'a Live,
        to: &'a Destination,
    ) -> Result<Self, Walk> {
        if state.networks.pool.is_none() {
            return Err(Walk::broken_at(no_pool()));
        }
        let attached = attached(state, to);
        let shared = |network: &NetworkId| {
            let has = |live: &Live| live.addresses.iter().any(|own| own.network == *network);
            to.instances.iter().any(has)
        };
        let own = || asker.addresses.iter();
        let found = own().find(|own| shared(&own.network));
        let found = found.or_else(|| own().find(|own| attached.contains(&own.network)));
        let Some(found) = found else {
            return Err(Walk::broken_at(unconnected(state, asker, to, &attached)));
        };
        let in_network = to.instances.iter().flat_map(|live| {
            let own = live.addresses.iter().filter(|own| own.network == found.network);
            own.map(move |own| (own.address, live))
        });
        if asker.is_joining {
            return Err(Walk::broken_at(joining(state, asker, found.network)));
        }
        let is_ready = |live: &Live| !live.is_joining && in_routing(state, &live.id);
        let (ready, unready) = in_network.partition(|(_, live)| is_ready(live));
        Ok(Self {
            asker,
            source: found.address,
            name: name(asker, state, to),
            network: found.network,
            network_name: network_name(state, found.network),
            ready,
            unready,
        })
    }

    /// The nodes that have a part in it.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.ready.values().chain(self.unready.values()).map(|live| live.node);
        nodes.chain([self.asker.node]).collect::<BTreeSet<_>>().into_iter()
    }

    /// The addresses to connect to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.ready.keys().copied()
    }
}

/// What the one that asks calls it: within a deployment, names are short.
fn name(asker: &Live, state: &ClusterState, to: &Destination) -> String {
    let deployment = to.service.deployment.as_str();
    let short = match &to.replica {
        Some(replica) => {
            let replica = replica.as_str();
            let prefix = format!("{deployment}-");
            replica.strip_prefix(&prefix).unwrap_or(replica).to_owned()
        }
        None => to.service.service.to_string(),
    };
    let own = state.slots.get(&asker.id.replica).map(|slot| &slot.service.deployment);
    let name = match own == Some(&to.service.deployment) {
        true => short,
        false => format!("{short}.{deployment}"),
    };
    name.to_lowercase()
}

/// The networks that the desired revision of the destination is attached to.
fn attached(state: &ClusterState, to: &Destination) -> Vec<NetworkId> {
    let deployment = state.deployments.get(&to.service.deployment);
    let spec = deployment.and_then(|it| it.spec().services.get(&to.service.service));
    let networks = spec.into_iter().flat_map(|spec| &spec.networks).filter_map(|attachment| {
        let scope = attachment.network.scope(&to.service.deployment);
        state.networks.find(&scope, None).map(|network| network.id)
    });
    networks.collect()
}

fn network_name(state: &ClusterState, id: NetworkId) -> String {
    state.networks.rows.get(&id).map_or_else(|| id.to_string(), |row| row.scope.to_string())
}

fn no_pool() -> Broken {
    Broken {
        step: Step::Network,
        detail: "networks are those of each node: the cluster has none of its own".to_owned(),
        fix: "turn them on with `jaco network enable`, then apply the deployments again".to_owned(),
    }
}

fn unconnected(
    state: &ClusterState,
    asker: &Live,
    to: &Destination,
    attached: &[NetworkId],
) -> Broken {
    let names = |networks: &mut dyn Iterator<Item = NetworkId>| {
        let names: BTreeSet<String> = networks.map(|id| network_name(state, id)).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let from = &asker.id.replica;
    let own = names(&mut asker.addresses.iter().map(|own| own.network));
    let of_instances = to.instances.iter().flat_map(|live| &live.addresses).map(|own| own.network);
    let theirs = names(&mut of_instances.chain(attached.iter().copied()));
    let (detail, fix) = if own.is_empty() {
        let node = hostname(state, asker.node);
        let detail = format!("{from} on {node} is attached to no network of the cluster");
        (detail, apply_again(&from.to_string()))
    } else if theirs.is_empty() {
        (format!("{to} is attached to no network of the cluster"), apply_again(&to.to_string()))
    } else {
        let detail =
            format!("no network connects them: {from} is attached to {own}, {to} to {theirs}");
        let fix = "name one network in `networks` of both services; between deployments, one of \
                   `jaco network create` with `external: true`"
            .to_owned();
        (detail, fix)
    };
    Broken { step: Step::Network, detail, fix }
}

/// The one that asks runs since before its service was in the network.
fn joining(state: &ClusterState, asker: &Live, network: NetworkId) -> Broken {
    let (replica, node) = (&asker.id.replica, hostname(state, asker.node));
    let network = network_name(state, network);
    Broken {
        step: Step::Network,
        detail: format!("{replica} on {node} is being attached to {network}"),
        fix: until_joined(&node),
    }
}

/// What to do about a container that is not attached to its networks yet.
pub(super) fn until_joined(node: &str) -> String {
    format!(
        "try again in a second; if it stays, see why the engine refuses: journalctl -u jacod on {node}"
    )
}

fn apply_again(what: &str) -> String {
    format!(
        "apply its deployment again if that was before `jaco network enable`; with `network_mode`, {what} has the \
         network that this names"
    )
}
