//! Whole clusters in one thread: the real planner, the real state machine and the real agents over
//! a simulated network, a simulated log and fake container engines, on a clock that only moves when
//! the next thing happens. One seed, one history.
//!
//! [`World`] is the cluster and what happens to it, [`Session`] drives it by readable lines,
//! [`nemesis`] writes such lines at random, and the laws of `invariants` are asked at each event.
//! Nothing here decides anything that the product decides: where the product has a loop around a
//! pure part, the loop is mirrored here and the pure part is the same code.

mod consensus;
mod consumer;
pub mod coverage;
mod daemon;
pub mod forecast;
mod invariants;
mod leader;
mod log;
mod machine;
pub mod nemesis;
mod network;
mod outbox;
mod rng;
mod router;
pub mod sabotage;
pub mod script;
mod service;
mod show;
mod shrink;
mod world;

pub use invariants::{InvariantViolation, Violation};
pub use sabotage::Sabotage;
pub use script::Session;
pub use shrink::shrink;
pub use world::World;
