//! Which packets pass between the routers of all nodes, from the state and from what routers have found. Pure.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::{Node, NodeId, RouterLink};

use super::hostname;
use crate::router::Reports;

/// The nodes whose routers are asked: of those that share one, the lowest. None where the cluster has no networks.
pub(crate) fn with_routers(state: &ClusterState) -> Vec<NodeId> {
    if state.networks.pool.is_none() {
        return Vec::new();
    }
    let mut by_key: BTreeMap<[u8; 32], NodeId> = BTreeMap::new();
    let mut unknown = Vec::new();
    for node in state.nodes.values() {
        match link(node) {
            Some(link) => {
                by_key.entry(link.key).or_insert(node.id);
            }
            None => unknown.push(node.id),
        }
    }
    by_key.into_values().chain(unknown).collect()
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
    let to = state.nodes.values().find(|node| has_key(node, &peer.key))?;
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
