//! Which nodes may take a replica: every rule, and each refusal as a value.

mod colocation;
mod ineligible;
mod limit;
mod rules;

pub(crate) use colocation::{Bond, Colocation, ColocationView, Partner, Presence};
pub use ineligible::Ineligible;
pub(crate) use limit::{Limit, Room};
pub(crate) use rules::{Others, place_refusals, refusals};
