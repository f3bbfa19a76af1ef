//! Notations of single values: lengths of time and sizes, paths, command lines, names.

pub(crate) mod name;
pub mod paths;
pub(crate) mod shell;
pub mod units;
