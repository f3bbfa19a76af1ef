//! GPUs: what a node has, and what a replica asks for.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::unit::Bytes;

/// A GPU that replicas may have, each for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gpu {
    /// What the engine knows it by: its UUID where there is one, else its number. Unique on its node.
    pub id: Arc<str>,
    /// Its driver, as requests name it: `nvidia`, `amdgpu`, `i915`.
    pub driver: String,
    /// What it is sold as; empty where that is not known.
    pub model: String,
    /// Its own memory; zero where that is not known.
    pub memory: Bytes,
}

impl Gpu {
    /// More are not counted of one node: four times as many as one machine holds today.
    pub const PER_NODE_MAX: usize = 64;
}

/// The GPUs that each replica of a service has for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuDemand {
    /// The driver of all of them.
    pub driver: String,
    /// Which ones.
    pub choice: GpuChoice,
}

/// Which GPUs of a driver a replica has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuChoice {
    /// All that its node has, one at least.
    All,
    /// So many, whichever they are.
    Count(NonZeroU32),
    /// These: ids, or numbers among those of the driver on their node, from 0.
    These(Vec<Arc<str>>),
}

impl fmt::Display for GpuDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = &self.driver;
        match &self.choice {
            GpuChoice::All => write!(f, "all GPUs of {driver}"),
            GpuChoice::Count(count) => write!(f, "{count} of {driver}"),
            GpuChoice::These(ids) => write!(f, "{} of {driver}", ids.join(", ")),
        }
    }
}
