//! Laws about slots and their instances (ST-6, ST-7, ST-8, ST-11, ST-18).

use jaco_types::slot::Exhausted;
use jaco_types::{Completion, DesiredState, ReplicaId};

use super::{Law, Violations};
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    for slot in state.slots.values() {
        let id = &slot.id;
        if *id != ReplicaId::new(&slot.service, &slot.ordinal) {
            found.add(Law::SlotName, format!("{id} is not named after its service"));
        }
        if let DesiredState::Finished(completion) = slot.desired_state {
            let is_exhausted = slot.restarts.exhausted == Exhausted::Yes;
            if slot.retiring.is_some() || (is_exhausted && completion == Completion::Succeeded) {
                let subject = format!("{id} is finished, and retires an instance or has failed");
                found.add(Law::FinishedRunsNothing, subject);
            }
        }
        let newest = slot.current.raft_index;
        if slot.retiring.as_ref().is_some_and(|old| old.raft_index >= newest) {
            found.add(Law::RetiringIsOlder, format!("{id} retires an instance that is not older"));
        }
        if slot.modified > state.index || newest > state.index {
            found.add(Law::NotFromTheFuture, format!("{id} is newer than the state"));
        }
    }
    for (service, record) in state.scheduling.iter() {
        if record.modified > state.index {
            let subject = format!("the scheduling record of {service} is newer than the state");
            found.add(Law::NotFromTheFuture, subject);
        }
    }
    for terminating in state.terminating.values() {
        let id = &terminating.id;
        let slot = state.slots.get(&id.replica);
        if slot.is_some_and(|slot| slot.kept_instances().any(|(live, _)| live == *id)) {
            found.add(Law::TerminatingInNoSlot, format!("{id} is terminating and in its slot"));
        }
        if terminating.left_at > state.index {
            let subject = format!("the termination of {id} is newer than the state");
            found.add(Law::NotFromTheFuture, subject);
        }
    }
}
