//! The planner's laws and its rules, on whole states. Each test names the row it proves.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic like the tests")]

mod accompanying;
mod arranging;
mod attributes;
mod audited;
mod changing;
mod cluster;
mod computing;
mod constraining;
mod days;
mod draining;
mod foretelling;
mod laws;
mod placing;
mod preferring;
mod preparing;
mod rebalancing;
mod remedying;
mod resting;
mod rolling;
mod routing;
mod scoring;
mod spreading;
mod telling;
mod world;
