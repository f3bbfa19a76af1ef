//! Whole clusters in one thread: the real planner, the real state machine and the real agents over
//! a simulated network, a simulated log and fake container engines, on a clock that only moves when
//! the next thing happens. One seed, one history.
//!
//! [`World`] is the cluster and what befalls it, [`Session`] drives it by readable lines,
//! [`nemesis`] writes such lines at random, and [`check`] says after each event what must never be.
//! Nothing here decides anything that the product decides: where the product has a loop around a
//! pure part, the loop is mirrored here and the pure part is the same code.

pub mod check;
mod consensus;
mod daemon;
pub mod foretell;
mod leader;
mod machine;
pub mod nemesis;
mod network;
mod outbox;
mod rng;
pub mod sabotage;
pub mod script;
mod service;
mod show;
mod world;

pub use sabotage::Sabotage;
pub use script::Session;
pub use world::World;
