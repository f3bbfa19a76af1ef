//! The state of the cluster as a whole.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_raft::{Quorum, Status as RaftStatus};
use jaco_state::ClusterState;
use jaco_types::NodeId;

use super::{kek, rotation};
use crate::freshness::Freshness;
use crate::member::Member;
use crate::view;

/// The answer of this node. What is not current is left out, or `unknown`.
pub(super) async fn cluster_status(member: &Member) -> v1::ClusterStatusResponse {
    let freshness = member.freshness_now().await;
    let raft = member.store.raft().status();
    let leader = raft.leader.as_ref().filter(|_| freshness == Freshness::Current);
    let leader = leader.map(|leader| NodeId(leader.id));
    member.store.read(|state| v1::ClusterStatusResponse {
        initialized: true,
        cluster_id: state.meta.as_ref().map(|meta| meta.id.to_string()).unwrap_or_default(),
        name: state.meta.as_ref().map(|meta| meta.name.clone()).unwrap_or_default(),
        leader: leader.map(|id| view::hostname(state, id)).unwrap_or_default(),
        term: raft.term,
        raft_index: state.index.0,
        nodes: nodes(member, state, &raft, freshness),
        answered_by: member.hostname.to_string(),
        quorum_lost: raft.quorum == Quorum::Lost,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        staleness: freshness.message(member.hostname.as_str()),
        rotation: rotation::info(state),
        kek_rotation: kek::info(state),
    })
}

fn nodes(
    member: &Member,
    state: &ClusterState,
    raft: &RaftStatus,
    freshness: Freshness,
) -> Vec<v1::NodeInfo> {
    let suffrage = suffrage(raft);
    let mut nodes = match freshness {
        Freshness::Current => return view::node_infos(state, &suffrage),
        Freshness::Stale { .. } => view::node_infos(state, &suffrage),
        // Its members are in its log, and nothing else of them.
        Freshness::NotCaughtUp { .. } => suffrage
            .iter()
            .map(|(id, suffrage)| v1::NodeInfo {
                id: id.0,
                hostname: if *id == member.id {
                    member.hostname.to_string()
                } else {
                    id.to_string()
                },
                address: raft.members.get(&id.0).cloned().unwrap_or_default(),
                suffrage: (*suffrage).to_owned(),
                ..v1::NodeInfo::default()
            })
            .collect(),
    };
    view::unknown(&mut nodes);
    nodes
}

/// The suffrage of each member of the raft group.
pub(crate) fn suffrage(raft: &RaftStatus) -> view::Suffrage {
    let mut suffrage = BTreeMap::new();
    suffrage.extend(raft.members.keys().map(|id| (NodeId(*id), "learner")));
    suffrage.extend(raft.established_voters.iter().map(|id| (NodeId(*id), "voter")));
    suffrage
}
