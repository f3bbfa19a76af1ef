//! R-NODE-4: the voter policy, as examples and as laws.

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_raft::{
    JOINT_TIMEOUT, MembershipDecision, MembershipStep, MembershipView, MembershipWait,
    next_membership_step,
};
use jaco_types::voter_target;
use proptest::prelude::*;

fn ids(ids: &[u64]) -> BTreeSet<u64> {
    ids.iter().copied().collect()
}

/// Led by node 1, everybody caught up.
fn view(voters: &[u64], learners: &[u64], removing: &[u64]) -> MembershipView {
    MembershipView {
        leader: 1,
        voters: ids(voters),
        learners: ids(learners),
        joint_for: None,
        caught_up: &ids(voters) | &ids(learners),
        removing: ids(removing),
    }
}

fn set_voters(voters: &[u64]) -> MembershipDecision {
    MembershipDecision::Step(MembershipStep::SetVoters(ids(voters)))
}

#[test]
fn two_members_stay_with_one_voter_and_three_become_three_at_once() {
    assert_eq!(next_membership_step(&view(&[1], &[2], &[])), MembershipDecision::Stable);
    assert_eq!(next_membership_step(&view(&[1], &[2, 3], &[])), set_voters(&[1, 2, 3]));
}

#[test]
fn lagging_learner_is_waited_for() {
    let mut lagging = view(&[1], &[2, 3], &[]);
    lagging.caught_up = ids(&[2]);
    assert_eq!(
        next_membership_step(&lagging),
        MembershipDecision::Wait(MembershipWait::LearnerBehind)
    );
}

#[test]
fn surplus_voters_lose_their_vote_before_a_member_is_removed() {
    assert_eq!(next_membership_step(&view(&[1, 2, 3], &[], &[3])), set_voters(&[1]));
    assert_eq!(
        next_membership_step(&view(&[1], &[2, 3], &[3])),
        MembershipDecision::Step(MembershipStep::Remove(3))
    );
}

#[test]
fn removed_dead_voter_is_replaced_by_a_learner() {
    let mut dead = view(&[1, 2, 3], &[4], &[2]);
    dead.caught_up = ids(&[3, 4]);
    assert_eq!(next_membership_step(&dead), set_voters(&[1, 3, 4]));
}

#[test]
fn removed_leader_transfers_leadership_first() {
    assert_eq!(next_membership_step(&view(&[1, 2, 3], &[4, 5], &[1])), set_voters(&[1, 2, 3, 4]));
    assert_eq!(
        next_membership_step(&view(&[1, 2, 3, 4], &[5], &[1])),
        MembershipDecision::Step(MembershipStep::TransferLeader(2))
    );
}

#[test]
fn last_members_cannot_be_removed() {
    assert_eq!(
        next_membership_step(&view(&[1], &[2], &[1, 2])),
        MembershipDecision::Wait(MembershipWait::NoMemberWouldRemain)
    );
}

#[test]
fn abandoned_joint_membership_is_finished() {
    let mut joint = view(&[1, 2, 3], &[4], &[]);
    joint.joint_for = Some(JOINT_TIMEOUT - Duration::from_millis(1));
    assert_eq!(
        next_membership_step(&joint),
        MembershipDecision::Wait(MembershipWait::JointInProgress)
    );
    joint.joint_for = Some(JOINT_TIMEOUT);
    assert_eq!(next_membership_step(&joint), MembershipDecision::Step(MembershipStep::FinishJoint));
}

/// Up to nine members in any state an operator or a crash could have left them in.
fn any_view() -> impl Strategy<Value = MembershipView> {
    let member = (any::<bool>(), any::<bool>(), any::<bool>());
    (proptest::collection::vec(member, 1..=9), any::<prop::sample::Index>()).prop_map(
        |(members, leader)| {
            let chosen = |pick: fn(&(bool, bool, bool)) -> bool| -> BTreeSet<u64> {
                (1_u64..).zip(&members).filter(|(_, m)| pick(m)).map(|(id, _)| id).collect()
            };
            let leader = leader.index(members.len()) as u64 + 1;
            let mut voters = chosen(|m| m.0);
            voters.insert(leader);
            let all: BTreeSet<u64> = (1..=members.len() as u64).collect();
            MembershipView {
                leader,
                learners: &all - &voters,
                voters,
                joint_for: None,
                caught_up: chosen(|m| m.1),
                removing: chosen(|m| m.2),
            }
        },
    )
}

/// What the cluster looks like once `step` is done; panics if the step was not allowed.
fn carry_out(view: &MembershipView, step: &MembershipStep) -> MembershipView {
    let mut next = view.clone();
    let members = &view.voters | &view.learners;
    match step {
        MembershipStep::FinishJoint => panic!("nothing is joint here"),
        MembershipStep::SetVoters(voters) => {
            assert!(voters.is_subset(&members), "only members vote");
            assert!(voters.contains(&view.leader), "a leader never takes its own vote");
            assert_ne!(*voters, view.voters, "a step changes something");
            for id in voters - &view.voters {
                assert!(view.caught_up.contains(&id), "{id} was promoted while behind");
                assert!(!view.removing.contains(&id), "{id} was promoted while removing");
            }
            next.learners = &members - voters;
            next.voters.clone_from(voters);
        }
        MembershipStep::TransferLeader(id) => {
            assert!(view.voters.contains(id) && !view.removing.contains(id));
            next.leader = *id;
        }
        MembershipStep::Remove(id) => {
            assert!(view.learners.contains(id) && view.removing.contains(id));
            next.learners.remove(id);
            next.caught_up.remove(id);
            next.removing.remove(id);
        }
    }
    next
}

fn run_down(mut view: MembershipView) -> (MembershipView, MembershipDecision) {
    // Every member at most loses a vote, gains a vote, leads and leaves.
    for _ in 0..40 {
        match next_membership_step(&view) {
            MembershipDecision::Step(step) => view = carry_out(&view, &step),
            done @ (MembershipDecision::Stable | MembershipDecision::Wait(_)) => {
                return (view, done);
            }
        }
    }
    panic!("does not settle: {view:?}");
}

proptest! {
    /// Law: carried out step by step the policy converges, and a converged membership needs no step.
    #[test]
    fn policy_becomes_stable(view in any_view()) {
        let (rest, decision) = run_down(view);
        prop_assert_eq!(next_membership_step(&rest), decision);
    }

    /// Law: if everybody follows, the cluster ends with those that stay, the leader among them, and
    /// exactly as many voters as the policy says.
    #[test]
    fn healthy_cluster_reaches_the_voter_target(mut view in any_view()) {
        view.caught_up = &view.voters | &view.learners;
        let staying = &view.caught_up - &view.removing;
        let (rest, decision) = run_down(view);
        if staying.is_empty() {
            prop_assert_eq!(decision, MembershipDecision::Wait(MembershipWait::NoMemberWouldRemain));
        } else {
            prop_assert_eq!(decision, MembershipDecision::Stable);
            prop_assert_eq!(&rest.voters | &rest.learners, staying.clone());
            prop_assert_eq!(rest.voters.len(), voter_target(staying.len()));
            prop_assert!(rest.voters.contains(&rest.leader));
        }
    }

    /// Law: a vote is taken away only if enough that can vote remain to reach the target.
    #[test]
    fn no_step_lowers_voters_below_the_target(view in any_view()) {
        if let MembershipDecision::Step(MembershipStep::SetVoters(voters)) =
            next_membership_step(&view)
        {
            let members = &view.voters | &view.learners;
            let target = voter_target((&members - &view.removing).len());
            let staying = (&voters - &view.removing).len();
            prop_assert!(staying >= target.min((&view.voters - &view.removing).len()));
        }
    }
}
