//! The client against a scripted daemon, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod over_tls;
