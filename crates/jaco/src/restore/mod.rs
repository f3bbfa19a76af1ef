//! Restores a backup with ordinary requests (ADR 0066), and says beforehand what would come back (ADR 0146).

mod deployments;
mod disabled;
mod examine;
#[cfg(test)]
mod examine_tests;
mod examined;
mod files;
mod manifest;
mod named;
mod networks;
mod outcome;
mod policy;
mod progress;
mod registries;
mod run;
mod settings;

pub(crate) use examine::examine;
pub(crate) use examined::Examined;
pub(crate) use outcome::{Outcome, Restored};
pub(crate) use progress::{Differing, Extent, PolicyWanted, RestoreError};
pub(crate) use run::restore;
