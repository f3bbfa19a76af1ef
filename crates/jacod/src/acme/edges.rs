//! Waits until the edges answer a challenge: an authority asks any of them, once, and soon.

use std::collections::BTreeMap;
use std::time::Duration;

use jaco_dataplane::keeper;
use jaco_scheduler::ConsumerSignal;
use jaco_server::Member;
use jaco_state::ClusterState;
use jaco_store::Store;
use jaco_types::{ConsumerName, Hostname, Node, NodeId, NodeStatus, StateIndex};
use tokio::time::timeout;
use tracing::warn;

use crate::edge::CONSUMER_NAME;

/// How long an edge is waited for: longer than the first one of a node takes to start, and than it takes until a node that
/// does not answer is down. Who asks an edge after that which still does not know is held there for a moment.
const LIMIT: Duration = Duration::from_secs(10);

/// What endpoint consumers said last.
type Said = BTreeMap<ConsumerName, ConsumerSignal>;

/// Waits until each edge that can be reached carries out the plan of a state, for a bounded time.
pub(super) async fn await_plan_of(member: &Member, index: StateIndex) {
    let mut news = (member.signals.watch_acknowledgements(), member.store.watch_index());
    let followed = async {
        loop {
            news.0.borrow_and_update();
            news.1.borrow_and_update();
            if lagging(member, index).is_empty() {
                return;
            }
            // Neither ends before this node does.
            tokio::select! {
                _ = news.0.changed() => {}
                _ = news.1.changed() => {}
            }
        }
    };
    if timeout(LIMIT, followed).await.is_err() {
        let nodes = lagging(member, index);
        let nodes: Vec<&str> = nodes.iter().map(Hostname::as_str).collect();
        warn!(nodes = nodes.join(", "), "edges that may not answer a challenge");
    }
}

/// The nodes whose edge should follow an entry and has not said that it does.
fn lagging(member: &Member, index: StateIndex) -> Vec<Hostname> {
    let said = member.signals.snapshot().consumers;
    member.store.read(|state| lagging_of(state, &said, index))
}

fn lagging_of(state: &ClusterState, said: &Said, index: StateIndex) -> Vec<Hostname> {
    let serving = state.nodes.values().filter(|node| has_edge(state, node));
    let lagging =
        serving.filter(|node| node.facts.edge.is_none() || !follows(state, said, (node.id, index)));
    lagging.map(|node| node.hostname.clone()).collect()
}

/// Whether a node speaks for an edge, or will once that has started.
fn has_edge(state: &ClusterState, node: &Node) -> bool {
    node.status != NodeStatus::Down
        && node.facts.router.is_some()
        && keeper(state, node.id) == node.id
}

/// Whether the edge of a node has said, by its present attachment, that it follows an entry.
fn follows(state: &ClusterState, said: &Said, (node, index): (NodeId, StateIndex)) -> bool {
    let edges = state.consumers.values().filter(|row| row.name.as_str().starts_with(CONSUMER_NAME));
    let mut own = edges.filter(|row| row.node == node);
    own.any(|row| {
        said.get(&row.name)
            .is_some_and(|said| said.session == row.session && said.acknowledgement.index >= index)
    })
}

#[cfg(test)]
mod tests {
    use jaco_types::{
        Acknowledgement, Availability, Consumer, Millis, NodeEdge, NodeFacts, NodeRouter, Timestamp,
    };

    use super::*;

    fn node(id: u64, facts: NodeFacts) -> (NodeId, Node) {
        let node = Node {
            id: NodeId(id),
            hostname: Hostname::new(&format!("n{id}")).unwrap(),
            address: String::new(),
            mesh_address: None,
            key_fingerprint: [0; 32],
            status: NodeStatus::Ready,
            status_reason: String::new(),
            availability: Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts,
            labels: BTreeMap::new(),
            joined_at: Timestamp(0),
            modified: StateIndex(id),
        };
        (node.id, node)
    }

    fn with_router(edge: Option<NodeEdge>) -> NodeFacts {
        NodeFacts { router: Some(NodeRouter::default()), edge, ..NodeFacts::default() }
    }

    fn attached(node: u64, session: u64) -> (ConsumerName, Consumer) {
        let name = ConsumerName::new(&format!("{CONSUMER_NAME}-n{node}")).unwrap();
        let consumer = Consumer {
            name: name.clone(),
            node: NodeId(node),
            lease: Millis(15_000),
            session: StateIndex(session),
            attached_at: Timestamp(0),
        };
        (name, consumer)
    }

    fn saying(node: u64, session: u64, index: u64) -> (ConsumerName, ConsumerSignal) {
        let acknowledgement = Acknowledgement::of(StateIndex(index));
        let session = StateIndex(session);
        let signal = ConsumerSignal { session, heard_at: Timestamp(0), acknowledgement };
        (attached(node, 0).0, signal)
    }

    fn names(state: &ClusterState, said: &Said) -> Vec<String> {
        let lagging = lagging_of(state, said, StateIndex(50));
        lagging.iter().map(ToString::to_string).collect()
    }

    /// R-EDGE-2: an edge is waited for from the moment when its node has to have one until it says that it follows the
    /// entry; not what it said before it began anew, not that of a node without router, and not that of one that is down.
    #[test]
    fn every_edge_that_may_be_asked_is_waited_for() {
        let edge = || Some(NodeEdge::default());
        let mut state = ClusterState {
            nodes: [
                node(1, with_router(edge())),
                node(2, with_router(None)),
                node(3, NodeFacts::default()),
            ]
            .into_iter()
            .collect(),
            ..ClusterState::default()
        };
        assert_eq!(
            names(&state, &Said::new()),
            ["n1", "n2"],
            "one is not attached, one not started"
        );
        state.nodes.insert(NodeId(2), node(2, with_router(edge())).1);
        state.consumers = [attached(1, 7), attached(2, 8)].into_iter().collect();
        assert_eq!(names(&state, &[saying(1, 7, 50), saying(2, 8, 49)].into()), ["n2"]);
        assert_eq!(names(&state, &[saying(1, 6, 60), saying(2, 8, 51)].into()), ["n1"]);
        let down = Node { status: NodeStatus::Down, ..node(1, with_router(edge())).1 };
        state.nodes.insert(NodeId(1), down);
        assert_eq!(names(&state, &[saying(2, 8, 50)].into()), [""; 0]);
    }
}
