//! Who is a member, votes and leads: the first node, learners, voters, addresses, and the transfer of leadership.
//! One change at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::{ClientWriteError, RaftError};
use tokio::sync::MutexGuard;

use super::Raft;
use super::requests::member_of;
use crate::error::MembershipError;
use crate::machine::StateMachine;
use crate::status::Status;
use crate::types::Peer;

impl<M: StateMachine> Raft<M> {
    /// Creates a cluster whose only voter is this node, with this address. Returns once it leads.
    ///
    /// # Errors
    /// `Refused` if the node already belongs to a cluster.
    pub async fn initialize(&self, address: impl Into<String>) -> Result<(), MembershipError> {
        let members = BTreeMap::from([(self.inner.id, Peer { address: address.into() })]);
        self.inner.raft.initialize(members).await.map_err(|error| match error {
            RaftError::Fatal(fatal) => MembershipError::Stopped { reason: fatal.to_string() },
            RaftError::APIError(refusal) => {
                MembershipError::Refused { reason: refusal.to_string() }
            }
        })?;
        // A leader refuses membership changes until the first entry of its term is committed.
        let leads = |status: &Status| status.is_leader() && status.applied == status.last_log;
        self.wait_for(leads, Duration::from_secs(10))
            .await
            .map_err(|_| MembershipError::Unknown)?;
        Ok(())
    }

    /// Adds a learner; idempotent. Its id must never have been used by another node.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn add_learner(&self, id: u64, address: String) -> Result<(), MembershipError> {
        self.add_learners([(id, address)].into()).await
    }

    /// Adds learners with their addresses, all by one entry; idempotent. Each such entry names all members: one for each
    /// of many that join would make the log of a large cluster grow with the square of its size. Their ids must never
    /// have been used by other nodes.
    ///
    /// # Errors
    /// See [`MembershipError`]. Of a refused change none is added.
    pub async fn add_learners(
        &self,
        learners: BTreeMap<u64, String>,
    ) -> Result<(), MembershipError> {
        let members = self.status().members;
        for (id, address) in &learners {
            if let Some(known) = members.get(id).filter(|known| *known != address) {
                let reason = format!("node {id} is already a member, at {known}");
                return Err(MembershipError::Refused { reason });
            }
        }
        let nodes = learners.into_iter().map(|(id, address)| (id, Peer { address }));
        self.change(ChangeMembers::AddNodes(nodes.collect())).await
    }

    /// Makes exactly these members voters; the others become learners.
    ///
    /// # Errors
    /// See [`MembershipError`]. An interrupted change is completed by [`Raft::finish_joint`].
    pub async fn set_voters(&self, voters: BTreeSet<u64>) -> Result<(), MembershipError> {
        if voters.is_empty() {
            let reason = "a cluster needs a voter".to_owned();
            return Err(MembershipError::Refused { reason });
        }
        self.inner.server.kept.expect_voters(&voters);
        self.change(ChangeMembers::ReplaceAllVoters(voters)).await
    }

    /// Removes a learner.
    ///
    /// # Errors
    /// `Refused` if it is a voter.
    pub async fn remove(&self, id: u64) -> Result<(), MembershipError> {
        if self.status().voters.contains(&id) {
            let reason = format!("node {id} still has a vote");
            return Err(MembershipError::Refused { reason });
        }
        self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id]))).await
    }

    /// Changes a member's address. The transport must verify who answers there.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn update_address(&self, id: u64, address: String) -> Result<(), MembershipError> {
        if !self.status().members.contains_key(&id) {
            let reason = format!("node {id} is not a member");
            return Err(MembershipError::Refused { reason });
        }
        let nodes = BTreeMap::from([(id, Peer { address })]);
        self.change(ChangeMembers::SetNodes(nodes)).await
    }

    /// Completes a joint membership change that was abandoned.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn finish_joint(&self) -> Result<(), MembershipError> {
        // Adding no learner turns a joint membership into its newer half.
        self.change(ChangeMembers::AddVoterIds(BTreeSet::new())).await
    }

    async fn change(&self, change: ChangeMembers<u64, Peer>) -> Result<(), MembershipError> {
        let _one = self.inner.membership_lock.try_lock().map_err(|_| MembershipError::Busy)?;
        let membership_lock = Box::pin(self.inner.raft.change_membership(change, true));
        match tokio::time::timeout(self.inner.limits.deadline, membership_lock).await {
            Err(_) => Err(MembershipError::Unknown),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(RaftError::Fatal(fatal))) => {
                Err(MembershipError::Stopped { reason: fatal.to_string() })
            }
            Ok(Err(RaftError::APIError(error))) => Err(match error {
                ClientWriteError::ForwardToLeader(forward) => {
                    MembershipError::NotLeader { leader: member_of(forward) }
                }
                ClientWriteError::LogEntryDiscarded(_) => MembershipError::Unknown,
                ClientWriteError::ChangeMembershipError(refusal) => {
                    MembershipError::Refused { reason: refusal.to_string() }
                }
                ClientWriteError::PreconditionFailed(refusal) => {
                    MembershipError::Refused { reason: refusal.to_string() }
                }
            }),
        }
    }

    /// Transfers leadership to the most up-to-date voter, for a planned stop. Returns once another
    /// node leads; immediately if this one does not. Waits for a membership change in progress: the
    /// leader has to make both of its steps.
    ///
    /// # Errors
    /// `Refused` if there is no other voter, `Busy` if membership changes continue, `Unknown` if no
    /// other node became leader in time.
    pub async fn transfer_leader(&self) -> Result<(), MembershipError> {
        let _unchanged = self.lock_membership().await?;
        let status = self.status();
        if !status.is_leader() {
            return Ok(());
        }
        let best = status
            .voters
            .iter()
            .filter(|id| **id != status.id)
            .filter_map(|id| status.lag.get(id).copied().flatten().map(|lag| (lag, *id)))
            .min();
        match best {
            Some((_, id)) => self.transfer_locked(id).await,
            None => {
                Err(MembershipError::Refused { reason: "no other voter is reachable".to_owned() })
            }
        }
    }

    /// Transfers leadership as [`Self::transfer_leader`] does, for a removal of this node: where no other member votes, the
    /// learner that lacks the fewest entries gets a vote first.
    ///
    /// # Errors
    /// Those of [`Self::transfer_leader`] and [`Self::set_voters`].
    pub async fn transfer_leader_to_any(&self) -> Result<(), MembershipError> {
        let status = self.status();
        let votes_alone = status.is_leader() && status.voters.iter().all(|id| *id == status.id);
        let lag = |id: &u64| status.lag.get(id).copied().flatten().map(|lag| (lag, *id));
        if let Some((_, learner)) =
            status.learners.iter().filter(|_| votes_alone).filter_map(lag).min()
        {
            self.set_voters(BTreeSet::from([status.id, learner])).await?;
        }
        self.transfer_leader().await
    }

    /// Transfers leadership to this voter. Returns once another node leads.
    ///
    /// # Errors
    /// `Busy` if membership changes continue, `Unknown` if no other node became leader; each within
    /// two election timeouts.
    pub async fn transfer_leader_to(&self, id: u64) -> Result<(), MembershipError> {
        let _unchanged = self.lock_membership().await?;
        self.transfer_locked(id).await
    }

    /// Waits until no membership change is in progress. None begins while the guard is held.
    async fn lock_membership(&self) -> Result<MutexGuard<'_, ()>, MembershipError> {
        let patience = 2 * self.inner.timing.election_max;
        let lock_membership =
            tokio::time::timeout(patience, self.inner.membership_lock.lock()).await;
        lock_membership.map_err(|_| MembershipError::Busy)
    }

    async fn transfer_locked(&self, id: u64) -> Result<(), MembershipError> {
        let stopped = |reason: String| MembershipError::Stopped { reason };
        let trigger = self.inner.raft.trigger();
        trigger.transfer_leader(id).await.map_err(|fatal| stopped(fatal.to_string()))?;
        let own = self.inner.id;
        let moved =
            move |status: &Status| status.leader.as_ref().is_some_and(|leader| leader.id != own);
        self.wait_for(moved, 2 * self.inner.timing.election_max)
            .await
            .map_err(|_| MembershipError::Unknown)?;
        Ok(())
    }
}
