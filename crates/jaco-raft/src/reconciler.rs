//! Carries out the voter policy, one step per tick, while this node is the leader.
//!
//! Must never decide: it gathers what `next_membership_step` needs and does what that returns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::MembershipError;
use crate::machine::StateMachine;
use crate::membership::{MembershipDecision, MembershipStep, MembershipView, next_membership_step};
use crate::node::Raft;
use crate::status::Status;

/// Entries a peer may lack and still count as following.
const CAUGHT_UP_LAG: u64 = 1000;

/// Keeps what must be observed over time; call [`Reconciler::tick`] about once a second.
#[derive(Debug)]
pub struct Reconciler<M: StateMachine> {
    raft: Raft<M>,
    /// How long a peer must have followed closely before it counts as caught up.
    steady: Duration,
    following_since: BTreeMap<u64, Instant>,
    joint_since: Option<(u64, Instant)>,
}

impl<M: StateMachine> Reconciler<M> {
    /// `steady`: how long a learner must follow closely before it may vote. Ten election timeouts
    /// (5 s on a LAN) keep a node that flaps from becoming a voter that flaps.
    pub fn new(raft: Raft<M>, steady: Duration) -> Self {
        Self { raft, steady, following_since: BTreeMap::new(), joint_since: None }
    }

    /// Does at most one membership change towards the policy, with `leaving` to be removed.
    ///
    /// Returns `None` on a node that is not the leader.
    ///
    /// # Errors
    /// As for the change itself; the next tick decides anew.
    pub async fn tick(
        &mut self,
        leaving: &BTreeSet<u64>,
    ) -> Result<Option<MembershipDecision>, MembershipError> {
        let status = self.raft.status();
        if !status.is_leader() {
            self.following_since.clear();
            self.joint_since = None;
            return Ok(None);
        }
        let view = self.observe(&status, leaving);
        let decision = next_membership_step(&view);
        if let MembershipDecision::Step(step) = &decision {
            tracing::info!(?step, "membership changes");
            self.act(step).await?;
        }
        Ok(Some(decision))
    }

    fn observe(&mut self, status: &Status, leaving: &BTreeSet<u64>) -> MembershipView {
        let now = Instant::now();
        let close: BTreeSet<u64> = status
            .lag
            .iter()
            .filter(|(_, lag)| lag.is_some_and(|lag| lag < CAUGHT_UP_LAG))
            .map(|(id, _)| *id)
            .collect();
        self.following_since.retain(|id, _| close.contains(id));
        for id in close {
            self.following_since.entry(id).or_insert(now);
        }
        self.joint_since =
            status.membership_index.filter(|_| status.joint).map(|index| match self.joint_since {
                Some((known, since)) if known == index => (known, since),
                Some(_) | None => (index, now),
            });
        MembershipView {
            leader: status.id,
            voters: status.voters.clone(),
            learners: status.learners.clone(),
            joint_for: self.joint_since.map(|(_, since)| now - since),
            caught_up: self
                .following_since
                .iter()
                .filter(|(_, since)| now - **since >= self.steady)
                .map(|(id, _)| *id)
                .collect(),
            leaving: leaving.clone(),
        }
    }

    async fn act(&self, step: &MembershipStep) -> Result<(), MembershipError> {
        match step {
            MembershipStep::FinishJoint => self.raft.finish_joint().await,
            MembershipStep::SetVoters(voters) => self.raft.set_voters(voters.clone()).await,
            MembershipStep::Remove(id) => self.raft.remove(*id).await,
            MembershipStep::TransferLeader(id) => {
                // Whether it came about is seen at the next tick, on whichever node is leader then.
                self.raft.transfer_leader_to(*id).await
            }
        }
    }
}
