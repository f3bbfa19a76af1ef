//! `jaco wait`

use std::time::Duration;

use jaco_proto::v1::StatusResponse;
use serde_json::{Value, json};

use crate::deploy::condition::{Condition, Target};
use crate::deploy::waiting::wait_for;
use crate::format::time;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::without_null;
use crate::view::progress;

/// Wait until deployments or services are as they should be
///
/// Waits until the condition holds for all that are named, at the same time, shows what is still missing
/// and why, and changes nothing. What cannot succeed without another change ends it at once, with the
/// exit codes of `jaco apply`: 1 where a replica is not restarted any more or a rollout is paused, 5 where
/// replicas cannot be placed, 6 where the revision was rolled back, 7 at the end of the time. A name that
/// does not exist is refused; only --for gone holds for it.
///
/// converged: the desired revision runs as it should, and nothing else of it. healthy: as many replicas as
/// are desired serve, of whatever revision; jobs that have completed count. completed: the jobs have run to
/// their end; of a deployment without jobs, the services whose restart policy lets them end. gone: it is
/// not desired any more, and none of its containers is left.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco apply --detach && jaco wait shop          until the change has converged
  jaco wait shop/migrate --for completed         until the job has ended
  jaco wait shop blog/web --for healthy --timeout 1m
  jaco delete shop --yes --detach; jaco wait shop --for gone")]
pub(crate) struct Args {
    /// Deployments, or services of them
    #[arg(value_name = "DEPLOYMENT[/SERVICE]", required = true)]
    of: Vec<String>,
    /// What to wait for: converged, completed, gone or healthy
    #[arg(
        long = "for",
        value_name = "CONDITION",
        value_enum,
        default_value = "converged",
        hide_possible_values = true
    )]
    condition: Condition,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    session.limit(args.timeout);
    let mut targets: Vec<Target> = args.of.iter().map(|of| Target::parse(of)).collect();
    targets.sort();
    targets.dedup();
    let condition = args.condition;
    let status = wait_for(session, &targets, condition, args.timeout).await?;
    session.done(&Waited { targets: &targets, condition, status: &status })
}

/// The targets, for all of which the condition holds.
struct Waited<'a> {
    targets: &'a [Target],
    condition: Condition,
    status: &'a StatusResponse,
}

impl Waited<'_> {
    fn revision(&self, target: &Target) -> Option<u64> {
        let found = self.status.deployments.iter().find(|it| it.name == target.deployment);
        found.map(|found| found.revision)
    }
}

impl Show for Waited<'_> {
    fn json(&self) -> Value {
        let target = |target: &Target| {
            without_null(json!({
                "deployment": target.deployment,
                "service": target.service,
                "revision": self.revision(target),
            }))
        };
        json!({
            "condition": self.condition.as_str(),
            "raft_index": self.status.raft_index,
            "targets": self.targets.iter().map(target).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let line = |target: &Target| {
            let condition = self.condition.as_str();
            match (self.condition, &target.service) {
                (Condition::Gone, _) => format!("{target} is {condition}\n"),
                (_, Some(_)) => format!("{target} {condition}\n"),
                (_, None) => {
                    let replicas = progress::running_text(self.status, &target.deployment);
                    format!("{target} {condition}: {replicas}\n")
                }
            }
        };
        self.targets.iter().map(line).collect()
    }
}
