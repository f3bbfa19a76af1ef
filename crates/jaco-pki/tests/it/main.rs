//! Behaviour of the crate as its users see it: real sockets on loopback, real files, frozen bytes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod authority;
mod decode;
mod decoders;
mod files;
mod handshake;
mod kek_ring;
mod lifecycle;
mod limits;
mod operator;
mod rotation;
mod sealed;
mod served;
mod support;
mod token;
