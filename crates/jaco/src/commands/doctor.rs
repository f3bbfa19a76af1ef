//! `jaco doctor`

use jaco_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, ExamineRequest, ExamineResponse, ExaminedNode,
    Reach, StatusRequest,
};
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::{CliError, count};
use crate::ui::{Frame, Show};
use crate::view::finding::{Examined, Finding, Severity, findings, of_voters, voters};
use crate::view::{non_empty, without_null};
use crate::when;

/// Find out what is wrong with the cluster
///
/// Asks every node how it is, what its clock says and how it reaches the voters, and looks at nodes,
/// services and replicas. Works without a quorum. Exits with 1 if something does not work; warnings alone
/// are no failure.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco doctor
  jaco doctor -o json > report.json    all that was asked
  jaco doctor --server n3:7000         as the third node sees it")]
pub(crate) struct Args {}

pub(crate) async fn run(context: &mut Context, Args {}: Args) -> Done {
    let client = context.client()?;
    context.ui.note("asking every node");
    let (cluster, members, status) = tokio::try_join!(
        client.status(ClusterStatusRequest {}),
        client.examine(ExamineRequest::default()),
        client.overview(StatusRequest::default()),
    )?;
    let own_version = env!("CARGO_PKG_VERSION");
    let examined = Examined { cluster: &cluster, members: &members, status: &status, own_version };
    let found = findings(&examined);
    let fails = found.iter().any(|finding| finding.severity == Severity::Failing);
    let report = Diagnosis { cluster: &cluster, members: &members, found: &found };
    context.ui.result(&report).map_err(CliError::Output)?;
    Ok(if fails { ExitCode::Unexpected } else { ExitCode::Converged })
}

/// What was found, and what it was found in.
struct Diagnosis<'a> {
    cluster: &'a ClusterStatusResponse,
    members: &'a ExamineResponse,
    found: &'a [Finding],
}

impl Show for Diagnosis<'_> {
    fn json(&self) -> Value {
        let (voters, can_lose) = voters(self.cluster, self.members);
        json!({
            "cluster": self.cluster.name,
            "leader": non_empty(&self.cluster.leader),
            "voters": voters,
            "voters_that_can_be_lost": can_lose,
            "asked": self.members.asked,
            "findings": self.found.iter().map(Finding::json).collect::<Value>(),
            "nodes": self.members.nodes.iter().map(node).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let mut text = String::new();
        for Finding { severity, check, of, what, help } in self.found {
            text += &format!("{}[{check}] {of}: {what}\n  help: {help}\n", severity.as_str());
        }
        let (voters, can_lose) = voters(self.cluster, self.members);
        let leader = non_empty(&self.cluster.leader).unwrap_or("nobody");
        let nodes = count(self.members.nodes.len(), "node");
        let spare = of_voters(can_lose, voters);
        text +=
            &format!("{nodes}, {leader} leads, {spare} can still be lost: {}\n", self.verdict());
        text
    }
}

impl Diagnosis<'_> {
    fn verdict(&self) -> String {
        let of = |severity| self.found.iter().filter(|one| one.severity == severity).count();
        match (of(Severity::Failing), of(Severity::Warning)) {
            (0, 0) => "nothing is wrong".to_owned(),
            (0, warnings) => count(warnings, "warning"),
            (failing, 0) => count(failing, "problem"),
            (failing, warnings) => {
                format!("{}, {}", count(failing, "problem"), count(warnings, "warning"))
            }
        }
    }
}

fn node(node: &ExaminedNode) -> Value {
    if let Some(why) = non_empty(&node.unreachable) {
        return json!({ "node": node.node, "unreachable": why });
    }
    let reach = |reach: &Reach| {
        without_null(json!({
            "node": reach.node,
            "unreachable": non_empty(&reach.unreachable),
            "round_trip_us": reach.round_trip_us,
        }))
    };
    without_null(json!({
        "node": node.node,
        "version": node.version,
        "clock": when::rfc3339(node.clock_ms),
        "clock_ahead_ms": node.clock_ahead_ms,
        "round_trip_us": node.round_trip_us,
        "term": node.term,
        "leader": non_empty(&node.leader),
        "applied": node.applied,
        "suffrage": node.suffrage,
        "engine_down": non_empty(&node.engine_down),
        "reaches": node.reaches.iter().map(reach).collect::<Value>(),
    }))
}
