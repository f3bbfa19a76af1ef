//! Rollouts: replacing the replicas of a service step by step, and rolling back when that fails.

mod advance;
mod better_node;
mod failures;
mod goal;
mod prepull;
mod progress;
mod step;

pub(crate) use advance::{advance, stuck};
pub(crate) use failures::{Answered, answer_failures};
pub(crate) use goal::set_goal;
pub(crate) use progress::in_flight;
