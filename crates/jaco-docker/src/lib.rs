//! Docker as the node's container engine, by its API over the local socket.
//!
//! [`spec::body`] translates, and is pure; [`DockerEngine`] talks. Everything it makes carries the
//! labels of its owner, and it touches nothing that does not.

mod auth;
mod convert;
mod engine;
mod error;
mod exec;
mod image;
mod logs;
mod names;
mod network;
mod pull;
pub mod spec;
mod volume;

pub use engine::{DockerEngine, DockerOptions};
