//! What a site should hold, and the way there: fixed examples, and laws over random clusters.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic like the tests")]

mod cluster;
mod examples;
mod laws;
mod lookups;
