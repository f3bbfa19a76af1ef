//! Plans for one site while the replicated state changes: what has not changed is not looked at again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_state::ClusterState;
use jaco_state::view::slots_of;
use jaco_types::{InstanceId, Ipv4Prefix, NetworkId, NodeId, Slot};

use crate::change::{PeerChange, PlanChange};
use crate::of_state::{instance_of, mesh, network, nodes};
use crate::plan::{plan, plan_part};
use crate::served::{Served, changed_deployments};
use crate::site::SitePlan;
use crate::tables::Tables;
use crate::topology::{Instance, PublicKey, Topology};

/// Plans for one site, state after state. Its plan is always the one from scratch (NET-13).
#[derive(Debug)]
pub struct Planner {
    site: NodeId,
    /// Of the state that was planned for last.
    tables: Option<Tables>,
    topology: Topology,
    served: Served,
    /// The instances that have an address in a network.
    members: BTreeMap<NetworkId, BTreeSet<InstanceId>>,
    plan: SitePlan,
}

/// Networks that are to be planned again.
#[derive(Debug, Default)]
struct Networks {
    changed: BTreeSet<NetworkId>,
    /// Where their addresses were, of those that have others now, or none.
    former: BTreeMap<NetworkId, Ipv4Prefix>,
}

impl Planner {
    /// Plans for the site that this node keeps, from an empty plan on.
    pub fn new(site: NodeId) -> Self {
        Self {
            site,
            tables: None,
            topology: Topology::default(),
            served: Served::default(),
            members: BTreeMap::new(),
            plan: SitePlan::default(),
        }
    }

    /// Plans for a state, and says what differs from the plan before.
    ///
    /// It costs as much as the rows that have changed and the networks that their instances are in. Where routers or
    /// sites have changed, everything is planned anew.
    pub fn next(&mut self, state: &ClusterState) -> PlanChange {
        let tables = self.tables.replace(Tables::of(state));
        let networks = tables.and_then(|before| self.follow(&before, state));
        let change = match networks {
            Some(networks) => self.replan(&networks),
            None => self.begin(state),
        };
        self.plan.change(&change);
        change
    }

    /// The plan for the last state.
    pub fn plan(&self) -> &SitePlan {
        &self.plan
    }

    /// The member that keeps the router of this site, by the last state.
    pub fn keeper(&self) -> NodeId {
        self.topology.site_of(self.site)
    }

    fn begin(&mut self, state: &ClusterState) -> PlanChange {
        self.topology = Topology::of(state);
        self.served = Served::of(state);
        self.members.clear();
        for (id, instance) in &self.topology.instances {
            for network in networks_of(instance) {
                self.members.entry(network).or_default().insert(id.clone());
            }
        }
        PlanChange::between(&self.plan, &plan(&self.topology, self.site))
    }

    /// Brings the topology up to the state. Returns the networks that are to be planned again; `None` if all are, and
    /// then the topology is not that of the state.
    fn follow(&mut self, before: &Tables, state: &ClusterState) -> Option<Networks> {
        let is_mesh = self.topology.mesh.is_some() && self.topology.mesh == mesh(state);
        let same_nodes =
            || before.nodes.is_same(&state.nodes) || self.topology.nodes == nodes(state);
        if !is_mesh || !same_nodes() {
            return None;
        }
        let (mut networks, members) = self.follow_networks(before, state);
        let exposed = self.follow_served(before, state);
        for id in changed_instances(before, state).into_iter().chain(exposed).chain(members) {
            self.follow_instance(state, id, &mut networks.changed);
        }
        Some(networks)
    }

    /// Brings what edges serve up to the state. Returns the instances that may be reached by others now.
    fn follow_served(&mut self, before: &Tables, state: &ClusterState) -> Vec<InstanceId> {
        let mut deployments = changed_deployments(before, state);
        deployments.retain(|name| self.served.follow(state, name));
        // Few changes are about routes and published ports: only then all instances are looked at.
        if deployments.is_empty() && before.ports.is_same(&state.edges.ports) {
            return Vec::new();
        }
        self.topology.listeners = self.served.listeners(state);
        let instances = self.topology.instances.iter();
        let of_them = instances.filter(|(_, one)| deployments.contains(&one.deployment));
        of_them.map(|(id, _)| id.clone()).collect()
    }

    /// Brings the networks up to the state. Returns their instances too: which aliases they have depends on whose the networks
    /// are.
    fn follow_networks(
        &mut self,
        before: &Tables,
        state: &ClusterState,
    ) -> (Networks, Vec<InstanceId>) {
        let (mut networks, mut members) = (Networks::default(), Vec::new());
        for row in state.networks.rows.changed_since(&before.networks) {
            // A row has the addresses that are given away too; here they change nothing.
            let new = row.new.map(network);
            if self.topology.networks.get(row.key) == new.as_ref() {
                continue;
            }
            let old = match new {
                Some(new) => self.topology.networks.insert(*row.key, new),
                None => self.topology.networks.remove(row.key),
            };
            networks.former.extend(old.map(|old| (*row.key, old.subnet.prefix())));
            // Without members it is in no plan. What they may ask depends on all their networks.
            for id in self.members.get(row.key).into_iter().flatten() {
                members.push(id.clone());
                let member = self.topology.instances.get(id);
                networks.changed.extend(member.into_iter().flat_map(networks_of));
            }
        }
        (networks, members)
    }

    fn follow_instance(
        &mut self,
        state: &ClusterState,
        id: InstanceId,
        networks: &mut BTreeSet<NetworkId>,
    ) {
        let new = instance_of(state, &id, |service| self.served.exposure(service));
        let old = self.topology.instances.get(&id);
        if old == new.as_ref() {
            return;
        }
        for network in old.into_iter().flat_map(networks_of) {
            networks.insert(network);
            if let Entry::Occupied(mut members) = self.members.entry(network) {
                members.get_mut().remove(&id);
                if members.get().is_empty() {
                    members.remove();
                }
            }
        }
        for network in new.iter().flat_map(networks_of) {
            networks.insert(network);
            self.members.entry(network).or_default().insert(id.clone());
        }
        match new {
            Some(new) => drop(self.topology.instances.insert(id, new)),
            None => drop(self.topology.instances.remove(&id)),
        }
    }

    /// What changes in these networks, by the topology.
    fn replan(&mut self, networks: &Networks) -> PlanChange {
        let Networks { changed: networks, former } = networks;
        let ids: BTreeSet<&InstanceId> =
            networks.iter().filter_map(|id| self.members.get(id)).flatten().collect();
        let instances = ids.iter().filter_map(|id| self.topology.instances.get(*id));
        let current =
            |id: &NetworkId| self.topology.networks.get(id).map(|network| network.subnet.prefix());
        let prefixes = networks
            .iter()
            .filter_map(|id| Some((*id, former.get(id).copied().or_else(|| current(id))?)));
        let before = self.plan.part(&prefixes.collect());
        let after = plan_part(&self.topology, self.site, networks, instances);
        let peers = self.change_peers(&before, &after);
        PlanChange { peers, ..PlanChange::between(&before, &after) }
    }

    /// What changes of peers, which have addresses in other networks too: one is there as long as it has any besides
    /// that of its own router, or anything here is served to the edges of all.
    fn change_peers(
        &self,
        before: &SitePlan,
        after: &SitePlan,
    ) -> BTreeMap<PublicKey, Option<PeerChange>> {
        let (gone, new) = (&before.policy.served, &after.policy.served);
        let others = self.plan.policy.served.len() - gone.len();
        let is_serving = others + new.len() > 0;
        let kept_for_edges = self.plan.peers.keys().filter(|_| !gone.is_empty() && !is_serving);
        let keys: BTreeSet<_> =
            before.peers.keys().chain(after.peers.keys()).chain(kept_for_edges).collect();
        let mut changes = BTreeMap::new();
        for key in keys {
            let (held, old) = (self.plan.peers.get(key), before.peers.get(key));
            let new = after.peers.get(key);
            let endpoint = new.or(held).and_then(|peer| peer.endpoint);
            let is_held =
                |address: &&Ipv4Addr| held.is_some_and(|held| held.addresses.contains(address));
            let mut change = PeerChange { endpoint, ..PeerChange::default() };
            let stays =
                |address: &&Ipv4Addr| new.is_some_and(|new| new.addresses.contains(address));
            let lost = old.into_iter().flat_map(|old| &old.addresses);
            change.lost = lost.filter(|address| !stays(address)).copied().collect();
            let gained = new.into_iter().flat_map(|new| &new.addresses);
            change.gained = gained.filter(|address| !is_held(address)).copied().collect();
            let had = held.map_or(0, |held| held.addresses.len());
            let left = had - change.lost.len() + change.gained.len();
            if left <= 1 && !is_serving {
                changes.insert(*key, None);
            } else if !change.lost.is_empty() || !change.gained.is_empty() {
                changes.insert(*key, Some(change));
            }
        }
        changes
    }
}

fn networks_of(instance: &Instance) -> impl Iterator<Item = NetworkId> {
    instance.addresses.iter().map(|(id, _)| *id)
}

/// The instances that anything was written about.
fn changed_instances(before: &Tables, state: &ClusterState) -> BTreeSet<InstanceId> {
    let mut ids = BTreeSet::new();
    let of_slot = |slot: &Slot| slot.instances().map(|(id, _)| id).collect::<Vec<_>>();
    for slot in state.slots.changed_since(&before.slots) {
        ids.extend([slot.old, slot.new].into_iter().flatten().flat_map(of_slot));
    }
    // A revision that comes or goes brings aliases or takes them along.
    for deployment in state.deployments.changed_since(&before.deployments) {
        ids.extend(slots_of(state, deployment.key).flat_map(of_slot));
    }
    let observed = state.observed.changed_since(&before.observed);
    ids.extend(observed.into_iter().map(|row| row.key.clone()));
    let terminating = state.terminating.changed_since(&before.terminating);
    ids.extend(terminating.into_iter().map(|row| row.key.clone()));
    let quarantine = state.networks.quarantine.changed_since(&before.quarantine);
    ids.extend(quarantine.into_iter().map(|row| row.key.clone()));
    ids
}
