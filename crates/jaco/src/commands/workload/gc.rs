//! `jaco gc`

use jaco_proto::v1::{
    CollectVolumesRequest, CollectVolumesResponse, CollectedVolume, RemovedAllocation,
};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::{non_empty, string_map, without_null};

/// Remove volumes and logs of removed allocations
///
/// When a deployment is deleted, scaled down or moved, its containers are removed; named volumes and the
/// last log lines stay on the node until they are garbage collected. `jaco get allocations` lists removed
/// allocations. Volumes of replicas on the node are kept, also of disabled ones, and so are all volumes
/// of a draining node. Only volumes created by the cluster are considered. It asks for confirmation on a
/// terminal; elsewhere it needs --yes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco gc --dry-run     show what would be removed
  jaco gc               all deployments
  jaco gc shop --yes    one deployment, even if it is deleted")]
pub(crate) struct Args {
    /// Only volumes and logs of this deployment
    deployment: Option<String>,
    /// Show what would be removed; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    if !args.yes && !args.dry_run {
        let of = args.deployment.as_deref().unwrap_or("all deployments");
        session.confirm(&format!("Delete the data of removed allocations of {of}?"))?;
    }
    let deployment = args.deployment.unwrap_or_default();
    let request = CollectVolumesRequest { deployment, dry_run: args.dry_run, local_only: false };
    let collected = session.client()?.collect_volumes(request).await?;
    let missing: Vec<String> = sorted(&collected.unreachable);
    session.done(&Collected { found: collected, dry_run: args.dry_run })?;
    if missing.is_empty() {
        return Ok(jaco_types::code::ExitCode::Converged);
    }
    Err(CliError::Refused {
        code: ErrorCode::Unavailable,
        message: format!("not all nodes could be reached: {}", missing.join("; ")),
        help: Some("run it again when they are reachable".to_owned()),
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
    /// The outcome of a volume or log; `kept` is the reason why it is kept, or empty.
    fn outcome(&self, kept: &str) -> &'static str {
        match (self.dry_run, kept.is_empty()) {
            (true, true) => "would be removed",
            (false, true) => "removed",
            (_, false) => "kept",
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
                "removed_at": time::rfc3339(one.removed_at_ms),
                "bytes": one.log_bytes,
                "outcome": self.outcome(""),
            })
        };
        json!({
            "volumes": self.found.volumes.iter().map(volume).collect::<Value>(),
            "logs": self.found.removed.iter().map(logs).collect::<Value>(),
            "unreachable": string_map(&self.found.unreachable),
        })
    }

    fn text(&self, _: &Frame) -> String {
        if self.found.volumes.is_empty() && self.found.removed.is_empty() {
            return "nothing to remove\n".to_owned();
        }
        let mut table = Table::new(&["NODE", "DEPLOYMENT", "RESOURCE", "OUTCOME", "REASON"]);
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
