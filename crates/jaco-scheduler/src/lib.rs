//! The planner: [`plan`] is the only place that decides what should run where.
//!
//! It is a pure, total function: no clock, no randomness, no hash order. A pass that cannot place
//! something says so in its report and never fails.

#![deny(clippy::float_arithmetic)]

pub mod attribute;
mod dependency;
mod draft;
pub mod eligibility;
pub mod explain;
pub mod input;
mod mend;
mod node_status;
mod node_table;
mod pass;
mod placement;
mod population;
mod record;
pub mod report;
mod rollout;
mod victim;
mod waiting;
pub mod whatif;

pub use eligibility::Ineligible;
pub use explain::explain;
pub use input::{NodeSignal, PlanInput, PlannerConfig, Signals};
pub use pass::{Plan, plan};
pub use report::Report;
