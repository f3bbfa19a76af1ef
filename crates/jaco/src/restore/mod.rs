//! Restores a backup with ordinary requests (ADR 0066), and says beforehand what would come back (ADR 0146).

mod deployments;
mod disabled;
mod examined;
mod mapping;
mod named;
mod networks;
mod notify_targets;
mod outcome;
mod policy;
mod progress;
mod registries;
mod run;
mod settings;

pub(crate) use examined::{json, text};
pub(crate) use mapping::Mapping;
pub(crate) use outcome::{Outcome, Restored};
pub(crate) use progress::{Differing, PolicyWanted, RestoreError};
pub(crate) use run::restore;
