//! `jaco volume move`

use std::collections::BTreeSet;

use jaco_client::{VolumeProgress, fresh_request_id};
use jaco_proto::v1::{
    ExplainRequest, PlanVolumeMoveRequest, PlanVolumeMoveResponse, SettleVolumeMoveRequest,
    WriteVolumeStart,
};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Named, draw};
use crate::error::CliError;
use crate::format::quantity::size;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};

/// The rules of a node that a replica that starts there later may break now.
const PASSING: [&str; 3] = ["disabled", "not_beside", "partner_to_come"];

/// Move a volume, and the replicas that mount it, to another node
///
/// Replicas with data stay on the node that has it. This copies their volumes to NODE, directly between the nodes, and
/// has them start there from then on. Whatever else those replicas mount moves with it, and so do the other replicas on
/// the node that mount the same.
///
/// They have to be disabled: `jaco disable` stops them, with their `pre_stop` hooks, and keeps their place. As long as
/// they are, nothing is lost by a move that breaks off; it can be run again. The volumes on the former node stay until
/// `jaco gc`. Paths of the node and external volumes are not copied; the command names them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco disable shop/db && jaco volume move shop/data n2 && jaco enable shop/db
  jaco volume move shop/data n2 --dry-run       show what would be copied, and who moves
  jaco volume move shop/data n2 --from n1       if replicas on several nodes mount it")]
pub(super) struct Args {
    /// DEPLOYMENT/VOLUME
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// The node that gets it
    #[arg(value_name = "NODE")]
    node: String,
    /// The node that has it, if replicas on several nodes do
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Replace volumes that NODE has already
    #[arg(long)]
    replace: bool,
    /// Show what would be moved; change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let named = Named::parse(&args.volume)?;
    let request = PlanVolumeMoveRequest {
        deployment: named.deployment.clone(),
        volume: named.volume,
        from: args.from.unwrap_or_default(),
        to: args.node,
    };
    let plan = session.client()?.plan_volume_move(request).await?;
    let deployment = named.deployment;
    require_room(session, &deployment, &plan).await?;
    for left in &plan.left {
        let (from, to) = (&plan.from, &plan.to);
        session.ui.note(&format!("not copied: {left} of {from}; the replicas use that of {to}"));
    }
    if args.dry_run {
        return session.done(&Moved { deployment, plan, bytes: None });
    }
    require_disabled(&deployment, &plan)?;
    let existing = if args.replace { "replace" } else { "refuse" };
    let mut bytes = 0;
    for volume in &plan.volumes {
        let start = WriteVolumeStart {
            deployment: deployment.clone(),
            volume: volume.clone(),
            node: plan.to.clone(),
            existing: existing.to_owned(),
            from: plan.from.clone(),
        };
        bytes += copy(session, start).await?;
    }
    let request = SettleVolumeMoveRequest {
        deployment: deployment.clone(),
        replicas: plan.replicas.clone(),
        volumes: plan.volumes.clone(),
        to: plan.to.clone(),
        request_id: fresh_request_id(),
    };
    let settled = session.client()?.settle_volume_move(request).await;
    if let Err(error) = settled {
        let (from, to) = (&plan.from, &plan.to);
        session.ui.note(&format!("the replicas stay on {from}; the copies on {to} are not used"));
        return Err(error.into());
    }
    session.done(&Moved { deployment, plan, bytes: Some(bytes) })
}

/// Refuses a node on which the replicas could not start.
async fn require_room(
    session: &mut Session,
    deployment: &str,
    plan: &PlanVolumeMoveResponse,
) -> Result<(), CliError> {
    let services: BTreeSet<&str> = plan.replicas.iter().map(|one| one.service.as_str()).collect();
    for service in services {
        let request = ExplainRequest {
            deployment: deployment.to_owned(),
            service: service.to_owned(),
            ..ExplainRequest::default()
        };
        let explained = session.client()?.explain(request).await?;
        let answer = explained.nodes.into_iter().find(|answer| answer.node == plan.to);
        let failed = answer.map(|answer| answer.failed).unwrap_or_default();
        let lasting = failed.into_iter().filter(|rule| !PASSING.contains(&rule.rule.as_str()));
        let why: Vec<String> = lasting.map(|rule| rule.text).collect();
        if !why.is_empty() {
            let why = why.join("; ");
            return Err(CliError::Refused {
                code: ErrorCode::CannotPlace,
                message: format!("{} does not take {deployment}/{service}: {why}", plan.to),
                help: Some(format!(
                    "`jaco explain {deployment}/{service}` has every node's answer"
                )),
            });
        }
    }
    Ok(())
}

/// Refuses while a replica may change its data.
fn require_disabled(deployment: &str, plan: &PlanVolumeMoveResponse) -> Result<(), CliError> {
    let running = || plan.replicas.iter().filter(|one| !one.disabled);
    let names: Vec<&str> = running().map(|one| one.replica.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let services: BTreeSet<&str> = running().map(|one| one.service.as_str()).collect();
    let disable: Vec<String> = services
        .into_iter()
        .map(|service| format!("jaco disable {deployment}/{service}"))
        .collect();
    Err(CliError::Refused {
        code: ErrorCode::VolumeInUse,
        message: format!("these replicas move with it and are not disabled: {}", names.join(", ")),
        help: Some(format!("`{}`, and enable them afterwards", disable.join(" && "))),
    })
}

/// Copies a volume; how many bytes its archive has.
async fn copy(session: &mut Session, start: WriteVolumeStart) -> Result<u64, CliError> {
    let name = format!("{}/{}", start.deployment, start.volume);
    // The node sends nothing as long as this could still send an archive.
    let (mut write, _inputs, _started) = session.client()?.write_volume(start).await?;
    let mut copied = 0;
    while let VolumeProgress::Copied(bytes) = write.next().await? {
        copied = bytes;
        draw(session, &[format!("{name}: {} copied", size(copied))]);
    }
    draw(session, &[]);
    Ok(copied)
}

/// What was moved, or would be.
struct Moved {
    deployment: String,
    plan: PlanVolumeMoveResponse,
    /// Of all archives; none if it was not moved.
    bytes: Option<u64>,
}

impl Show for Moved {
    fn json(&self) -> Value {
        let replicas = self.plan.replicas.iter().map(|one| one.replica.as_str());
        json!({
            "deployment": self.deployment,
            "volumes": self.plan.volumes,
            "replicas": replicas.collect::<Vec<_>>(),
            "from": self.plan.from,
            "to": self.plan.to,
            "not_copied": self.plan.left,
            "moved": self.bytes.is_some(),
            "bytes": self.bytes,
        })
    }

    fn text(&self, _: &Frame) -> String {
        let PlanVolumeMoveResponse { from, to, .. } = &self.plan;
        let volumes: Vec<String> = self
            .plan
            .volumes
            .iter()
            .map(|volume| format!("{}/{volume}", self.deployment))
            .collect();
        let volumes = volumes.join(", ");
        let replicas: Vec<&str> =
            self.plan.replicas.iter().map(|one| one.replica.as_str()).collect();
        let replicas = match replicas.is_empty() {
            true => "no replica".to_owned(),
            false => replicas.join(", "),
        };
        match self.bytes {
            Some(bytes) => format!(
                "{volumes} moved from {from} to {to}: {}; {replicas} starts there\n\
                 {from} keeps its copy until `jaco gc {}`\n",
                size(bytes),
                self.deployment
            ),
            None => format!("{volumes} would move from {from} to {to}, and {replicas} with it\n"),
        }
    }
}
