//! Whether a replica reaches another one, and a request from outside a service, from the state and from what routers and
//! edges have found. Pure.
//!
//! ```text
//! ends     who asks, and what it wants to reach
//! course   what the state says of the way: a shared network, the name, the replicas
//! walk     the steps, up to the first that does not hold
//! tunnel   of these, the one between the nodes
//! outside  the steps of a request from outside
//! outcome  what they are, and which of them hold
//! ```

mod course;
mod ends;
mod outcome;
mod outside;
#[cfg(test)]
pub(crate) mod tests;
mod tunnel;
mod walk;

pub(crate) use course::Course;
pub(crate) use ends::{Destination, askers, destination};
pub(crate) use outcome::Walk;
pub(crate) use outside::{asked, walk_from_outside};
pub(crate) use walk::walk;
