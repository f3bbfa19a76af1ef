//! Decides the next membership change. Pure. [`voter_target`] defines the number of voters.

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_types::voter_target;

/// A joint membership older than this was abandoned by the leader that began it.
pub const JOINT_TIMEOUT: Duration = Duration::from_secs(5);

/// The leader's view of the membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipView {
    /// The leader.
    pub leader: u64,
    pub voters: BTreeSet<u64>,
    pub learners: BTreeSet<u64>,
    /// How long the membership has been joint, if it is.
    pub joint_for: Option<Duration>,
    /// Peers that are caught up closely enough to vote. The leader need not be listed.
    pub caught_up: BTreeSet<u64>,
    /// Members to remove.
    pub removing: BTreeSet<u64>,
}

/// One membership change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembershipStep {
    /// Complete an abandoned joint change.
    FinishJoint,
    /// Make exactly these members voters, in one joint change.
    SetVoters(BTreeSet<u64>),
    /// Transfer leadership to this voter, because the leader is to be removed or to lose its vote.
    TransferLeader(u64),
    /// Remove this learner.
    Remove(u64),
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembershipDecision {
    /// The membership matches the policy.
    Stable,
    Step(MembershipStep),
    Wait(MembershipWait),
}

/// Why a needed change is delayed, in the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipWait {
    /// A joint change is in progress and not yet abandoned.
    JointInProgress,
    /// The removal would leave no member.
    NoMemberWouldRemain,
    /// A learner that should vote is not caught up.
    LearnerBehind,
}

/// Returns the next change, if any. Deterministic; applied repeatedly it becomes stable.
pub fn next_membership_step(view: &MembershipView) -> MembershipDecision {
    use MembershipDecision::{Stable, Step, Wait};
    match view.joint_for {
        Some(age) if age >= JOINT_TIMEOUT => return Step(MembershipStep::FinishJoint),
        Some(_) => return Wait(MembershipWait::JointInProgress),
        None => {}
    }
    let remaining: BTreeSet<u64> = view
        .voters
        .union(&view.learners)
        .filter(|id| !view.removing.contains(id))
        .copied()
        .collect();
    if remaining.is_empty() {
        return Wait(MembershipWait::NoMemberWouldRemain);
    }
    let target = voter_target(remaining.len());
    let wanted = wanted_voters(view, &remaining, target);
    let behind = wanted.len() < target;
    let losing = view.voters.iter().any(|id| !remaining.contains(id));
    // Demoting a voter before its replacement can vote would lower the failures the cluster
    // survives.
    let must_wait = behind && (losing || wanted.len() <= view.voters.len());
    if !must_wait && wanted != view.voters {
        return Step(towards(view, wanted));
    }
    match view.learners.intersection(&view.removing).next() {
        Some(id) => Step(MembershipStep::Remove(*id)),
        None if behind => Wait(MembershipWait::LearnerBehind),
        None => Stable,
    }
}

/// The best available set of voters: of odd size, at most `target`.
fn wanted_voters(view: &MembershipView, remaining: &BTreeSet<u64>, target: usize) -> BTreeSet<u64> {
    let mut candidates: Vec<Candidate> = remaining
        .iter()
        .filter(|id| view.voters.contains(id) || view.caught_up.contains(id))
        .map(|&id| Candidate {
            not_leader: id != view.leader,
            not_voter: !view.voters.contains(&id),
            not_caught_up: id != view.leader && !view.caught_up.contains(&id),
            id,
        })
        .collect();
    candidates.sort_unstable();
    let size = target.min(largest_odd(candidates.len()));
    candidates.iter().take(size).map(|candidate| candidate.id).collect()
}

/// Rank of a candidate; smaller is better, fields compare top to bottom.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The leader keeps its vote, or leadership would move without need.
    not_leader: bool,
    /// Fewest changes. A voter that is down keeps its vote until it is removed: replacing voters
    /// automatically would do so at every short outage.
    not_voter: bool,
    /// Among too many voters, reachable ones stay.
    not_caught_up: bool,
    /// Node ids increase with time, so the oldest member votes.
    id: u64,
}

const fn largest_odd(count: usize) -> usize {
    if count % 2 == 1 { count } else { count.saturating_sub(1) }
}

/// A leader never demotes itself: it transfers leadership first, and its successor does it.
fn towards(view: &MembershipView, wanted: BTreeSet<u64>) -> MembershipStep {
    if wanted.contains(&view.leader) {
        return MembershipStep::SetVoters(wanted);
    }
    let mut with_leader = wanted.clone();
    with_leader.insert(view.leader);
    if with_leader != view.voters {
        return MembershipStep::SetVoters(with_leader);
    }
    let successor = wanted.iter().find(|id| view.caught_up.contains(id)).or(wanted.first());
    match successor {
        Some(id) => MembershipStep::TransferLeader(*id),
        // `wanted` is empty only if no member remains, which was ruled out before.
        None => MembershipStep::SetVoters(wanted),
    }
}
