//! The leader's loop: watch the state, wait a moment, plan, propose. It decides nothing itself; the
//! planner does. On a follower it plans nothing (R-LOOP-1).

pub mod clock_watch;
pub mod debounce;
pub mod jobs;
pub mod leader_loop;
mod parts;
pub mod rebalance;
pub mod schedule;
pub mod signals;
pub mod tally;

pub use clock_watch::{ClockStep, ClockWatch, LOOK_EVERY};
pub use debounce::Debounce;
pub use jobs::JobLoop;
pub use leader_loop::{AgreedPlan, Controller, Options, PassStatus};
pub use parts::CHANGES_PER_ENTRY;
pub use rebalance::{RebalanceLoop, RebalanceOptions, RebalanceState};
pub use schedule::{Pace, PassResult, PassSchedule};
pub use signals::SignalBook;
pub use tally::PlannerTally;
