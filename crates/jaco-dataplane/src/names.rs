//! Names of instances and how they are looked up. Which address is tried first is for the resolver.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use jaco_types::{DeploymentName, Ipv4Prefix, NetworkId, NetworkReach};

/// The domain of all names of the cluster: what ends with it is never asked elsewhere.
pub const ZONE: &str = "jaco.internal";

/// The addresses of a short name in one network, by deployment.
pub type ByDeployment = BTreeMap<DeploymentName, Addresses>;

/// What the resolver of a site knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// By network and short name, in the networks of the site.
    pub known: BTreeMap<(NetworkId, String), ByDeployment>,
    /// The instance that has an address.
    pub owners: BTreeMap<Ipv4Addr, Owner>,
    /// Who may ask: the instances of this site, by each of their addresses.
    pub askers: BTreeMap<Ipv4Addr, Asker>,
    /// All addresses that networks may have: what resolvers outside say of them is not believed.
    pub pool: Option<Ipv4Prefix>,
}

/// The instance that has an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The network of the address.
    pub network: NetworkId,
    /// `replica.deployment`.
    pub name: String,
}

/// A part of [`Names`] that changes; `None` removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamesChange {
    /// Of [`Names::known`].
    pub known: BTreeMap<(NetworkId, String), Option<ByDeployment>>,
    /// Of [`Names::owners`].
    pub owners: BTreeMap<Ipv4Addr, Option<Owner>>,
    /// Of [`Names::askers`].
    pub askers: BTreeMap<Ipv4Addr, Option<Asker>>,
    /// The new [`Names::pool`], if it changes.
    pub pool: Option<Option<Ipv4Prefix>>,
}

/// The addresses of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Of ready instances of this site.
    pub ready_here: BTreeSet<Ipv4Addr>,
    /// Of ready instances of other sites.
    pub ready_elsewhere: BTreeSet<Ipv4Addr>,
    /// Of instances that are not ready: only for want of ready ones.
    pub starting: BTreeSet<Ipv4Addr>,
}

/// An instance that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Whose short names it means.
    pub deployment: DeploymentName,
    /// Its networks, in the order in which they are searched.
    pub networks: Vec<NetworkId>,
    /// Whether its questions about other names are forwarded.
    pub reach: NetworkReach,
    /// To whom they are, in this order; none are those of the node.
    pub resolvers: Vec<IpAddr>,
}

/// What a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// A name of the cluster, which the asker may know.
    Known(Addresses),
    /// A name that is the cluster's and that nothing of the asker's networks has: it does not exist.
    Unknown,
    /// No name of the cluster: for the resolvers outside, if the asker reaches them.
    Foreign,
}

impl Addresses {
    /// Whether an address is among them.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        [&self.ready_here, &self.ready_elsewhere, &self.starting]
            .iter()
            .any(|addresses| addresses.contains(&address))
    }

    /// Keeps those for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: impl Fn(Ipv4Addr) -> bool) {
        for addresses in [&mut self.ready_here, &mut self.ready_elsewhere, &mut self.starting] {
            addresses.retain(|address| keep(*address));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.ready_here.extend(&other.ready_here);
        self.ready_elsewhere.extend(&other.ready_elsewhere);
        self.starting.extend(&other.starting);
    }
}

impl Names {
    /// Carries a change out.
    pub fn change(&mut self, change: &NamesChange) {
        change_all(&mut self.known, &change.known);
        change_all(&mut self.owners, &change.owners);
        change_all(&mut self.askers, &change.askers);
        self.pool = change.pool.unwrap_or(self.pool);
    }
}

impl NamesChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
            && self.owners.is_empty()
            && self.askers.is_empty()
            && self.pool.is_none()
    }
}

/// Carries out what changes in a table; `None` removes.
pub(crate) fn change_all<K: Ord + Clone, V: Clone>(
    map: &mut BTreeMap<K, V>,
    change: &BTreeMap<K, Option<V>>,
) {
    for (key, value) in change {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

/// Looks up a name, without the dot at its end and in lower case, for an instance that asks.
///
/// `web` is the `web` of the own deployment, else of all deployments of the network; `web.shop` and
/// `web.shop.jaco.internal` that of `shop`. `tasks.` before it changes nothing. The first network that knows the
/// name answers: the order is the one in which the instance is attached, which its user wrote.
pub fn lookup(names: &Names, asker: &Asker, name: &str) -> Lookup {
    let in_zone = name == ZONE || name.strip_suffix(ZONE).is_some_and(|rest| rest.ends_with('.'));
    let short = match name.strip_suffix(ZONE) {
        Some(rest) if in_zone => rest.trim_end_matches('.'),
        Some(_) | None => name,
    };
    let bare = short.strip_prefix("tasks.").unwrap_or(short);
    for network in &asker.networks {
        let found = if in_zone { None } else { own_first(names, *network, asker, bare) };
        if let Some(addresses) = found.or_else(|| of_deployment(names, *network, bare)) {
            return Lookup::Known(addresses);
        }
    }
    if in_zone { Lookup::Unknown } else { Lookup::Foreign }
}

fn own_first(names: &Names, network: NetworkId, asker: &Asker, name: &str) -> Option<Addresses> {
    let by_deployment = names.known.get(&(network, name.to_owned()))?;
    if let Some(own) = by_deployment.get(&asker.deployment) {
        return Some(own.clone());
    }
    let mut all = Addresses::default();
    by_deployment.values().for_each(|addresses| all.merge(addresses));
    Some(all)
}

/// `web.shop`: the last label is the deployment, as a name itself may contain dots.
fn of_deployment(names: &Names, network: NetworkId, name: &str) -> Option<Addresses> {
    let (short, deployment) = name.rsplit_once('.')?;
    let deployment = DeploymentName::new(deployment).ok()?;
    names.known.get(&(network, short.to_owned()))?.get(&deployment).cloned()
}

/// The full name of an address for an instance that asks, or `None` if it is in none of its networks.
pub fn lookup_address(names: &Names, asker: &Asker, address: Ipv4Addr) -> Option<String> {
    let owner = names.owners.get(&address)?;
    asker.networks.contains(&owner.network).then(|| format!("{}.{ZONE}", owner.name))
}
