//! Whether a replica reaches another one, from the state and from what routers have found. Pure.
//!
//! ```text
//! ends     who asks, and what it wants to reach
//! course   what the state says of the way: a shared network, the name, the replicas
//! walk     the steps, up to the first that does not hold
//! tunnel   of these, the one between the nodes
//! outcome  what they are, and which of them hold
//! ```

mod course;
mod ends;
mod outcome;
#[cfg(test)]
mod tests;
mod tunnel;
mod walk;

pub(crate) use course::Course;
pub(crate) use ends::{Destination, askers, destination};
pub(crate) use outcome::Walk;
pub(crate) use walk::walk;
