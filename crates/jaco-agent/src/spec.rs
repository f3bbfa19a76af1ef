//! Keys of a container's spec that the agent itself evaluates; all others are the engine's.

use std::sync::Arc;

use jaco_types::spec::PullPolicy;
use jaco_types::{ImageDigest, ServiceSpec};
use serde::Deserialize;

use crate::engine::PullRequest;

/// Image of an instance, and its pull policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSpec {
    /// The image.
    pub pull: PullRequest,
    /// Pull policy.
    pub policy: PullPolicy,
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
    /// Reads them from the spec. A spec that cannot be parsed counts as one without these keys: the
    /// engine rejects it with the reason at the start.
    ///
    /// A resolved digest is pulled and run, whatever the tag points to by now.
    #[must_use]
    pub fn of(spec: &ServiceSpec, digest: Option<&ImageDigest>) -> Self {
        let container: Container = serde_json::from_str(&spec.container).unwrap_or_default();
        let keys = container.service;
        let image = digest.map_or_else(|| Arc::clone(&spec.image), ImageDigest::reference);
        let pull = PullRequest { image, platform: keys.platform.map(Arc::from) };
        Self { pull, policy: spec.pull }
    }
}
