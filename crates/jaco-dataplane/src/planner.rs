//! Plans for one site while the replicated state changes: what has not changed is not looked at again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_state::network::{Network as NetworkRow, Quarantine};
use jaco_state::view::slots_of;
use jaco_state::{ClusterState, Deployment, Table};
use jaco_types::{
    DeploymentName, InstanceId, InstanceObserved, NetworkId, Node as Member, NodeId, ReplicaId,
    Slot, TerminatingInstance,
};

use crate::change::{PeerChange, PlanChange};
use crate::of_state::{instance_of, mesh, network, nodes};
use crate::plan::{plan, plan_part};
use crate::site::SitePlan;
use crate::topology::{Instance, PublicKey, Topology};

/// Plans for one site, state after state. Its plan is always the one from scratch (NET-13).
#[derive(Debug)]
pub struct Planner {
    site: NodeId,
    /// Of the state that was planned for last.
    tables: Option<Tables>,
    topology: Topology,
    /// The instances that have an address in a network.
    members: BTreeMap<NetworkId, BTreeSet<InstanceId>>,
    plan: SitePlan,
}

/// What plans are made from: while it is the same, so is the plan.
#[derive(Debug)]
struct Tables {
    nodes: Table<NodeId, Member>,
    slots: Table<ReplicaId, Slot>,
    deployments: Table<DeploymentName, Deployment>,
    observed: Table<InstanceId, InstanceObserved>,
    terminating: Table<InstanceId, TerminatingInstance>,
    networks: Table<NetworkId, NetworkRow>,
    quarantine: Table<InstanceId, Quarantine>,
}

impl Tables {
    fn of(state: &ClusterState) -> Self {
        Self {
            nodes: state.nodes.clone(),
            slots: state.slots.clone(),
            deployments: state.deployments.clone(),
            observed: state.observed.clone(),
            terminating: state.terminating.clone(),
            networks: state.networks.rows.clone(),
            quarantine: state.networks.quarantine.clone(),
        }
    }
}

impl Planner {
    /// Plans for the site that this node keeps, from an empty plan on.
    pub fn new(site: NodeId) -> Self {
        Self {
            site,
            tables: None,
            topology: Topology::default(),
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
    fn follow(&mut self, before: &Tables, state: &ClusterState) -> Option<BTreeSet<NetworkId>> {
        let is_mesh = self.topology.mesh.is_some() && self.topology.mesh == mesh(state);
        let same_nodes =
            || before.nodes.is_same(&state.nodes) || self.topology.nodes == nodes(state);
        if !is_mesh || !same_nodes() {
            return None;
        }
        let mut networks = self.follow_networks(before, state);
        for id in changed_instances(before, state) {
            self.follow_instance(state, id, &mut networks);
        }
        Some(networks)
    }

    fn follow_networks(&mut self, before: &Tables, state: &ClusterState) -> BTreeSet<NetworkId> {
        let mut networks = BTreeSet::new();
        for row in state.networks.rows.changed_since(&before.networks) {
            // A row has the addresses that are given away too; here they change nothing.
            let new = row.new.map(network);
            if self.topology.networks.get(row.key) == new.as_ref() {
                continue;
            }
            match new {
                Some(new) => drop(self.topology.networks.insert(*row.key, new)),
                None => drop(self.topology.networks.remove(row.key)),
            }
            // Without members it is in no plan. What they may ask depends on all their networks.
            for id in self.members.get(row.key).into_iter().flatten() {
                networks.extend(self.topology.instances.get(id).into_iter().flat_map(networks_of));
            }
        }
        networks
    }

    fn follow_instance(
        &mut self,
        state: &ClusterState,
        id: InstanceId,
        networks: &mut BTreeSet<NetworkId>,
    ) {
        let new = instance_of(state, &id);
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
    fn replan(&mut self, networks: &BTreeSet<NetworkId>) -> PlanChange {
        let ids: BTreeSet<&InstanceId> =
            networks.iter().filter_map(|id| self.members.get(id)).flatten().collect();
        let instances = ids.iter().filter_map(|id| self.topology.instances.get(*id));
        let before = self.plan.part(networks);
        let after = plan_part(&self.topology, self.site, networks, instances);
        let peers = self.change_peers(&before, &after);
        PlanChange { peers, ..PlanChange::between(&before, &after) }
    }

    /// What changes of peers, which have addresses in other networks too: one is there as long as it has any besides
    /// that of its own router.
    fn change_peers(
        &self,
        before: &SitePlan,
        after: &SitePlan,
    ) -> BTreeMap<PublicKey, Option<PeerChange>> {
        let keys: BTreeSet<_> = before.peers.keys().chain(after.peers.keys()).collect();
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
            if left <= 1 {
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
