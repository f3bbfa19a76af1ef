//! The instance of a replica that a request is for, who may ask for it, and the node that has it.

use jaco_proto::v1::exec_client::ExecClient;
use jaco_state::ClusterState;
use jaco_state::audit::AuditKind;
use jaco_types::{
    Author, Completion, DeploymentName, DesiredState, ErrorCode, Identity, InstanceId, NodeId,
    Rejection, ReplicaState, Slot,
};
use tonic::Status;
use tonic::transport::Channel;

use crate::auth::permission::Concern;
use crate::member::Member;
use crate::service::audit_action::audit;
use crate::status::{from_status, to_status};
use crate::view::hostname;

/// The instance of a replica that a request is for, and its node.
#[derive(Debug, Clone)]
pub(super) struct Place {
    replica: String,
    pub(super) instance: InstanceId,
    node: NodeId,
}

impl Place {
    /// Finds the running instance of a replica whose deployment the sender may change.
    ///
    /// # Errors
    /// If there is none, the sender may not, or another member has sent the request here and the instance is elsewhere.
    pub(super) async fn of(member: &Member, by: &Author, replica: &str) -> Result<Self, Rejection> {
        member.caught_up().await?;
        let deployment = member.store.read(|state| deployment_of(state, replica))?;
        member.admit(by, [Concern::Deployment(&deployment)])?;
        let (instance, node) = member.store.read(|state| find(state, replica))?;
        match by.by {
            Identity::Node { .. } if node != member.id => Err(moved(replica)),
            Identity::Node { .. }
            | Identity::Local { .. }
            | Identity::Operator { .. }
            | Identity::Scheduler
            | Identity::Anonymous => Ok(Self { replica: replica.to_owned(), instance, node }),
        }
    }

    /// Writes what is about to happen into the audit log, in the name of the sender, with these facts beside the replica
    /// and its node; those that are empty are left out. What another member sent has been written by that one.
    ///
    /// # Errors
    /// If it cannot be written: then it does not happen.
    pub(super) async fn audit(
        &self,
        member: &Member,
        by: Author,
        kind: AuditKind,
        facts: &[(&str, &str)],
    ) -> Result<(), Rejection> {
        if matches!(by.by, Identity::Node { .. }) {
            return Ok(());
        }
        let on = member.store.read(|state| hostname(state, self.node));
        let place = [("node", on.as_str()), ("replica", self.replica.as_str())];
        let facts = place.iter().chain(facts).filter(|(_, fact)| !fact.is_empty());
        let payload = facts.map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned()));
        audit(member, by, kind, payload.collect()).await
    }

    /// Whether this node has the container.
    pub(super) fn is_here(&self, member: &Member) -> bool {
        self.node == member.id
    }

    /// The service of the node that has the container, over a connection of its own.
    ///
    /// # Errors
    /// If the node is no member any more.
    pub(super) fn exec_client(&self, member: &Member) -> Result<ExecClient<Channel>, Status> {
        let known =
            member.store.read(|state| state.nodes.get(&self.node).map(|node| node.address.clone()));
        let address = known.ok_or_else(|| to_status(&moved(&self.replica)))?;
        Ok(member.peers.exec(self.node, &address))
    }

    /// What the node that has the container refused, or that it cannot be reached.
    pub(super) fn unreachable(&self, member: &Member, status: &Status) -> Status {
        let mut refusal = from_status(status);
        if refusal.code == ErrorCode::Unavailable {
            let name = member.store.read(|state| hostname(state, self.node));
            let why = refusal.message;
            refusal.message =
                format!("node {name}, which has the replica, cannot be reached: {why}");
        }
        to_status(&refusal)
    }
}

fn slot<'s>(state: &'s ClusterState, replica: &str) -> Result<&'s Slot, Rejection> {
    let slot = state.slots.values().find(|slot| slot.id.as_str() == replica);
    slot.ok_or_else(|| {
        let message = format!("there is no replica {replica:?}");
        Rejection::new(ErrorCode::ReplicaNotFound, message)
    })
}

fn deployment_of(state: &ClusterState, replica: &str) -> Result<DeploymentName, Rejection> {
    Ok(slot(state, replica)?.service.deployment.clone())
}

/// The running instance of a replica and its node. Of two instances during a rollout, the newer one.
fn find(state: &ClusterState, replica: &str) -> Result<(InstanceId, NodeId), Rejection> {
    let slot = slot(state, replica)?;
    let mut instances: Vec<_> = slot.instances().collect();
    instances.sort_by_key(|(id, _)| std::cmp::Reverse(id.raft_index));
    let running = instances.iter().find(|(id, _)| is_up(state, id));
    let running = running.map(|(id, instance)| (id.clone(), instance.node));
    running.ok_or_else(|| {
        let newest = instances.first().and_then(|(id, _)| state.observed.get(id));
        let seen = newest.map_or(ReplicaState::Pending, |seen| seen.state);
        let is = match slot.desired_state {
            DesiredState::Disabled => "disabled",
            DesiredState::Active => seen.as_str(),
            DesiredState::Finished(Completion::Succeeded) => "completed",
            DesiredState::Finished(Completion::Failed) => "failed",
        };
        let message = format!("replica {replica} is {is} and has no running container");
        Rejection::new(ErrorCode::ReplicaNotRunning, message)
    })
}

/// Whether an instance has a running container.
fn is_up(state: &ClusterState, id: &InstanceId) -> bool {
    state.observed.get(id).is_some_and(|seen| match seen.state {
        ReplicaState::Starting | ReplicaState::Running | ReplicaState::Degraded => true,
        ReplicaState::Pending
        | ReplicaState::Pulling
        | ReplicaState::Failed
        | ReplicaState::Stopped
        | ReplicaState::Completed => false,
    })
}

/// The instance has ended or moved since it was looked for.
pub(super) fn moved(replica: &str) -> Rejection {
    let message =
        format!("replica {replica} has just terminated or moved to another node: try again");
    Rejection::new(ErrorCode::ReplicaNotRunning, message)
}
