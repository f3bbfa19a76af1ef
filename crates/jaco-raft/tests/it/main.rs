//! Integration tests of the consensus crate, on real disks and in one process.

mod cluster;
mod faults;
mod membership;
mod process;
mod support;
