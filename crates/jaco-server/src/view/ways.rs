//! Which packets pass between the routers of all nodes, from the state and from what routers have found. Pure.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::{Node, NodeId, NodeStatus, RouterLink};

use super::hostname;
use crate::router::Reports;

/// The nodes whose routers are asked: of those that share one, the lowest that is not down. None where the cluster has no
/// networks.
pub(crate) fn with_routers(state: &ClusterState) -> Vec<NodeId> {
    if state.networks.pool.is_none() {
        return Vec::new();
    }
    let mut by_key: BTreeMap<[u8; 32], (bool, NodeId)> = BTreeMap::new();
    let mut unknown = Vec::new();
    for node in state.nodes.values() {
        match link(node) {
            Some(link) => {
                let rank = (node.status == NodeStatus::Down, node.id);
                let first = by_key.entry(link.key).or_insert(rank);
                *first = rank.min(*first);
            }
            None => unknown.push(node.id),
        }
    }
    by_key.into_values().map(|(_, node)| node).chain(unknown).collect()
}

fn link(node: &Node) -> Option<RouterLink> {
    node.facts.router.as_ref()?.link
}

/// What is between each two routers that have a tunnel, in each direction.
pub(crate) fn ways(state: &ClusterState, reports: &Reports) -> v1::ExamineNetworkResponse {
    let mut routers = Vec::new();
    let mut ways = Vec::new();
    for (id, report) in reports {
        let node = hostname(state, *id);
        match report {
            Err(why) => {
                routers.push(v1::ExaminedRouter {
                    node,
                    unreachable: why.clone(),
                    ..Default::default()
                });
            }
            Ok(report) => {
                let arrived = report.arrived_forbidden.iter();
                let let_through = arrived.map(|address| by_mesh_address(state, address)).collect();
                let problem = report.error.clone();
                routers.push(v1::ExaminedRouter {
                    node,
                    problem,
                    let_through,
                    ..Default::default()
                });
                let peers = report.peers.iter();
                ways.extend(peers.filter_map(|peer| way(state, reports, *id, peer)));
            }
        }
    }
    routers.sort_by(|a, b| a.node.cmp(&b.node));
    ways.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
    let mtu = state.networks.pool.as_ref().map_or(0, |pool| u32::from(pool.mtu));
    v1::ExamineNetworkResponse { routers, ways, mtu }
}

/// From a router to another one: what the other one heard, else what it answered.
fn way(
    state: &ClusterState,
    reports: &Reports,
    from: NodeId,
    peer: &v1::ProbedPeer,
) -> Option<v1::ExaminedWay> {
    let has_key = |node: &&Node, key: &[u8]| link(node).is_some_and(|link| link.key[..] == *key);
    let sharing = || state.nodes.values().filter(|node| has_key(node, &peer.key));
    // Of those that share a router, the one that was asked.
    let to = sharing().find(|node| reports.contains_key(&node.id)).or_else(|| sharing().next())?;
    let own = link(state.nodes.get(&from)?)?;
    let heard = match reports.get(&to.id) {
        Some(Ok(report)) if report.error.is_empty() => {
            report.peers.iter().find(|back| back.key[..] == own.key)
        }
        Some(Ok(_) | Err(_)) | None => None,
    };
    // What was answered has arrived, even where the other one had stopped to listen.
    let arrives = peer.answered_us.is_some() || heard.is_some_and(|back| back.hears);
    let arrives_full = peer.answered_full || heard.is_some_and(|back| back.hears_full);
    Some(v1::ExaminedWay {
        from: hostname(state, from),
        to: to.hostname.to_string(),
        port: link(to).map_or(0, |link| u32::from(link.port)),
        arrives,
        arrives_full,
        one_direction: heard.is_some(),
        sent_forbidden: peer.sent_forbidden,
        path_mtu: peer.path_mtu,
        round_trip_us: peer.answered_us,
    })
}

fn by_mesh_address(state: &ClusterState, address: &str) -> String {
    let has_it = |node: &&Node| node.mesh_address.is_some_and(|own| own.to_string() == *address);
    let node = state.nodes.values().find(has_it);
    node.map_or_else(|| address.to_owned(), |node| node.hostname.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use jaco_state::command::NetworkBegin;
    use jaco_state::{Entry, Outcome, apply};
    use jaco_types::{
        Availability, Hostname, Identity, NodeFacts, NodeRouter, StateIndex, Timestamp,
        TunnelBackend,
    };

    use super::*;

    fn node(id: u8, key: u8) -> (NodeId, Node) {
        let link = RouterLink { key: [key; 32], port: 51820, backend: TunnelBackend::Userspace };
        let node = Node {
            id: NodeId(id.into()),
            hostname: Hostname::new(&format!("n{id}")).unwrap(),
            address: String::new(),
            mesh_address: Some(Ipv4Addr::new(10, 64, 0, id)),
            key_fingerprint: [0; 32],
            status: NodeStatus::Ready,
            status_reason: String::new(),
            availability: Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts: NodeFacts {
                router: Some(NodeRouter { link: Some(link), problem: None }),
                ..NodeFacts::default()
            },
            labels: BTreeMap::new(),
            joined_at: Timestamp(0),
            modified: StateIndex(0),
        };
        (node.id, node)
    }

    /// R-CLI-6: a router that members share is examined by the lowest of them that is not down, and the ways to it are
    /// shown as those of that member.
    #[test]
    fn a_shared_router_is_examined_by_a_member_that_answers() {
        let nodes = [node(1, 7), node(2, 7), node(3, 8)].into_iter().collect();
        let mut state = ClusterState { nodes, ..ClusterState::default() };
        let command = NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1400).into();
        let (index, at, by) = (StateIndex(1), Timestamp(0), Identity::Scheduler);
        let entry = Entry { index, at, by, origin: None, request: None, command };
        assert_eq!(apply(&mut state, &entry), Outcome::Done);
        assert_eq!(with_routers(&state), [NodeId(1), NodeId(3)]);
        state.nodes.get_mut(&NodeId(1)).unwrap().status = NodeStatus::Down;
        assert_eq!(with_routers(&state), [NodeId(2), NodeId(3)]);

        let peer = |key: u8, hears| v1::ProbedPeer {
            key: vec![key; 32].into(),
            hears,
            ..v1::ProbedPeer::default()
        };
        let report = |peer| v1::ProbeRouterResponse { peers: vec![peer], ..Default::default() };
        let reports =
            [(NodeId(2), Ok(report(peer(8, true)))), (NodeId(3), Ok(report(peer(7, false))))];
        let examined = ways(&state, &reports.into_iter().collect());
        let shown: Vec<(&str, &str, bool)> = examined
            .ways
            .iter()
            .map(|way| (way.from.as_str(), way.to.as_str(), way.arrives))
            .collect();
        assert_eq!(shown, [("n2", "n3", false), ("n3", "n2", true)]);
    }
}
