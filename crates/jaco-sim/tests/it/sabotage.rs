//! The checker can fail: defects put in on purpose are found, by the invariant that they break.

use std::collections::BTreeSet;

use jaco_sim::Sabotage;
use jaco_sim::nemesis::{STEPS, run};
use jaco_sim::script::CommandError;

/// The invariants that some of the seeds find broken.
fn found(sabotage: Sabotage, seeds: u64) -> BTreeSet<&'static str> {
    let failures = (0..seeds).filter_map(|seed| run(seed, STEPS, Some(sabotage)).failure);
    let ids = failures.filter_map(|failure| match failure {
        CommandError::Broken(violation) => Some(violation.id),
        // Not settled in time, where the defect keeps the cluster busy.
        CommandError::Unexpected(_) => Some("unsettled"),
        CommandError::Unclear(_) => None,
    });
    ids.collect()
}

/// R-RUN-1: an agent that recreates what it should adopt.
#[test]
fn recreating_is_found() {
    assert!(found(Sabotage::RecreateOnStart, 10).contains("SIM-13"));
}

/// R-ROLL-2: a planner that stops the old instance before the new one serves.
#[test]
fn dropping_instead_of_retiring_is_found() {
    assert!(found(Sabotage::DropInsteadOfRetire, 10).contains("SIM-5"));
}

/// R-LOOP-4: a planner that writes though nothing changed.
#[test]
fn writing_for_nothing_is_found() {
    assert!(found(Sabotage::NeverQuiet, 1).contains("unsettled"));
}

/// R-NODE-1: an agent that goes on as if its node were not cut off.
#[test]
fn running_on_alone_is_found() {
    assert!(found(Sabotage::NeverIsolated, 40).contains("SIM-15"));
}

/// R-HEAL-1: an agent that ends what traffic is still sent to.
#[test]
fn ending_what_serves_is_found() {
    assert!(found(Sabotage::EndPredecessors, 10).contains("SIM-17"));
}

/// R-ROLL-5: an agent that runs what an image's name leads to, though it is settled what it is.
#[test]
fn following_names_is_found() {
    assert!(found(Sabotage::FollowNames, 20).contains("SIM-18"));
}

/// An agent that takes others' containers for its own.
#[test]
fn touching_what_is_not_ours_is_found() {
    assert!(found(Sabotage::IgnoreOwner, 10).contains("SIM-4"));
}
