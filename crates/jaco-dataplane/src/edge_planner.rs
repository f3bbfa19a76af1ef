//! Plans for the edge of one site while the replicated state changes: what has not changed is not looked at
//! again, and shared with the plan before.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::edge::RouteClaim;
use jaco_state::{ClusterState, Deployment, Table};
use jaco_types::{
    DeploymentName, InstanceId, InstanceObserved, Node as Member, NodeId, ReplicaId, RouteKey,
    ServiceKey, Slot, TerminatingInstance,
};

use crate::edge::{EdgePlan, EdgeService, Route, RouteKey as EdgeKey};
use crate::edge_of_state::{
    edge_key, listeners, plan_edge, route_of, routes, service_key, service_of,
};
use crate::of_state::nodes;
use crate::topology::Node;

/// Plans for the edge of one site, state after state. Its plan is always the one from scratch (NET-13).
#[derive(Debug)]
pub struct EdgePlanner {
    node: NodeId,
    /// Of the state that was planned for last.
    tables: Option<Tables>,
    /// The members of that state.
    nodes: BTreeMap<NodeId, Node>,
    plan: EdgePlan,
}

/// What plans are made from: while it is the same, so is the plan.
#[derive(Debug)]
struct Tables {
    claims: Table<RouteKey, RouteClaim>,
    nodes: Table<NodeId, Member>,
    slots: Table<ReplicaId, Slot>,
    deployments: Table<DeploymentName, Deployment>,
    observed: Table<InstanceId, InstanceObserved>,
    terminating: Table<InstanceId, TerminatingInstance>,
}

impl Tables {
    fn of(state: &ClusterState) -> Self {
        Self {
            claims: state.edges.claims.clone(),
            nodes: state.nodes.clone(),
            slots: state.slots.clone(),
            deployments: state.deployments.clone(),
            observed: state.observed.clone(),
            terminating: state.terminating.clone(),
        }
    }
}

impl EdgePlanner {
    /// Plans for the edge of the site that a node is in, from an empty plan on.
    pub fn new(node: NodeId) -> Self {
        Self { node, tables: None, nodes: BTreeMap::new(), plan: EdgePlan::default() }
    }

    /// Plans for a state; the plan if it is another one than before.
    ///
    /// It costs as much as the rows that have changed, and the slots and routes of the deployments that they
    /// belong to. Where members or sites have changed, everything is planned anew.
    pub fn next(&mut self, state: &ClusterState) -> Option<&EdgePlan> {
        let before = self.tables.replace(Tables::of(state));
        let is_changed = match before.filter(|before| self.has_same_nodes(before, state)) {
            Some(before) => self.follow(&before, state),
            None => self.begin(state),
        };
        is_changed.then_some(&self.plan)
    }

    /// The plan for the last state.
    pub fn plan(&self) -> &EdgePlan {
        &self.plan
    }

    fn has_same_nodes(&self, before: &Tables, state: &ClusterState) -> bool {
        before.nodes.is_same(&state.nodes) || self.nodes == nodes(state)
    }

    fn begin(&mut self, state: &ClusterState) -> bool {
        self.nodes = nodes(state);
        let mut plan = plan_edge(state, self.node);
        share(&mut plan.routes, &self.plan.routes);
        share(&mut plan.services, &self.plan.services);
        let is_changed = plan != self.plan;
        self.plan = plan;
        is_changed
    }

    /// Brings the plan up to the state.
    fn follow(&mut self, before: &Tables, state: &ClusterState) -> bool {
        let mut is_changed = false;
        let deployments = changed_deployments(before, state);
        // A route may have gone from one deployment to another: all go before any comes.
        for row in state.edges.claims.changed_since(&before.claims) {
            if row.new.is_none() {
                is_changed |= self.remove_route(row.key);
            }
        }
        let mut services = changed_services(before, state);
        for name in &deployments {
            is_changed |= self.follow_routes(state, name);
            services.extend(self.services_of(name));
        }
        services.retain(|key| self.plan.services.contains_key(key));
        for service in &services {
            let planned = service_of(state, &self.nodes, self.node, service);
            is_changed |= self.put_service(service, planned);
        }
        if is_changed {
            self.plan.listeners = listeners(&self.plan.routes);
        }
        is_changed
    }

    /// Brings the routes of a deployment up to the state, and which of its services there are.
    fn follow_routes(&mut self, state: &ClusterState, name: &DeploymentName) -> bool {
        let mut is_changed = false;
        let mut wanted = BTreeSet::new();
        if let Some(deployment) = state.deployments.get(name) {
            for (key, route) in routes(state, deployment) {
                wanted.extend(route.upstream().map(|upstream| service_key(deployment, upstream)));
                if let Some((key, route)) = route_of(deployment, key, route) {
                    is_changed |= self.put_route(key, route);
                }
            }
        }
        for gone in self.services_of(name).into_iter().filter(|key| !wanted.contains(key)) {
            self.plan.services.remove(&gone);
            is_changed = true;
        }
        for new in wanted {
            if let Entry::Vacant(entry) = self.plan.services.entry(new) {
                entry.insert(Arc::default());
                is_changed = true;
            }
        }
        is_changed
    }

    fn remove_route(&mut self, key: &RouteKey) -> bool {
        edge_key(key).is_some_and(|key| self.plan.routes.remove(&key).is_some())
    }

    fn put_route(&mut self, key: EdgeKey, route: Arc<Route>) -> bool {
        if self.plan.routes.get(&key) == Some(&route) {
            return false;
        }
        self.plan.routes.insert(key, route);
        true
    }

    fn put_service(&mut self, key: &ServiceKey, service: EdgeService) -> bool {
        let held = self.plan.services.get(key);
        if held.is_some_and(|held| **held == service) {
            return false;
        }
        self.plan.services.insert(key.clone(), Arc::new(service));
        true
    }

    /// The services of a deployment that are in the plan.
    fn services_of(&self, name: &DeploymentName) -> Vec<ServiceKey> {
        let all = self.plan.services.keys();
        all.filter(|key| key.deployment == *name).cloned().collect()
    }
}

/// Takes over from an older plan what is the same.
fn share<K: Ord, V: PartialEq>(plan: &mut BTreeMap<K, Arc<V>>, older: &BTreeMap<K, Arc<V>>) {
    for (key, value) in plan {
        if let Some(held) = older.get(key).filter(|held| *held == value) {
            *value = Arc::clone(held);
        }
    }
}

/// The deployments whose routes or revisions anything was written about.
fn changed_deployments(before: &Tables, state: &ClusterState) -> BTreeSet<DeploymentName> {
    let deployments = state.deployments.changed_since(&before.deployments);
    let mut names: BTreeSet<DeploymentName> =
        deployments.into_iter().map(|row| row.key.clone()).collect();
    for claim in state.edges.claims.changed_since(&before.claims) {
        let owners = [claim.old, claim.new].into_iter().flatten();
        names.extend(owners.map(|claim| claim.deployment.clone()));
    }
    names
}

/// The services whose instances anything was written about.
fn changed_services(before: &Tables, state: &ClusterState) -> BTreeSet<ServiceKey> {
    let slots = state.slots.changed_since(&before.slots).into_iter();
    let slots = slots.flat_map(|row| [row.old, row.new]).flatten().map(|slot| &slot.service);
    let terminating = state.terminating.changed_since(&before.terminating).into_iter();
    let terminating =
        terminating.flat_map(|row| [row.old, row.new]).flatten().map(|row| &row.service);
    // What a node says of its containers does not say whose they are.
    let observed = state.observed.changed_since(&before.observed).into_iter();
    let observed = observed.flat_map(|row| {
        let slot = state.slots.get(&row.key.replica).map(|slot| &slot.service);
        let leaving = state.terminating.get(row.key).map(|row| &row.service);
        [slot, leaving]
    });
    slots.chain(terminating).chain(observed.flatten()).cloned().collect()
}
