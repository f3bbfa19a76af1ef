//! An endpoint consumer that this node stands for: attached in the replicated state, and its acknowledgements to the
//! leader. A serving instance that leaves the endpoints stops once all consumers have acknowledged that (PL-13).

use std::sync::Arc;
use std::time::Duration;

use jaco_proto::v1;
use jaco_state::command::{ConsumerAttach, ConsumerDetach};
use jaco_state::{Command, Outcome};
use jaco_store::{Proposal, Store};
use jaco_types::{
    Acknowledgement, ConsumerName, ErrorCode, Identity, InstanceId, Millis, Rejection, StateIndex,
};
use tracing::debug;

use crate::member::Member;
use crate::status::from_propose_error;

/// Deadline of an acknowledgement to the leader.
const DEADLINE: Duration = Duration::from_secs(1);

/// An attached consumer. Dropping it detaches nothing: its lease expires.
#[derive(Debug, Clone)]
pub struct ConsumerSession {
    member: Arc<Member>,
    name: ConsumerName,
    session: StateIndex,
}

/// Whether the leader has heard of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It has.
    Delivered,
    /// There is none, or it did not answer: to be repeated.
    Failed,
}

impl ConsumerSession {
    /// Attaches a consumer in the place of an earlier one of its name. Without an acknowledgement for as long as its
    /// lease it is detached.
    ///
    /// # Errors
    /// If there are too many consumers, or no entry can be committed.
    pub async fn attach(
        member: Arc<Member>,
        name: ConsumerName,
        lease: Millis,
    ) -> Result<Self, Rejection> {
        let command = ConsumerAttach::new(name.clone(), member.id, lease).into();
        let session = propose(&member, command).await?;
        Ok(Self { member, name, session })
    }

    /// Its name.
    pub fn name(&self) -> &ConsumerName {
        &self.name
    }

    /// The entry that attached it.
    pub fn index(&self) -> StateIndex {
        self.session
    }

    /// Acknowledges the endpoints of a state, and renews the lease.
    pub async fn acknowledge(&self, acknowledgement: &Acknowledgement) -> Delivery {
        let Self { member, name, session } = self;
        if member.store.leads() {
            let now = member.clock.now();
            member.signals.record_consumer(name.clone(), *session, acknowledgement.clone(), now);
            return Delivery::Delivered;
        }
        let Some((node, address)) = member.store.leader_elsewhere() else {
            return Delivery::Failed;
        };
        let message = v1::AcknowledgeEndpointsRequest {
            consumer: name.to_string(),
            session: session.0,
            acknowledged: acknowledgement.index.0,
            busy: acknowledgement.busy.iter().map(busy).collect(),
        };
        match member.peers.acknowledge_endpoints((node, &address), message, DEADLINE).await {
            Ok(_) => Delivery::Delivered,
            Err(error) => {
                // The leader may be changing; the next renewal repeats it.
                debug!(leader = %node, consumer = %name, %error, "acknowledgement not delivered");
                Delivery::Failed
            }
        }
    }

    /// Why it is attached no more: it was replaced, or its lease has expired. This node may not have applied the
    /// attachment yet.
    pub fn ended(&self) -> Option<Rejection> {
        let Self { member, name, session } = self;
        let (index, known) = member.store.read(|state| {
            (state.index, state.consumers.get(name).map(|consumer| consumer.session))
        });
        if index < *session || known == Some(*session) {
            return None;
        }
        let message = match known {
            Some(_) => format!(
                "another consumer attached with the name {name}: use a unique name for each consumer"
            ),
            None => format!("the lease of consumer {name} expired: attach again"),
        };
        Some(Rejection::new(ErrorCode::StalePlan, message))
    }

    /// Detaches it: nothing waits for it any more.
    pub async fn detach(&self) {
        let command = ConsumerDetach::new(self.name.clone(), self.session).into();
        if let Err(error) = propose(&self.member, command).await {
            debug!(consumer = %self.name, %error, "could not detach the consumer; its lease will expire");
        }
    }
}

fn busy(id: &InstanceId) -> v1::BusyInstance {
    v1::BusyInstance { replica: id.replica.to_string(), raft_index: id.raft_index.0 }
}

/// Proposes a command in the name of this node; returns its log index.
async fn propose(member: &Member, command: Command) -> Result<StateIndex, Rejection> {
    let by = Identity::Node { id: member.id };
    let applied = member.store.propose(Proposal { by, request: None, command }).await;
    let applied = applied.map_err(|error| from_propose_error(&error))?;
    match applied.outcome {
        Outcome::Rejected(rejection) => Err(rejection),
        Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => {
            Ok(applied.index)
        }
    }
}
