//! Judges each slot: facts in, one verdict out.

mod facts;
mod failure;
mod judge;
mod need;
mod slot_facts;
#[cfg(test)]
mod tests;
mod victims;

pub(crate) use facts::{ServiceFacts, agenda};
pub(crate) use failure::failures_with_this;
pub(crate) use judge::{Move, Place, Restart, Verdict, Wait, judge};
pub(crate) use need::{home, is_own_kind};
pub(crate) use slot_facts::{Content, NodeFact, Reported, SlotFacts};
