//! Asks what the planner would do in a hypothetical cluster.

use jaco_proto::v1::{Preview, WhatifRequest};
use jaco_sentences::plan as sentences;
use serde_json::Value;

use crate::error::CliError;
use crate::output::{Frame, Show};
use crate::session::Session;
use crate::view::plan;

/// The plan for a hypothetical cluster.
pub(crate) async fn whatif(
    session: &mut Session,
    request: WhatifRequest,
) -> Result<HypotheticalPlan, CliError> {
    let answer = session.client()?.whatif(request).await.map_err(CliError::of_dry_run)?;
    answer.preview.map(HypotheticalPlan).ok_or_else(|| {
        CliError::local("the daemon's response holds no preview", "it has another version")
    })
}

/// The plan for a hypothetical cluster.
pub(crate) struct HypotheticalPlan(Preview);

impl HypotheticalPlan {
    /// A line for each service with replicas whose data is on the nodes.
    pub(crate) fn bound_by_data(&self) -> impl Iterator<Item = String> {
        sentences::bound_by_data(&self.0)
    }

    /// A line for each service with replicas that would be pending.
    pub(crate) fn pending(&self) -> impl Iterator<Item = String> {
        sentences::pending(&self.0)
    }
}

impl Show for HypotheticalPlan {
    fn json(&self) -> Value {
        plan::json(&self.0)
    }

    fn text(&self, _: &Frame) -> String {
        plan::text(&self.0)
    }
}
