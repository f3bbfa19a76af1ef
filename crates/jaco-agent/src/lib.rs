//! The agent: makes the containers on its node equal to the desired instances, and reports what it
//! observes.
//!
//! [`plan`](plan::plan) compares, [`AgentCore`] decides when, [`AgentService`] executes. The
//! planner alone decides which instance runs where; an instance that exited is never started again.

pub mod core;
pub mod engine;
pub mod fake;
pub mod files;
pub mod images;
pub mod leader_contact;
pub mod measure;
mod network_gate;
pub mod plan;
pub mod registry;
pub mod removed;
mod reporter;
pub mod service;
pub mod spec;
#[cfg(feature = "suite")]
pub mod suite;
pub mod timed;

pub use self::core::{AgentCore, Effect, Event};
pub use engine::{ContainerEngine, Owner, RegistryCredentials, exec, transfer};
pub use fake::{FakeEngine, FakeHost};
pub use files::{FileDirs, Unseal};
pub use images::PushedImages;
pub use leader_contact::{CONTACT_LAPSE, LeaderContact, StateAge};
pub use network_gate::{Gate, NetworkGate};
pub use removed::{RemovedAllocation, RemovedAllocations};
pub use service::{AgentHandle, AgentService, AgentStatus, Options};
pub use timed::{EngineObserver, EngineTally, TimedEngine};
