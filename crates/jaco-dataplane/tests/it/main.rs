//! What a site should hold, and the way there: fixed examples, and laws over random clusters.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "the helpers of tests may panic like the tests"
)]

#[path = "../../../jaco-state/tests/it/attached.rs"]
#[allow(dead_code, reason = "shared with the tests of the state, which use more of it")]
mod attached;
mod cluster;
mod edges;
mod examples;
mod follow;
mod histories;
#[path = "../../../jaco-state/tests/it/history.rs"]
#[allow(dead_code, reason = "shared with the tests of the state, which use more of it")]
mod history;
mod laws;
mod lookups;
mod state;
