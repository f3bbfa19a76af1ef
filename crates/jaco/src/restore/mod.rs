//! Restores a backup with ordinary requests (ADR 0066).

mod deployments;
mod disabled;
mod named;
mod networks;
mod outcome;
mod policy;
mod progress;
mod registries;
mod run;
mod settings;

pub(crate) use outcome::{Outcome, Restored};
pub(crate) use progress::{Differing, Extent, PolicyWanted};
pub(crate) use run::restore;
