//! The voter policy: which membership change comes next. Decides, touches nothing.
//!
//! 1 to 2 members have 1 voter, 3 to 4 have 3, 5 to 6 have 5, 7 and more have 7: always an odd
//! number, because an even one adds a voter that can fail without adding a failure that can be
//! survived.

use std::collections::BTreeSet;
use std::time::Duration;

/// A joint membership that is older than this has lost whoever was to finish it.
pub const JOINT_PATIENCE: Duration = Duration::from_secs(5);

/// What the leader knows when it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipView {
    /// The leader itself.
    pub leader: u64,
    pub voters: BTreeSet<u64>,
    pub learners: BTreeSet<u64>,
    /// How long the membership has been between the two steps of a change, if it is.
    pub joint_for: Option<Duration>,
    /// Peers that follow the log closely enough to vote. The leader need not be listed.
    pub caught_up: BTreeSet<u64>,
    /// Members that are to be removed.
    pub leaving: BTreeSet<u64>,
}

/// One membership change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembershipStep {
    /// Complete a change that was left between its two steps.
    FinishJoint,
    /// Make exactly these members voters, in one joint change.
    SetVoters(BTreeSet<u64>),
    /// Hand leadership to this voter, because the leader is to leave or to lose its vote.
    TransferLeader(u64),
    /// Remove this member, which has no vote.
    Remove(u64),
}

/// What to do about the membership now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembershipDecision {
    /// The membership is as the policy wants it.
    Settled,
    Step(MembershipStep),
    Wait(MembershipWait),
}

/// Why nothing is done although something is wanted. Order is the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipWait {
    /// A change is between its steps and not yet old enough to be taken over.
    JointInProgress,
    /// Removing what is to be removed would leave nobody.
    NobodyWouldRemain,
    /// A learner that is to vote lacks too much of the log.
    LearnerBehind,
}

/// How many voters a cluster of so many members has.
pub const fn voter_target(members: usize) -> usize {
    match members {
        0 => 0,
        1..=2 => 1,
        3..=4 => 3,
        5..=6 => 5,
        _ => 7,
    }
}

/// Returns the next change, if any. Same view, same answer; carried out and repeated, it settles.
pub fn next_membership_step(view: &MembershipView) -> MembershipDecision {
    use MembershipDecision::{Settled, Step, Wait};
    match view.joint_for {
        Some(age) if age >= JOINT_PATIENCE => return Step(MembershipStep::FinishJoint),
        Some(_) => return Wait(MembershipWait::JointInProgress),
        None => {}
    }
    let staying: BTreeSet<u64> = view
        .voters
        .union(&view.learners)
        .filter(|id| !view.leaving.contains(id))
        .copied()
        .collect();
    if staying.is_empty() {
        return Wait(MembershipWait::NobodyWouldRemain);
    }
    let target = voter_target(staying.len());
    let wanted = wanted_voters(view, &staying, target);
    let behind = wanted.len() < target;
    let losing = view.voters.iter().any(|id| !staying.contains(id));
    // Taking a vote away before its replacement can vote would lower what the cluster survives.
    let must_wait = behind && (losing || wanted.len() <= view.voters.len());
    if !must_wait && wanted != view.voters {
        return Step(towards(view, wanted));
    }
    match view.learners.intersection(&view.leaving).next() {
        Some(id) => Step(MembershipStep::Remove(*id)),
        None if behind => Wait(MembershipWait::LearnerBehind),
        None => Settled,
    }
}

/// The best set of voters that can be had now: of odd size, at most `target`.
fn wanted_voters(view: &MembershipView, staying: &BTreeSet<u64>, target: usize) -> BTreeSet<u64> {
    let mut candidates: Vec<Candidate> = staying
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

/// Who should vote; smaller is better, fields are compared top to bottom.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// A leader keeps its vote, or leadership would move for no reason.
    not_leader: bool,
    /// Fewest changes. A voter that is down keeps its vote until somebody removes the member: a
    /// policy that swapped voters by itself would do so at every hiccup.
    not_voter: bool,
    /// When there are too many voters, those that answer stay.
    not_caught_up: bool,
    /// Node ids rise with time, so the longest-serving member votes.
    id: u64,
}

const fn largest_odd(count: usize) -> usize {
    if count % 2 == 1 { count } else { count.saturating_sub(1) }
}

/// A leader never takes its own vote away: it hands over first, and its successor does it.
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
        // `wanted` is empty only if nobody stays, which was ruled out before.
        None => MembershipStep::SetVoters(wanted),
    }
}
