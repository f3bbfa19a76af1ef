//! Deployments with their allocations, and the stored spec of one.

use jaco_compose::canonical::escape_dollars;
use jaco_json::deployment::{stored_json, with_allocations};
use jaco_proto::v1::{AllocationInfo, DeploymentInfo, GetDeploymentResponse};
use serde_json::Value;

use crate::error::CliError;
use crate::format::time;
use crate::format::yaml::to_yaml;
use crate::output::{Detail, Frame, Show};
use crate::view::{allocation, deployment};

/// Deployments, with the version of each of their allocations (R-SEL-5).
pub(super) struct Deployments<'a> {
    pub(super) deployments: &'a [DeploymentInfo],
    pub(super) allocations: &'a [AllocationInfo],
}

impl Show for Deployments<'_> {
    fn json(&self) -> Value {
        let json = |known| with_allocations(known, self.allocations);
        self.deployments.iter().map(json).collect()
    }

    fn text(&self, frame: &Frame) -> String {
        let mut text = deployment::table(self.deployments, frame);
        if frame.detail == Detail::Wide && !self.allocations.is_empty() {
            text.push('\n');
            text.push_str(&allocation::table(self.allocations, frame));
        }
        text
    }
}

/// The stored spec of a revision.
pub(super) struct StoredSpec<'a> {
    stored: &'a GetDeploymentResponse,
    compose: Value,
}

impl<'a> StoredSpec<'a> {
    pub(super) fn new(stored: &'a GetDeploymentResponse) -> Result<Self, CliError> {
        let compose = serde_json::from_str(&stored.compose_json)
            .map_err(|error| CliError::local("cannot parse the stored compose model", error))?;
        Ok(Self { stored, compose })
    }
}

impl Show for StoredSpec<'_> {
    fn json(&self) -> Value {
        stored_json(self.stored, &self.compose)
    }

    /// The files, in a form that can be applied again.
    fn text(&self, _: &Frame) -> String {
        let stored = self.stored;
        let revisions: Vec<String> = stored.revisions.iter().map(u64::to_string).collect();
        let mut text = format!(
            "# {}, revision {} of {}, applied {} by {}\n",
            stored.name,
            stored.revision,
            revisions.join(", "),
            time::rfc3339(stored.applied_at_ms).unwrap_or_default(),
            stored.applied_by,
        );
        text.push_str(&to_yaml(&escape_dollars(self.compose.clone())));
        if !stored.overlay_yaml.is_empty() {
            text.push_str("\n# jaco.yaml\n");
            text.push_str(stored.overlay_yaml.trim_end());
            text.push('\n');
        }
        if !stored.environment_toml.is_empty() {
            text.push_str("\n# jaco.services.toml\n");
            text.push_str(stored.environment_toml.trim_end());
            text.push('\n');
        }
        text
    }
}
