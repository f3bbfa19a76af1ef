//! Keeps how instances ended, for those who ask why after all of it is gone (R-HEAL-4).

use jaco_types::ending::{Aftermath, ENDINGS_MAX, Ending};
use jaco_types::{Instance, InstanceId, InstanceObserved, ReplicaState, Slot};

use crate::command::{Entry, ReplaceCause};
use crate::state::ClusterState;

/// Notes how an instance ended that its slot gives up now. One that was well and is replaced because
/// people asked for it has no story to tell.
pub(super) fn note(
    state: &mut ClusterState,
    entry: &Entry,
    slot: &Slot,
    instance: &Instance,
    aftermath: Aftermath,
) {
    let id = InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index };
    let Some(seen) = state.observed.get(&id).filter(|seen| is_worth_telling(seen, aftermath))
    else {
        return;
    };
    let ending = Ending {
        raft_index: instance.raft_index,
        node: instance.node,
        revision: instance.revision,
        at: entry.at,
        aftermath,
        state: seen.state,
        code: seen.code,
        details: seen.details.clone(),
        exit: seen.exit,
    };
    if let Some(slot) = state.slots.get_mut(&slot.id) {
        slot.endings.push(ending);
        let surplus = slot.endings.len().saturating_sub(ENDINGS_MAX);
        slot.endings.drain(..surplus);
    }
}

fn is_worth_telling(seen: &InstanceObserved, aftermath: Aftermath) -> bool {
    match seen.state {
        ReplicaState::Failed | ReplicaState::Stopped | ReplicaState::Degraded => true,
        ReplicaState::Pending | ReplicaState::Pulling | ReplicaState::Starting => {
            matches!(aftermath, Aftermath::NodeLost | Aftermath::TakenBack)
        }
        ReplicaState::Running => aftermath == Aftermath::NodeLost,
    }
}

/// What becomes of a slot whose instance is replaced for this cause.
pub(super) const fn aftermath(cause: ReplaceCause) -> Aftermath {
    match cause {
        ReplaceCause::SpecChanged => Aftermath::Rolled,
        ReplaceCause::Failed | ReplaceCause::CompanyReplaced | ReplaceCause::Enabled => {
            Aftermath::Restarted
        }
        ReplaceCause::NodeLost => Aftermath::NodeLost,
        ReplaceCause::Moved => Aftermath::Moved,
    }
}
