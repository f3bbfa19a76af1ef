//! Makes a compose file of what Docker Compose or Docker Swarm runs on this machine.
//!
//! From top to bottom: [`engine`] reads what the engine says, `project` and `stack` make sections of it, `document` writes them,
//! `check` asks whether a cluster takes them. All but [`engine`] is pure. Nothing of the engine is changed, and no value of the
//! compose file is printed.

mod amount;
mod attachment;
mod check;
mod document;
mod engine;
mod found;
mod host;
mod image_name;
mod inspected;
mod label;
mod mounts;
mod ports;
mod process;
mod project;
mod scene;
mod secret_like;
mod section;
mod stack;
mod swarm_deploy;
#[cfg(test)]
mod tests;

pub(crate) use check::{COMPOSE, check};
pub(crate) use document::document;
pub(crate) use engine::{Listed, Running, list, read_project, read_stack};
pub(crate) use found::{Data, Difference, Imported, Origin};
pub(crate) use project::{import_project, originals};
pub(crate) use stack::import_stack;
