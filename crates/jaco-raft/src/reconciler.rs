//! Applies the voter policy, one step per tick, while this node is the leader.
//!
//! Takes no decisions: it collects the input of `next_membership_step` and performs the result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::MembershipError;
use crate::machine::StateMachine;
use crate::membership::{MembershipDecision, MembershipStep, MembershipView, next_membership_step};
use crate::node::Raft;
use crate::status::Status;

/// Entries a peer may lack and still count as caught up.
const CAUGHT_UP_LAG: u64 = 1000;

/// State observed over time; call [`Reconciler::tick`] about once a second.
#[derive(Debug)]
pub struct Reconciler<M: StateMachine> {
    raft: Raft<M>,
    /// How long a peer must stay close before it counts as caught up.
    stable_for: Duration,
    following_since: BTreeMap<u64, Instant>,
    joint_since: Option<(u64, Instant)>,
}

impl<M: StateMachine> Reconciler<M> {
    /// `stable_for`: how long a learner must be caught up before it may vote. Ten election timeouts
    /// (5 s on a LAN) keep a flapping node from becoming a voter.
    pub fn new(raft: Raft<M>, stable_for: Duration) -> Self {
        Self { raft, stable_for, following_since: BTreeMap::new(), joint_since: None }
    }

    /// Makes at most one membership change towards the policy, with `removing` to be removed.
    ///
    /// Returns `None` on a node that is not the leader.
    ///
    /// # Errors
    /// As for the change; the next tick decides again.
    pub async fn tick(
        &mut self,
        removing: &BTreeSet<u64>,
    ) -> Result<Option<MembershipDecision>, MembershipError> {
        let status = self.raft.status();
        if !status.is_leader() {
            self.following_since.clear();
            self.joint_since = None;
            return Ok(None);
        }
        let view = self.observe(&status, removing);
        let decision = next_membership_step(&view);
        if let MembershipDecision::Step(step) = &decision {
            tracing::info!(?step, "membership change");
            self.act(step).await?;
        }
        Ok(Some(decision))
    }

    fn observe(&mut self, status: &Status, removing: &BTreeSet<u64>) -> MembershipView {
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
                .filter(|(_, since)| now - **since >= self.stable_for)
                .map(|(id, _)| *id)
                .collect(),
            removing: removing.clone(),
        }
    }

    async fn act(&self, step: &MembershipStep) -> Result<(), MembershipError> {
        match step {
            MembershipStep::FinishJoint => self.raft.finish_joint().await,
            MembershipStep::SetVoters(voters) => self.raft.set_voters(voters.clone()).await,
            MembershipStep::Remove(id) => self.raft.remove(*id).await,
            MembershipStep::TransferLeader(id) => {
                // The next tick sees the result, on whichever node leads then.
                self.raft.transfer_leader_to(*id).await
            }
        }
    }
}
