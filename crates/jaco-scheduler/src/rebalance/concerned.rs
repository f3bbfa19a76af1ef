//! Which replicas a goal is about, for users who ask why nothing moves.

use jaco_state::ClusterState;
use jaco_types::DesiredState;

use super::arrange::{Goal, is_meant, is_movable_now, spec_now};

/// How many replicas a goal is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concerned {
    /// Those whose placement it orders.
    pub replicas: u32,
    /// Those of them that may be moved now.
    pub movable: u32,
}

/// The replicas that [`super::arrange`] looks at.
#[must_use]
pub fn concerned(state: &ClusterState, goal: Goal) -> Concerned {
    let mut known = Concerned::default();
    for slot in state.slots.values().filter(|it| it.desired_state == DesiredState::Active) {
        let Some(spec) = spec_now(state, slot).filter(|spec| is_meant(goal, spec)) else {
            continue;
        };
        known.replicas = known.replicas.saturating_add(1);
        if is_movable_now(state, slot, spec) {
            known.movable = known.movable.saturating_add(1);
        }
    }
    known
}
