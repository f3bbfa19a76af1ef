//! The commands, one file each. The doc comments of their arguments are the help.

pub(crate) mod admin;
pub(crate) mod compose;
pub(crate) mod local;
pub(crate) mod placement;
pub(crate) mod workload;

/// Reads a list of what is disabled; see [`crate::decoders`].
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_any_disabled(text: &str) {
    workload::disable::read_any(text);
}
