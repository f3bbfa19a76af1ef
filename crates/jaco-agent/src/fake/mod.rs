//! A container engine without containers: for simulation, tests, and clusters on a machine without
//! Docker. It is used only if configured.
//!
//! [`FakeHost`] is the model, with time as an argument. [`FakeDriver`] performs the agent's effects
//! on it, also with time as an argument. [`FakeEngine`] implements the engine trait in real time.

mod driver;
mod engine;
mod exec;
mod host;
mod load;
mod record;
mod script;
pub mod transfer;
mod volumes;

pub use driver::FakeDriver;
pub use engine::FakeEngine;
pub use host::{FakeHost, Reachability, Space};
pub use script::{Behaviour, ImageCheck, ImageScript};
