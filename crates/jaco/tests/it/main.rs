//! The command line from outside: help, rendering, and commands against a scripted daemon.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod applying;
mod asking;
mod backing_up;
mod configuring;
mod developing;
mod draining;
mod errors;
mod facts;
mod keeping;
mod planning;
mod progress;
mod reference;
mod registries;
mod relieving;
mod session;
mod shipping;
