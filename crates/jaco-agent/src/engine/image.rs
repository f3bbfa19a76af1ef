//! Images of a node, and pulls.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::{ImageDigest, RegistryName};

/// An image to pull. Equal requests share one pull.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PullRequest {
    /// The image.
    pub image: Arc<str>,
    /// Platform, if the manifest names one.
    pub platform: Option<Arc<str>>,
}

impl PullRequest {
    /// Whether the image comes from one of these registries.
    #[must_use]
    pub fn is_from(&self, registries: &BTreeSet<RegistryName>) -> bool {
        RegistryName::of_image(&self.image).is_some_and(|registry| registries.contains(&registry))
    }
}

/// An image on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedImage {
    /// Digest in the repository of its name; `None` if it did not come from there.
    pub digest: Option<ImageDigest>,
}

/// Progress of a pull, over all layers whose size is known so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// Bytes fetched.
    pub done: u64,
    /// Bytes to fetch.
    pub total: u64,
}

/// Receives the progress of a pull.
pub type ProgressSink = Arc<dyn Fn(PullProgress) + Send + Sync>;
