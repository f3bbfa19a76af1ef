//! Integration tests of the consensus crate, on real disks and in one process.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests are tests")]

mod cluster;
mod decoders;
mod faults;
mod membership;
mod offline;
mod past;
mod process;
mod support;
mod takeover;
mod torture;
