//! The draft of the state that a pass edits, in place of the state itself.

mod addresses;
mod agenda;
mod cluster;
mod colocate;
mod disabled;
mod goal;
mod instance;
mod pass;
mod proof;
mod read;
mod service;
mod slot;
mod slots;

pub(crate) use addresses::NoAddress;
pub(crate) use agenda::{Agenda, Phase};
pub(crate) use cluster::Draft;
pub(crate) use disabled::DisabledNodes;
pub(crate) use goal::{Goal, Roll, ServiceRole};
pub(crate) use instance::InstanceDraft;
pub(crate) use pass::Pass;
pub(crate) use proof::{Proof, Proven};
pub(crate) use service::ServiceDraft;
pub(crate) use slot::{Handover, Search, SlotDraft, Successor, keeps_lasting};
