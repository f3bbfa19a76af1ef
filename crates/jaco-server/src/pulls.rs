//! Image pulls in progress and failed ones: live signals that nodes send the leader, and that a status shows. They
//! are asked for only where the state says that something is being pulled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::unit::Bytes;
use jaco_types::{ImagePull, NodeId, Timestamp};

use crate::member::Member;
use crate::view;

/// How long a status waits for the leader's answer. Without one it is shown without progress.
const DEADLINE: Duration = Duration::from_millis(500);

/// By host name.
#[derive(Debug, Default)]
pub(crate) struct Pulls(BTreeMap<String, Vec<ImagePull>>);

/// A pull as heartbeats carry it.
#[must_use]
pub fn message(pull: &ImagePull) -> v1::ImagePull {
    v1::ImagePull { image: pull.image.to_string(), pull: Some(info(pull)) }
}

/// The pulls of a heartbeat.
pub(crate) fn read(pulls: Vec<v1::ImagePull>) -> Vec<ImagePull> {
    let read = |message: v1::ImagePull| {
        let pull = message.pull.unwrap_or_default();
        let next = u64::try_from(pull.next_attempt_at_ms).ok().filter(|at| *at > 0);
        ImagePull {
            image: message.image.into(),
            done: Bytes(pull.done_bytes),
            total: Bytes(pull.total_bytes),
            attempts: pull.attempts,
            next_attempt: next.map(Timestamp),
        }
    };
    pulls.into_iter().map(read).collect()
}

fn info(pull: &ImagePull) -> v1::PullInfo {
    v1::PullInfo {
        done_bytes: pull.done.0,
        total_bytes: pull.total.0,
        attempts: pull.attempts,
        next_attempt_at_ms: pull.next_attempt.map_or(0, view::millis),
    }
}

/// The pulls of nodes, from the leader's signals.
pub(crate) async fn of(nodes: &BTreeSet<NodeId>, state: &ClusterState, member: &Member) -> Pulls {
    if nodes.is_empty() {
        return Pulls::default();
    }
    let pulls = told(member, nodes).await.into_iter();
    Pulls(pulls.map(|(node, pulls)| (view::hostname(state, node), pulls)).collect())
}

/// What the nodes told the leader.
async fn told(member: &Member, nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, Vec<ImagePull>> {
    if member.store.leads() {
        return member.signals.pulls(nodes);
    }
    let Some((leader, address)) = member.store.leader_elsewhere() else { return BTreeMap::new() };
    let request = v1::PullsRequest { nodes: nodes.iter().map(|node| node.0).collect() };
    match member.peers.pulls((leader, &address), request, DEADLINE).await {
        Ok(told) => told.nodes.into_iter().map(|of| (NodeId(of.node), read(of.pulls))).collect(),
        Err(error) => {
            tracing::debug!(%leader, %error, "the leader was not asked about pulls");
            BTreeMap::new()
        }
    }
}

impl Pulls {
    /// Adds to a replica the pull that it waits for.
    pub(crate) fn add_to(&self, replica: &mut v1::ReplicaInfo) {
        if matches!(replica.code.as_str(), "pulling" | "image_pull_failed") {
            replica.pull = self.find(&replica.node, &replica.image, &replica.image_digest);
        }
    }

    /// Adds to the rollouts of a deployment the pulls that they wait for.
    pub(crate) fn add_to_rollouts(&self, deployment: &mut v1::DeploymentInfo) {
        for service in &mut deployment.services {
            let Some(rollout) = &mut service.rollout else { continue };
            let of = |node: &String| {
                Some((node.clone(), self.find(node, &service.image, &service.image_digest)?))
            };
            rollout.pulls = rollout.prepull.keys().filter_map(of).collect();
        }
    }

    fn find(&self, node: &str, image: &str, digest: &str) -> Option<v1::PullInfo> {
        let is_it = |pull: &&ImagePull| *pull.image == *image || *pull.image == *digest;
        self.0.get(node)?.iter().find(is_it).map(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(image: &str, done: u64) -> ImagePull {
        ImagePull {
            image: image.into(),
            done: Bytes(done),
            total: Bytes(100),
            attempts: 1,
            next_attempt: None,
        }
    }

    fn replica(node: &str, code: &str, digest: &str) -> v1::ReplicaInfo {
        v1::ReplicaInfo {
            node: node.to_owned(),
            code: code.to_owned(),
            image: "web:1".to_owned(),
            image_digest: digest.to_owned(),
            ..Default::default()
        }
    }

    /// R-RUN-2: each replica that waits for an image has the pull of its node and image, by name or digest; others
    /// have none.
    #[test]
    fn pulls_belong_to_node_and_image() {
        let rollout = v1::RolloutInfo {
            prepull: [("n3".to_owned(), "pulling".to_owned())].into(),
            ..Default::default()
        };
        let service = v1::ServiceInfo {
            image: "web:1".to_owned(),
            rollout: Some(rollout),
            ..Default::default()
        };
        let mut deployment = v1::DeploymentInfo { services: vec![service], ..Default::default() };
        let mut replicas = [
            replica("n1", "pulling", ""),
            replica("n2", "image_pull_failed", "web@sha256:1"),
            replica("n1", "", ""),
            replica("n4", "pulling", ""),
        ];
        let pulls = [
            ("n1", vec![pull("db:1", 1), pull("web:1", 2)]),
            ("n2", vec![pull("web@sha256:1", 3)]),
            ("n3", vec![pull("web:1", 4)]),
            ("n4", vec![pull("db:1", 5)]),
        ];
        let pulls = Pulls(pulls.map(|(node, pulls)| (node.to_owned(), pulls)).into());
        replicas.iter_mut().for_each(|replica| pulls.add_to(replica));
        pulls.add_to_rollouts(&mut deployment);
        let done = |pull: &Option<v1::PullInfo>| pull.map(|pull| pull.done_bytes);
        assert_eq!(replicas.each_ref().map(|it| done(&it.pull)), [Some(2), Some(3), None, None]);
        let rollout = deployment.services[0].rollout.as_ref().unwrap();
        assert_eq!(rollout.pulls.get("n3").map(|pull| pull.done_bytes), Some(4));
    }

    /// What a node sends is what the leader has.
    #[test]
    fn pulls_survive_the_heartbeat() {
        let waiting = ImagePull { attempts: 3, next_attempt: Some(Timestamp(9)), ..pull("a", 0) };
        let all = vec![pull("web:1", 7), waiting];
        assert_eq!(read(all.iter().map(message).collect()), all);
    }
}
