//! The hardware of a node.

use crate::unit::Bytes;

/// The hardware that a node's daemon found when it started. Zero or empty if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// The kernel's release, for example `6.1.0-18-amd64`.
    pub kernel: String,
    /// Processors that the daemon may use.
    pub cores: u32,
    /// The most that one of them is clocked at, in MHz.
    pub mhz: u32,
    /// All memory.
    pub memory: Bytes,
    /// The size of the disk where the engine keeps images and containers.
    pub disk: Bytes,
    /// What was free of it when the daemon started, in whole GiB, so that a restart seldom has
    /// something new to say.
    pub disk_free: Bytes,
}
