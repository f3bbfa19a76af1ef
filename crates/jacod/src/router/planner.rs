//! Which plan the router of this node should hold now, and what of it is released.

use jaco_dataplane::{PlanChange, Planner, PublicKey, SitePlan};
use jaco_net::RouterStatus;
use jaco_state::ClusterState;
use jaco_types::{NodeId, StateIndex};

/// Plans for the router of this node over one connection, and remembers what it was told.
pub(super) struct SitePlanner {
    node: NodeId,
    planner: Planner,
    sent: Option<Sent>,
    /// The newest state that has the last plan, if this node makes the plans.
    current: Option<StateIndex>,
}

/// What the router was told over this connection.
#[derive(Clone, Copy)]
struct Sent {
    /// The state of the last plan.
    index: StateIndex,
    /// The state of the last one that was told whole.
    whole: StateIndex,
}

/// What the router is to be told.
#[derive(Debug)]
pub(super) enum Order<'a> {
    /// A whole plan: the first one, and after a change that the router could not take.
    Whole(&'a SitePlan),
    /// What differs from the plan of this state, which it was told before.
    Change(StateIndex, Box<PlanChange>),
}

impl SitePlanner {
    pub(super) fn new(node: NodeId) -> Self {
        Self { node, planner: Planner::new(node), sent: None, current: None }
    }

    /// What leads the router to the plan that it should hold now, if that is another one than before and this node
    /// makes it.
    pub(super) fn next(
        &mut self,
        state: &ClusterState,
        router: &RouterStatus,
    ) -> Option<Order<'_>> {
        let change = self.planner.next(state);
        self.current = self.is_mine(state, router).then_some(state.index);
        if self.current.is_none() {
            // Another member tells it what to hold meanwhile.
            self.sent = None;
            return None;
        }
        let sent = self.sent.filter(|sent| router.refused() <= Some(sent.whole));
        let Some(sent) = sent else {
            self.sent = Some(Sent { index: state.index, whole: state.index });
            return Some(Order::Whole(self.planner.plan()));
        };
        if change.is_empty() {
            return None;
        }
        self.sent = Some(Sent { index: state.index, ..sent });
        Some(Order::Change(sent.index, Box::new(change)))
    }

    /// Whether this node makes the plans of the router. Before the others know the key of this router, nobody can tell
    /// whether they share it.
    fn is_mine(&self, state: &ClusterState, router: &RouterStatus) -> bool {
        let member = state.nodes.get(&self.node);
        let reported = member.and_then(|member| member.facts.router.as_ref()?.link);
        let keys = [Some(router.key()), router.next_key()];
        reported.is_some_and(|link| keys.contains(&Some(PublicKey(link.key))))
            && self.planner.keeper() == self.node
    }

    /// The newest state of which it is known that nobody is led any more to what had left by then; `None` where this
    /// node makes no plans, or the router does not carry them out.
    pub(super) fn released(&self, router: &RouterStatus) -> Option<StateIndex> {
        let (current, planned) = (self.current?, self.sent?.index);
        let forgotten = router.forgotten().filter(|_| router.error.is_none())?;
        let is_settled = router.applied() == Some(planned) && forgotten >= planned;
        // Of another plan, only what was known before this one was made counts.
        let before = StateIndex(planned.0.saturating_sub(1));
        Some(if is_settled { current } else { forgotten.min(before) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use jaco_state::network::NetworkPool;
    use jaco_types::{
        Availability, Node, NodeFacts, NodeRouter, NodeStatus, RouterLink, Timestamp, TunnelBackend,
    };

    use super::*;

    const N1: NodeId = NodeId(1);

    fn member(id: u8, key: u8) -> Node {
        let link = RouterLink { key: [key; 32], port: 51820, backend: TunnelBackend::Userspace };
        let router = Some(NodeRouter { link: Some(link), problem: None });
        Node {
            id: NodeId(id.into()),
            hostname: format!("n{id}").parse().unwrap(),
            address: format!("192.0.2.{id}:7000"),
            mesh_address: Some(Ipv4Addr::new(10, 64, 0, id)),
            key_fingerprint: [0; 32],
            status: NodeStatus::Ready,
            status_reason: String::new(),
            availability: Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts: NodeFacts { router, ..NodeFacts::default() },
            labels: BTreeMap::new(),
            joined_at: Timestamp(0),
            modified: StateIndex(1),
        }
    }

    /// A state of this index in which the member has the router of this key.
    fn state(index: u64, key: u8) -> ClusterState {
        let mut state = ClusterState { index: StateIndex(index), ..ClusterState::default() };
        let pool = "10.64.0.0/12".parse().unwrap();
        state.networks.pool = Some(NetworkPool::new(pool, 1420).unwrap());
        state.nodes.insert(N1, member(1, key));
        state
    }

    /// What a router of key 7 says that has refused this change.
    fn status(refused: Option<u64>) -> RouterStatus {
        with_next_key(refused, "null")
    }

    fn with_next_key(refused: Option<u64>, next: &str) -> RouterStatus {
        let refused = refused.map_or("null".to_owned(), |index| index.to_string());
        let key = vec!["7"; 32].join(",");
        let text = format!(
            r#"{{"key":[{key}],"next_key":{next},"port":51820,"userspace":true,"applied":null,
                "forgotten":null,"refused":{refused},"failed":{{}},"listeners_failed":{{}},"error":null}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// The next order, in short.
    fn next(planner: &mut SitePlanner, state: &ClusterState, refused: Option<u64>) -> String {
        shown(planner, state, &status(refused))
    }

    fn shown(planner: &mut SitePlanner, state: &ClusterState, status: &RouterStatus) -> String {
        match planner.next(state, status) {
            None => "nothing".to_owned(),
            Some(Order::Whole(plan)) => format!("whole, mtu {:?}", plan.tunnel.map(|it| it.mtu)),
            Some(Order::Change(base, change)) => {
                format!("change of {base}, mtu {:?}", change.tunnel.flatten().map(|it| it.mtu))
            }
        }
    }

    fn with_mtu(index: u64, mtu: u16) -> ClusterState {
        let mut state = state(index, 7);
        state.networks.pool.as_mut().unwrap().mtu = mtu;
        state
    }

    /// NET-13: a router is told a whole plan first, then changes, and once for each refusal a whole plan again.
    #[test]
    fn a_gap_is_closed_by_a_whole_plan() {
        let mut planner = SitePlanner::new(N1);
        let mut told = |state: &ClusterState, refused| next(&mut planner, state, refused);
        assert_eq!(told(&state(10, 7), None), "whole, mtu Some(1420)");
        assert_eq!(told(&state(11, 7), None), "nothing", "the plan is the same");
        assert_eq!(told(&with_mtu(12, 1400), None), "change of 10, mtu Some(1400)");
        assert_eq!(told(&with_mtu(15, 1300), None), "change of 12, mtu Some(1300)");
        // Of what it was told since, nothing counts.
        assert_eq!(told(&with_mtu(15, 1300), Some(12)), "whole, mtu Some(1300)");
        assert_eq!(told(&with_mtu(15, 1300), Some(12)), "nothing", "that is on its way");
        assert_eq!(told(&with_mtu(16, 1280), Some(12)), "change of 15, mtu Some(1280)");
        assert_eq!(told(&with_mtu(16, 1280), Some(16)), "whole, mtu Some(1280)");
        assert_eq!(told(&with_mtu(16, 1280), None), "nothing");
    }

    /// NET-13: a router that has another key ready is told changes before the cluster knows that key, and after.
    #[test]
    fn a_router_with_a_next_key_is_told_of_it() {
        let mut planner = SitePlanner::new(N1);
        let offered = with_next_key(None, &format!("[{}]", vec!["9"; 32].join(",")));
        assert_eq!(next(&mut planner, &state(10, 7), None), "whole, mtu Some(1420)");
        assert_eq!(shown(&mut planner, &state(11, 7), &offered), "nothing");
        let Some(Order::Change(StateIndex(10), change)) = planner.next(&state(12, 9), &offered)
        else {
            panic!("no change is told")
        };
        let tunnel = change.tunnel.flatten().unwrap();
        assert_eq!(tunnel.key, PublicKey([9; 32]));
        assert_eq!(shown(&mut planner, &state(13, 8), &offered), "nothing", "it is not ours");
    }

    /// NET-13: what another member may have told it meanwhile is not built upon.
    #[test]
    fn a_router_that_comes_back_is_told_a_whole_plan() {
        let mut planner = SitePlanner::new(N1);
        assert_eq!(next(&mut planner, &state(10, 7), None), "whole, mtu Some(1420)");
        assert_eq!(next(&mut planner, &state(11, 8), None), "nothing", "it is not ours");
        assert_eq!(planner.released(&status(None)), None);
        assert_eq!(next(&mut planner, &state(12, 7), None), "whole, mtu Some(1420)");
    }
}
