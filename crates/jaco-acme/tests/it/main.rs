//! The controller with a real authority: Pebble, the test server of Let's Encrypt. All of it is on addresses of the loopback
//! that no other test uses.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic like the tests")]

mod cluster;
mod issue;
mod pebble;
mod responder;
mod trouble;
