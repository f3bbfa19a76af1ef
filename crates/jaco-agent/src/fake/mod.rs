//! A container engine without containers: for simulation, tests, and a cluster on a machine
//! without Docker. It is never used unless it was asked for by name.
//!
//! [`FakeHost`] is the model, with time as an argument. [`FakeDriver`] carries out the agent's
//! effects on it, also with time as an argument. [`FakeEngine`] puts it behind the engine's trait,
//! in real time.

mod driver;
mod engine;
mod exec;
mod host;
mod record;
mod script;

pub use driver::FakeDriver;
pub use engine::FakeEngine;
pub use host::{FakeHost, Reach};
pub use script::{Behaviour, ImageCheck, ImageScript};
