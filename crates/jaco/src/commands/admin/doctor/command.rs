//! `jaco doctor`

use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_backup::Partial;
use jaco_client::{Client, ClientError};
use jaco_proto::v1::{
    BackupScheduleInfo, ClusterStatusRequest, ClusterStatusResponse, ContentInfo,
    ExamineNetworkRequest, ExamineNetworkResponse, ExamineRequest, ExamineResponse, ExaminedNode,
    ExaminedWay, ListBackupSchedulesRequest, ListContentsRequest, ListNotifyTargetsRequest,
    ListVolumesRequest, NotifyTargetInfo, Reach, StatusRequest, StatusResponse, VolumeInfo,
    VoterProgress,
};
use jaco_types::code::ExitCode;
use jaco_types::{ErrorCode, NamedKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::bundle::Bundle;
use super::checks::findings;
use super::cluster_checks::{of_voters, progress, voters};
use super::examination::Examination;
use super::finding::{Finding, Severity};
use super::offline;
use crate::archive::pack_files;
use crate::error::CliError;
use crate::format::quantity::count;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::{non_empty, without_null};

/// How long a node that has just started may take to catch up.
const OVERVIEW_LIMIT: Duration = Duration::from_secs(5);

/// How long the list of the volumes may take: nodes that are down are waited for.
const VOLUMES_LIMIT: Duration = Duration::from_secs(8);

/// Diagnose the cluster
///
/// Asks every node for its health, its clock and the voters it can reach, and the leader how far the log of each
/// voter is; checks nodes, services and replicas. Where the cluster has networks of its own, routers of nodes that share one send each other packets: small
/// ones, such of the size of the MTU, and one that the receiver must drop. Works without a quorum. The exit code is 1 if something does not work; warnings alone are
/// not a failure.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco doctor
  jaco doctor -o json > report.json    all responses
  jaco doctor --server n3:7000         as the third node sees it
  jaco doctor --bundle jaco.tar        for whoever helps: state, events, logs and metrics
  jaco doctor --offline /var/lib/jaco  what a stopped node has
  jaco doctor --offline n1/ n2/ n3/    which survivor has most, and what the others lack")]
pub(crate) struct Args {
    /// Also write an archive for whoever helps: state, the newest events, and the end of the log and the metrics of each
    /// daemon. Environment variables, secrets, compose files and output of containers are not in it; names and addresses
    /// are. Logs and metrics need role operator
    #[arg(long, value_name = "FILE", conflicts_with = "offline")]
    bundle: Option<PathBuf>,
    /// Examine the data directories of stopped nodes instead: what is there, what is damaged, what can be done. Of several
    /// it says which goes furthest, and what recovering another one would lose. Changes nothing; reads a copy of each
    /// log in the folder for temporary files
    #[arg(long, value_name = "DATA_DIR", num_args = 1..)]
    offline: Vec<PathBuf>,
}

pub(crate) async fn run(session: &mut Session, Args { bundle, offline }: Args) -> CommandResult {
    if !offline.is_empty() {
        return offline::run(session, &offline);
    }
    let client = session.client()?;
    session.shows_age();
    session.ui.note("examining all nodes");
    let (cluster, members, network, status, secrets, targets, volumes, backups) = tokio::try_join!(
        client.status(ClusterStatusRequest {}),
        client.examine(ExamineRequest::default()),
        client.examine_network(ExamineNetworkRequest {}),
        overview(&client),
        secrets(&client),
        targets(&client),
        volumes(&client),
        backups(&client),
    )?;
    let own_version = env!("CARGO_PKG_VERSION");
    let status = status.as_ref();
    let (cluster, members, network) = (&cluster, &members, &network);
    let examination = Examination {
        cluster,
        members,
        network,
        status,
        secrets: &secrets,
        targets: &targets,
        volumes: &volumes,
        backups: &backups,
        own_version,
        now_ms: time::now_ms(),
    };
    let found = findings(&examination);
    let fails = found.iter().any(|finding| finding.severity == Severity::Failing);
    let report = Diagnosis { cluster, members, network, found: &found };
    session.ui.result(&report).map_err(CliError::Output)?;
    if let Some(path) = bundle {
        let nodes: Vec<String> = cluster.nodes.iter().map(|node| node.hostname.clone()).collect();
        write_bundle(session, &path, &report.json(), &nodes).await?;
    }
    Ok(if fails { ExitCode::Unexpected } else { ExitCode::Converged })
}

/// Writes the bundle, and says what is missing in it.
async fn write_bundle(
    session: &mut Session,
    path: &Path,
    doctor: &Value,
    nodes: &[String],
) -> Result<(), CliError> {
    let unwritable = |error| CliError::local(format!("cannot write {}", path.display()), error);
    let partial = Partial::create(path).map_err(unwritable)?;
    let (files, missing) = Bundle::gather(&session.client()?, doctor, nodes).await.finish();
    let now = u64::try_from(time::now_ms() / 1000).unwrap_or_default();
    pack_files(&files, now, partial.out()).map_err(unwritable)?;
    partial.keep().map_err(unwritable)?;
    for what in &missing {
        session.ui.note(&format!("missing in the bundle: {what}"));
    }
    session.ui.note(&format!("{} written: {}", path.display(), count(files.len(), "file")));
    Ok(())
}

/// The desired and the observed state; `None` if the node has not caught up and knows neither.
async fn overview(client: &Client) -> Result<Option<StatusResponse>, ClientError> {
    let client = client.until(Some(Instant::now() + OVERVIEW_LIMIT));
    match client.read_status(StatusRequest::default()).await {
        Ok(status) => Ok(Some(status)),
        Err(error) if error.code() == ErrorCode::NotCaughtUp => Ok(None),
        Err(error) => Err(error),
    }
}

/// The stored secrets, without their contents. None without a quorum, which is a finding of its own.
async fn secrets(client: &Client) -> Result<Vec<ContentInfo>, ClientError> {
    let client = client.until(Some(Instant::now() + OVERVIEW_LIMIT));
    let request = ListContentsRequest { kind: NamedKind::Secret.as_str().to_owned() };
    Ok(client.list_contents(request).await.map(|listed| listed.contents).unwrap_or_default())
}

/// The targets of notifications. None without a quorum, which is a finding of its own, nor where the node does not know any.
async fn targets(client: &Client) -> Result<Vec<NotifyTargetInfo>, ClientError> {
    let client = client.until(Some(Instant::now() + OVERVIEW_LIMIT));
    let listed = client.list_notify_targets(ListNotifyTargetsRequest {}).await;
    Ok(listed.map(|listed| listed.targets).unwrap_or_default())
}

/// The volumes of the nodes that list them in time.
async fn volumes(client: &Client) -> Result<Vec<VolumeInfo>, ClientError> {
    let client = client.until(Some(Instant::now() + VOLUMES_LIMIT));
    let listed = client.list_volumes(ListVolumesRequest::default()).await;
    Ok(listed.map(|listed| listed.volumes).unwrap_or_default())
}

/// The schedules of backups. As [`targets`].
async fn backups(client: &Client) -> Result<Vec<BackupScheduleInfo>, ClientError> {
    let client = client.until(Some(Instant::now() + OVERVIEW_LIMIT));
    let listed = client.list_backup_schedules(ListBackupSchedulesRequest::default()).await;
    Ok(listed.map(|listed| listed.schedules).unwrap_or_default())
}

/// The findings and the responses that they come from.
struct Diagnosis<'a> {
    cluster: &'a ClusterStatusResponse,
    members: &'a ExamineResponse,
    network: &'a ExamineNetworkResponse,
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
            "replication": progress(self.members).iter().map(replication).collect::<Value>(),
            "findings": self.found.iter().map(Finding::json).collect::<Value>(),
            "nodes": self.members.nodes.iter().map(node).collect::<Value>(),
            "tunnels": self.network.ways.iter().map(tunnel).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let mut text = String::new();
        for Finding { severity, check, object, message, help } in self.found {
            text +=
                &format!("{}[{check}] {object}: {message}\n  help: {help}\n", severity.as_str());
        }
        text += &replication_table(self.members, &self.cluster.leader);
        let (voters, can_lose) = voters(self.cluster, self.members);
        let leader = non_empty(&self.cluster.leader).unwrap_or("none");
        let nodes = count(self.members.nodes.len(), "node");
        let can_lose = of_voters(can_lose, voters);
        text += &format!("{nodes}, leader {leader}, {can_lose} can be lost: {}\n", self.verdict());
        text
    }
}

impl Diagnosis<'_> {
    fn verdict(&self) -> String {
        let of = |severity| self.found.iter().filter(|one| one.severity == severity).count();
        match (of(Severity::Failing), of(Severity::Warning)) {
            (0, 0) => "no problems".to_owned(),
            (0, warnings) => count(warnings, "warning"),
            (failing, 0) => count(failing, "problem"),
            (failing, warnings) => {
                format!("{}, {}", count(failing, "problem"), count(warnings, "warning"))
            }
        }
    }
}

fn tunnel(way: &ExaminedWay) -> Value {
    without_null(json!({
        "from": way.from,
        "to": way.to,
        "arrives": way.arrives,
        "arrives_full": way.arrives_full,
        "heard_by_receiver": way.one_direction,
        "path_mtu": (way.path_mtu > 0).then_some(way.path_mtu),
        "round_trip_us": way.round_trip_us,
    }))
}

fn replication(voter: &VoterProgress) -> Value {
    without_null(json!({
        "node": voter.node,
        "match_index": voter.match_index,
        "lag": voter.lag,
        "last_contact_ms": voter.last_contact_ms,
        "still_ms": voter.still_ms,
        "refused": non_empty(&voter.refused),
    }))
}

/// One row per voter; nothing where no leader says how far they are.
fn replication_table(members: &ExamineResponse, leader: &str) -> String {
    let mut table = Table::new(&["VOTER", "MATCH INDEX", "LAG", "LAST CONTACT"]);
    for voter in progress(members) {
        let index = voter.match_index.map(|index| index.to_string()).unwrap_or_default();
        let contact = match voter.last_contact_ms {
            _ if voter.node == leader => "leader".to_owned(),
            Some(ms) => format!("{:.1} s ago", Duration::from_millis(ms).as_secs_f64()),
            None => "never".to_owned(),
        };
        // Before its first answer the leader does not know what it has.
        let lag = voter.match_index.map(|_| voter.lag.to_string()).unwrap_or_default();
        table.row([voter.node.clone(), index, lag, contact]);
    }
    if table.is_empty() {
        return String::new();
    }
    table.render() + "\n"
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
        "clock": time::rfc3339(node.clock_ms),
        "clock_ahead_ms": node.clock_ahead_ms,
        "round_trip_us": node.round_trip_us,
        "term": node.term,
        "leader": non_empty(&node.leader),
        "applied": node.applied,
        "suffrage": node.suffrage,
        "engine_down": non_empty(&node.engine_down),
        "key_problem": non_empty(&node.key_problem),
        "reaches": node.reaches.iter().map(reach).collect::<Value>(),
    }))
}
