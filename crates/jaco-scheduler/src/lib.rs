//! The planner: [`plan`] is the only place that decides what should run where.
//!
//! It is a pure, total function: no clock, no randomness, no hash order. A pass that cannot place
//! something says so in its report and never fails. The module `pass` is its table of contents;
//! every phase edits one draft, and each edit is a change that will be proposed.
//!
//! # Laws
//!
//! Each is a property test in `tests/it`, under the same id.
//!
//! | Id | Law |
//! | --- | --- |
//! | PL-1 | Same input, same plan, down to the report; insertion order decides nothing. |
//! | PL-2 | A pass over the state that the last pass left finds nothing to do. |
//! | PL-3 | With an obedient runtime all comes to rest within 3 passes per replica and 4 more. |
//! | PL-4 | No replica stops serving because of the planner, but one where two cannot run side by side. |
//! | PL-5 | Who gets a node gets one that is ready, open and allowed; an index names one slot ever. |
//! | PL-6 | A node that joins and a change of another deployment move nobody. |
//! | PL-7 | What is wanted and not there is explained, with every rule of every node. |
//! | PL-8 | Data is never left behind. |
//! | PL-9 | No more is reserved of a node than it has; a port and a GPU of a host have one holder. |
//! | PL-13 | What served leaves the endpoints before it stops, and stops once all who follow them know, or at the deadline. |
//! | PL-14 | A planner that remembers gives the plan of one that begins anew, whatever it was asked before. |
//! | PL-15 | The smallest change for what waits, done, places it; no part of it does. |
//! | PL-16 | Constraints that are said to contradict each other hold of no node together. |
//! | PL-17 | Who goes with others is where they are, and no node has more than it may. |
//! | PL-18 | What rests runs nothing, takes nothing and keeps its place; nothing is started where its service rests. |
//! | PL-19 | Every rollout ends, and so does its way back. |
//! | PL-21 | Who gets a node gets the one that is preferred; who goes leaves the one that is least. |

#![deny(clippy::float_arithmetic)]

mod asked;
pub mod attribute;
mod company;
pub mod contradiction;
mod dependency;
mod draft;
mod drain;
pub mod eligibility;
pub mod explain;
pub mod forecast;
pub mod gpu;
pub mod imagine;
pub mod input;
mod leaving;
mod memory;
mod mend;
mod node_status;
mod node_table;
mod pass;
mod placement;
mod planner;
mod population;
mod preference;
mod prepare;
mod read;
pub mod rebalance;
mod record;
pub mod remedy;
pub mod report;
mod resting;
mod rollout;
mod settled;
mod usage;
mod version;
mod victim;
mod waiting;
pub mod whatif;

pub use eligibility::Ineligible;
pub use explain::explain;
pub use forecast::{Forecast, forecast};
pub use imagine::{Imagined, imagine};
pub use input::{ConsumerSignal, NodeSignal, PlanInput, PlannerConfig, Signals};
pub use pass::{Plan, plan};
pub use planner::Planner;
pub use report::Report;
