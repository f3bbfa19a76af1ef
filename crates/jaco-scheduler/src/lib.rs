//! The planner: [`plan`] is the only place that decides what should run where.
//!
//! It is a pure, total function: no clock, no randomness, no hash order. A pass that cannot place
//! something says so in its report and never fails.

#![deny(clippy::float_arithmetic)]

pub mod input;

pub use input::{NodeSignal, PlanInput, PlannerConfig, Signals};
