//! The storage format as its users see it: round trips, damage, and bytes that are forever.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api_lock;
mod archive;
mod chain;
mod damage;
mod decode;
mod decoders;
mod frozen;
mod replay;
mod round_trip;
mod sample;
mod strategy;
