//! The node's loop: makes what runs on the node equal to what should, and says what it sees.
//!
//! [`plan`](plan::plan) compares, [`AgentCore`] decides when, [`AgentService`] carries out. The
//! agent chooses nothing: which instance runs where is the planner's decision, and an instance
//! that ended is never started again.

pub mod contact;
pub mod core;
pub mod engine;
pub mod exec;
pub mod fake;
pub mod files;
pub mod measure;
pub mod plan;
pub mod registry;
pub mod remains;
mod reporter;
pub mod service;
pub mod spec;
#[cfg(feature = "suite")]
pub mod suite;

pub use self::core::{AgentCore, Effect, Event};
pub use contact::Contact;
pub use engine::{ContainerEngine, Owner};
pub use fake::{FakeEngine, FakeHost};
pub use files::{Places, Unseal};
pub use registry::RegistryCredentials;
pub use remains::{Remains, RemovedAllocation};
pub use service::{AgentHandle, AgentService, AgentStatus, Options};
