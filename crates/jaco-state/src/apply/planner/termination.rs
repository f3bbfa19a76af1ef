//! Records how instances ended: what remains once their containers and logs are gone (R-HEAL-4).

use jaco_types::termination::{TERMINATIONS_MAX, Termination, TerminationOutcome};
use jaco_types::{Instance, InstanceId, InstanceObserved, ReplicaState, Slot};

use crate::command::{Entry, ReplaceCause};
use crate::state::ClusterState;

/// Records how an instance ended that its slot drops now. A healthy one that is replaced by a change
/// of its spec is not recorded.
pub(in crate::apply) fn note(
    state: &mut ClusterState,
    entry: &Entry,
    slot: &Slot,
    instance: &Instance,
    outcome: TerminationOutcome,
) {
    let id = InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index };
    let Some(seen) = state.observed.get(&id).filter(|seen| is_recorded(seen, outcome)) else {
        return;
    };
    let termination = Termination {
        raft_index: instance.raft_index,
        node: instance.node,
        revision: instance.revision,
        at: entry.at,
        outcome,
        state: seen.state,
        code: seen.code,
        details: seen.details.clone(),
        exit: seen.exit,
    };
    if let Some(slot) = state.slots.get_mut(&slot.id) {
        slot.terminations.push(termination);
        let surplus = slot.terminations.len().saturating_sub(TERMINATIONS_MAX);
        slot.terminations.drain(..surplus);
    }
}

fn is_recorded(seen: &InstanceObserved, outcome: TerminationOutcome) -> bool {
    match seen.state {
        ReplicaState::Failed
        | ReplicaState::Stopped
        | ReplicaState::Completed
        | ReplicaState::Degraded => true,
        ReplicaState::Pending | ReplicaState::Pulling | ReplicaState::Starting => {
            matches!(outcome, TerminationOutcome::NodeLost | TerminationOutcome::Reverted)
        }
        ReplicaState::Running => outcome == TerminationOutcome::NodeLost,
    }
}

/// The outcome of an instance that is replaced for this cause.
pub(in crate::apply) const fn outcome(cause: ReplaceCause) -> TerminationOutcome {
    match cause {
        ReplaceCause::SpecChanged => TerminationOutcome::Rolled,
        ReplaceCause::Failed | ReplaceCause::ColocatedReplaced | ReplaceCause::Enabled => {
            TerminationOutcome::Restarted
        }
        ReplaceCause::NodeLost => TerminationOutcome::NodeLost,
        ReplaceCause::Moved => TerminationOutcome::Moved,
    }
}
