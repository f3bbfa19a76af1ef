//! Checks trees against the key tables, and turns every short form into its long form.

pub(crate) mod checker;
mod mounts;
mod ports;
mod scalars;
mod short;
pub(crate) mod unique;
mod walk;
