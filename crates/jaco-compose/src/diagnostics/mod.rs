//! Problems and the places they point at: positions in texts, paths in trees, nearest names.

pub(crate) mod code;
pub(crate) mod nearest;
pub(crate) mod path;
pub(crate) mod problem;
pub(crate) mod report;
pub(crate) mod source;
