//! Warnings and problems that admission collects.

/// Warnings and problems found so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// For the user; the apply is admitted.
    pub(super) warnings: Vec<String>,
    /// Why the apply is refused, all of them.
    pub(super) problems: Vec<String>,
}
