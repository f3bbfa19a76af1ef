//! NET-13: whoever follows a history change by change has what one has that begins anew at each state.

use jaco_dataplane::{Planner, Seen, SitePlan, Topology, diff, plan, plan_edge, steps};
use jaco_state::Table;
use jaco_state::command::EdgeBegin;
use jaco_types::{NetworkReach, NodeId};
use proptest::prelude::*;

use crate::attached::{deploy_attached, networked, start};
use crate::edges::{carry_out_routed, routed};
use crate::histories::{carry_out, report, steps_and_deletions};
use crate::history::History;

/// A planner, the plan of a router that is told its changes, and what that router holds.
struct Followed {
    node: NodeId,
    planner: Planner,
    told: SitePlan,
    seen: Seen,
}

impl Followed {
    fn new(node: NodeId) -> Self {
        let told = SitePlan::default();
        Self { node, planner: Planner::new(node), seen: Seen::of(&told), told }
    }

    /// Goes on to the state of now, and compares.
    fn follow(&mut self, history: &History) -> Result<(), TestCaseError> {
        let topology = Topology::of(&history.state);
        let change = self.planner.next(&history.state);
        let anew = plan(&topology, self.node);
        prop_assert_eq!(self.planner.plan(), &anew);
        // The edge is told of the same sockets, where there are networks.
        if topology.mesh.is_some() {
            let of_edge = plan_edge(&history.state, self.node).listeners.into_keys();
            prop_assert_eq!(&anew.listeners, &of_edge.collect());
        }
        prop_assert_eq!(self.planner.keeper(), topology.site_of(self.node));
        prop_assert_eq!(change.is_empty(), self.told == anew, "{:?}", change);
        self.told.change(&change);
        prop_assert_eq!(&self.told, &anew);
        let steps = steps(&change, &self.seen);
        let steps = steps.unwrap_or_else(|| diff(&self.told, &self.seen));
        steps.iter().for_each(|step| self.seen.carry_out(step));
        prop_assert_eq!(&self.seen, &Seen::of(&anew));
        prop_assert!(self.planner.next(&history.state).is_empty());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// NET-13: over any history, and whichever states of it are seen.
    #[test]
    fn plans_that_follow_are_those_from_scratch(
        steps in steps_and_deletions(),
        skipped in prop::collection::vec(prop::bool::weighted(0.3), 40),
    ) {
        let mut history = networked();
        let nodes = [NodeId::FIRST, history.join("n2"), history.join("n3")];
        for (node, key) in nodes.iter().zip(1..) {
            report(&mut history, *node, key, None);
        }
        let mut followed = nodes.map(Followed::new);
        for (step, skipped) in steps.iter().zip(skipped) {
            carry_out(&mut history, &nodes, step);
            if !skipped {
                followed.iter_mut().try_for_each(|one| one.follow(&history))?;
            }
        }
        followed.iter_mut().try_for_each(|one| one.follow(&history))?;
    }

    /// NET-13: with routes too, which open instances for edges and close them.
    #[test]
    fn plans_follow_routes(
        steps in routed(),
        skipped in prop::collection::vec(prop::bool::weighted(0.3), 60),
    ) {
        let mut history = networked();
        let nodes = [NodeId::FIRST, history.join("n2"), history.join("n3")];
        history.apply(EdgeBegin.into());
        for (node, key) in nodes.iter().zip(1..) {
            report(&mut history, *node, key, None);
        }
        let mut followed = nodes.map(Followed::new);
        for (step, skipped) in steps.iter().zip(skipped) {
            carry_out_routed(&mut history, &nodes, step);
            if !skipped {
                followed.iter_mut().try_for_each(|one| one.follow(&history))?;
            }
        }
        followed.iter_mut().try_for_each(|one| one.follow(&history))?;
    }

    /// NET-13: each table counts by itself, whatever else was written with it.
    #[test]
    fn plans_follow_each_table(
        steps in routed(),
        writes in prop::collection::vec((0..9_usize, any::<prop::sample::Index>()), 20),
    ) {
        let mut history = networked();
        history.apply(EdgeBegin.into());
        let nodes = [NodeId::FIRST, history.join("n2"), history.join("n3")];
        for (node, key) in nodes.iter().zip(1..) {
            report(&mut history, *node, key, None);
        }
        let mut states = vec![history.state.clone()];
        for step in &steps {
            carry_out_routed(&mut history, &nodes, step);
            states.push(history.state.clone());
        }
        let mut followed = nodes.map(Followed::new);
        for (table, state) in &writes {
            let (from, to) = (state.get(&states), &mut history.state);
            match table {
                0 => to.nodes = from.nodes.clone(),
                1 => to.slots = from.slots.clone(),
                2 => to.deployments = from.deployments.clone(),
                3 => to.observed = from.observed.clone(),
                4 => to.terminating = from.terminating.clone(),
                5 => to.networks.rows = from.networks.rows.clone(),
                6 => to.edges.claims = from.edges.claims.clone(),
                7 => to.edges.ports = from.edges.ports.clone(),
                _ => to.networks.quarantine = from.networks.quarantine.clone(),
            }
            followed.iter_mut().try_for_each(|one| one.follow(&history))?;
        }
    }
}

/// NET-13: a cluster whose networks begin later, and one that has none.
#[test]
fn networks_that_begin_are_planned_for() {
    let mut history = History::founded();
    let mut followed = Followed::new(NodeId::FIRST);
    followed.follow(&history).unwrap();
    report(&mut history, NodeId::FIRST, 7, None);
    followed.follow(&history).unwrap();
    history.apply(crate::attached::begin("10.64.0.0/12", 1420));
    followed.follow(&history).unwrap();
    assert!(followed.told.tunnel.is_some());
}

/// NET-13: what a network reaches counts in the other networks of its members too.
#[test]
fn questions_follow_the_reach_of_each_network() {
    let mut history = networked();
    report(&mut history, NodeId::FIRST, 7, None);
    history.apply(deploy_attached("shop", "web:1", &["default", "back"]));
    start(&mut history, 0);
    let mut followed = Followed::new(NodeId::FIRST);
    followed.follow(&history).unwrap();
    assert_eq!(followed.told.names.askers.len(), 2);
    let ids: Vec<_> = history.state.networks.rows.keys().copied().collect();
    for id in ids {
        history.state.networks.rows.get_mut(&id).unwrap().reach = NetworkReach::Internal;
        followed.follow(&history).unwrap();
    }
    history.state.networks.rows = Table::default();
    followed.follow(&history).unwrap();
    assert!(followed.told.ports.is_empty());
}
