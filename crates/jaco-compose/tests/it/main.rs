//! Integration tests of the loader, one binary.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail and speak like tests"
)]

mod bad_input;
mod bounds;
mod compose;
mod corpus;
mod hash;
mod hash_keys;
mod nodes;
mod overlay;
mod overlay_schema;
mod shipping;
mod support_table;
mod util;
