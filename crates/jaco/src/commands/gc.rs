//! `jaco gc`

use jaco_proto::v1::{
    CollectVolumesRequest, CollectVolumesResponse, CollectedVolume, RemovedAllocation,
};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::table::Table;
use crate::ui::{Frame, Show};
use crate::view::{facts, non_empty, without_null};
use crate::when;

/// Remove the volumes and logs that removed allocations left
///
/// A delete, a smaller number of replicas and a replica that leaves a node stop and remove containers; the
/// named volumes and the last lines of the logs stay until this. `jaco get allocations` lists what was removed. What is needed on a node is kept: of replicas that are there, disabled
/// ones included, and of all deployments while the node is drained. Only volumes that the cluster made
/// are looked at. To run it again removes nothing more.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco gc --dry-run     what would go
  jaco gc               of all deployments
  jaco gc shop          of one, also if it was deleted")]
pub(crate) struct Args {
    /// Only those of this deployment
    deployment: Option<String>,
    /// Only show what would go
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let deployment = args.deployment.unwrap_or_default();
    let request = CollectVolumesRequest { deployment, dry_run: args.dry_run, local_only: false };
    let collected = context.client()?.collect_volumes(request).await?;
    let missing: Vec<String> = sorted(&collected.unreachable);
    context.done(&Collected { found: collected, dry_run: args.dry_run })?;
    if missing.is_empty() {
        return Ok(jaco_types::code::ExitCode::Converged);
    }
    Err(CliError::Refused {
        code: ErrorCode::Unavailable,
        message: format!("not every node could be asked: {}", missing.join("; ")),
        help: Some("run it again once they answer".to_owned()),
    })
}

fn sorted(unreachable: &std::collections::HashMap<String, String>) -> Vec<String> {
    let mut lines: Vec<String> =
        unreachable.iter().map(|(node, why)| format!("{node}: {why}")).collect();
    lines.sort();
    lines
}

struct Collected {
    found: CollectVolumesResponse,
    dry_run: bool,
}

impl Collected {
    /// What became of something that is kept for this reason, if there is one.
    fn outcome(&self, kept: &str) -> &'static str {
        match (self.dry_run, kept.is_empty()) {
            (true, _) => "would go",
            (false, true) => "removed",
            (false, false) => "kept",
        }
    }
}

impl Show for Collected {
    fn json(&self) -> Value {
        let volume = |volume: &CollectedVolume| {
            without_null(json!({
                "node": volume.node,
                "deployment": volume.deployment,
                "volume": volume.volume,
                "outcome": self.outcome(&volume.kept),
                "reason": non_empty(&volume.kept),
            }))
        };
        let logs = |one: &RemovedAllocation| {
            json!({
                "node": one.node,
                "deployment": one.deployment,
                "service": one.service,
                "removed_at": when::rfc3339(one.removed_at_ms),
                "bytes": one.log_bytes,
                "outcome": self.outcome(""),
            })
        };
        json!({
            "volumes": self.found.volumes.iter().map(volume).collect::<Value>(),
            "logs": self.found.removed.iter().map(logs).collect::<Value>(),
            "unreachable": facts(&self.found.unreachable),
        })
    }

    fn text(&self, _: &Frame) -> String {
        if self.found.volumes.is_empty() && self.found.removed.is_empty() {
            return "nothing is left\n".to_owned();
        }
        let mut table = Table::new(&["NODE", "DEPLOYMENT", "LEFT", "OUTCOME", "REASON"]);
        for volume in &self.found.volumes {
            table.row([
                volume.node.clone(),
                volume.deployment.clone(),
                format!("volume {}", volume.volume),
                self.outcome(&volume.kept).to_owned(),
                volume.kept.clone(),
            ]);
        }
        for one in &self.found.removed {
            table.row([
                one.node.clone(),
                one.deployment.clone(),
                format!("logs of {}", one.service),
                self.outcome("").to_owned(),
                String::new(),
            ]);
        }
        table.render()
    }
}
