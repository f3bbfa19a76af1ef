//! Whether a node has caught up with the cluster since its start.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Whether a node has caught up since its start.
#[derive(Debug)]
pub struct Recovery {
    pub(crate) started: Instant,
    pub(crate) caught_up: AtomicBool,
}

impl Recovery {
    /// A node that starts now.
    #[must_use]
    pub fn begin() -> Self {
        Self { started: Instant::now(), caught_up: AtomicBool::new(false) }
    }
}
