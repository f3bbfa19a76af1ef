//! The few keys of a container's spec that concern the agent itself. All others are the engine's.

use std::sync::Arc;

use jaco_types::spec::Pull;
use jaco_types::{ImageDigest, ServiceSpec};
use serde::Deserialize;

use crate::engine::PullRequest;

/// Which image an instance needs, and when it is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSpec {
    /// The image.
    pub pull: PullRequest,
    /// When it is fetched.
    pub policy: Pull,
}

#[derive(Debug, Default, Deserialize)]
struct Container {
    #[serde(default)]
    service: ImageKeys,
}

#[derive(Debug, Default, Deserialize)]
struct ImageKeys {
    #[serde(default)]
    platform: Option<String>,
}

impl ImageSpec {
    /// Reads them from the spec. A text that cannot be read counts as one without these keys: the
    /// engine will refuse it with the reason when it is started.
    ///
    /// Where it is settled what the image is, that is fetched and run, whatever its name leads to by
    /// now.
    #[must_use]
    pub fn of(spec: &ServiceSpec, digest: Option<&ImageDigest>) -> Self {
        let container: Container = serde_json::from_str(&spec.container).unwrap_or_default();
        let keys = container.service;
        let image = digest.map_or_else(|| Arc::clone(&spec.image), ImageDigest::reference);
        let pull = PullRequest { image, platform: keys.platform.map(Arc::from) };
        Self { pull, policy: spec.pull }
    }
}
