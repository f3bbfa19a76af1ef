//! Laws about disabled allocations (ST-14, ST-15).

use jaco_types::DesiredState;

use super::{Law, Violations};
use crate::state::ClusterState;
use crate::view::disabled::{describe, exists};

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    for scope in state.disabled.scopes.keys().filter(|scope| !exists(state, scope)) {
        let subject = format!("{} is disabled and does not exist", describe(state, scope));
        found.add(Law::DisabledExists, subject);
    }
    for slot in state.slots.values() {
        if slot.desired_state == DesiredState::Disabled && slot.retiring.is_some() {
            let subject = format!("{} is disabled and retires an instance", slot.id);
            found.add(Law::DisabledRunsNothing, subject);
        }
    }
}
