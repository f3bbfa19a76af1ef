//! The planner: [`plan`] is the only place that decides what should run where.
//!
//! It is a pure, total function: no clock, no randomness, no hash order. A pass that cannot place
//! something says so in its report and never fails. The module `pass` is its table of contents;
//! every phase edits one draft, and each edit is a change that will be proposed.
//!
//! The laws that it keeps (PL-1 and on) are listed in `ARCHITECTURE.md`; each is a property test in
//! `tests/it`, under the same id.

#![deny(clippy::float_arithmetic)]

mod analysis;
pub mod attribute;
pub mod backup_times;
mod draft;
mod eligibility;
pub mod input;
mod nodes;
mod pass;
mod phases;
mod placement;
mod planner;
pub mod rebalance;
pub mod report;
mod rollout;
pub mod schedule;
mod verdict;

pub use analysis::compliance::{Noncompliant, noncompliant};
pub use analysis::explain::explain;
pub use analysis::forecast::{Forecast, forecast};
pub use analysis::hypothetical::{Hypothesis, suppose};
pub use analysis::{explain, forecast, hypothetical, suggestion, whatif};
pub use attribute::contradiction;
pub use eligibility::Ineligible;
pub use input::{ConsumerSignal, NodeSignal, PlanInput, PlannerConfig, Signals};
pub use nodes::gpu;
pub use pass::{Plan, plan};
pub use planner::Planner;
pub use report::Report;
