//! Rollouts: replacing the replicas of a service step by step, and rolling back when that fails.

mod advance;
mod better_node;
pub(crate) mod dependency;
mod failures;
mod goal;
mod joining;
mod prepull;
mod progress;
mod siblings;
mod step;

pub(crate) use advance::{advance, stuck};
pub(crate) use failures::{Answered, abort, answer_failures};
pub(crate) use goal::set_goal;
pub(crate) use prepull::pin_first;
pub(crate) use progress::in_flight;
pub(crate) use siblings::left_behind;
