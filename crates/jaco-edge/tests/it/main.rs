//! The edge between clients and instances on loopback: every client and every instance is in this process.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "the helpers of tests may panic like the tests"
)]

mod access;
mod documents;
mod forwarding;
mod http2;
mod hygiene;
mod instances;
mod lab;
mod lost;
mod published;
mod replacing;
mod scale;
mod service;
mod succession;
mod tls;
mod traces;
mod websocket;
mod wire;
