//! The leader's loop over a store in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod large_plan;
mod pacing;
mod rebalance;
mod world;
