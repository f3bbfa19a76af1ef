//! Plans for the edge of one site while the replicated state changes: what has not changed is not looked at
//! again, and shared with the plan before.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::{ClusterState, Deployment};
use jaco_types::{DeploymentName, NodeId, Route, RouteKey, ServiceKey};

use crate::edge::{EdgePlan, EdgeService, PlannedRoute};
use crate::edge_of_state::{
    challenges, forwarding, plan_edge, put_route_listeners, service_of, site,
};
use crate::of_state::nodes;
use crate::served::{changed_deployments, listener_key, routes, targets};
use crate::tables::Tables;
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

    /// The member that keeps the edge of this site, by the last state.
    pub fn keeper(&self) -> NodeId {
        site(&self.nodes, self.node)
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
        share_routes(&mut plan, &self.plan);
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
                is_changed |= self.plan.routes.remove(row.key).is_some();
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
        is_changed |= self.follow_ports(before, state);
        if is_changed {
            put_route_listeners(&mut self.plan);
        }
        is_changed | self.follow_challenges(before, state)
    }

    /// Brings the sockets of published ports up to the state.
    fn follow_ports(&mut self, before: &Tables, state: &ClusterState) -> bool {
        let mut is_changed = false;
        for row in state.edges.ports.changed_since(&before.ports) {
            let key = listener_key(*row.key);
            let new = row.new.map(forwarding);
            is_changed |= self.plan.listeners.get(&key) != new.as_ref();
            match new {
                Some(new) => drop(self.plan.listeners.insert(key, new)),
                None => drop(self.plan.listeners.remove(&key)),
            }
        }
        is_changed
    }

    fn follow_challenges(&mut self, before: &Tables, state: &ClusterState) -> bool {
        if before.challenges.is_same(&state.edges.acme.challenges) {
            return false;
        }
        let challenges = challenges(state);
        let is_changed = challenges != self.plan.challenges;
        self.plan.challenges = challenges;
        is_changed
    }

    /// Brings the routes of a deployment up to the state, and which of its services there are.
    fn follow_routes(&mut self, state: &ClusterState, name: &DeploymentName) -> bool {
        let mut is_changed = false;
        let mut wanted = BTreeSet::new();
        if let Some(deployment) = state.deployments.get(name) {
            for (key, route) in routes(state, deployment) {
                is_changed |= self.put_route(deployment, key, route);
            }
            wanted.extend(targets(state, deployment));
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

    fn put_route(&mut self, deployment: &Deployment, key: &RouteKey, route: &Route) -> bool {
        let is_held =
            |held: &PlannedRoute| held.deployment == deployment.name && held.route == *route;
        if self.plan.routes.get(key).is_some_and(is_held) {
            return false;
        }
        let planned = PlannedRoute { deployment: deployment.name.clone(), route: route.clone() };
        self.plan.routes.insert(key.clone(), planned);
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

/// Takes the routes over from an older plan that are the same.
fn share_routes(plan: &mut EdgePlan, older: &EdgePlan) {
    let mut routes = older.routes.clone();
    for row in plan.routes.changed_since(&older.routes) {
        match plan.routes.get_shared(row.key) {
            _ if row.old == row.new => {}
            Some(route) => drop(routes.insert_shared(row.key.clone(), route)),
            None => drop(routes.remove(row.key)),
        }
    }
    plan.routes = routes;
}

/// Takes over from an older plan what is the same.
fn share<K: Ord, V: PartialEq>(plan: &mut BTreeMap<K, Arc<V>>, older: &BTreeMap<K, Arc<V>>) {
    for (key, value) in plan {
        if let Some(held) = older.get(key).filter(|held| *held == value) {
            *value = Arc::clone(held);
        }
    }
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
