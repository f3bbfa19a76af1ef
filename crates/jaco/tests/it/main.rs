//! The command line from outside: help, rendering, and commands against a scripted daemon.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod applying;
mod asking;
mod developing;
mod errors;
mod progress;
mod reference;
mod session;
