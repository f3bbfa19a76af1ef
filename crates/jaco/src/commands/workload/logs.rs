//! `jaco logs`

use jaco_proto::v1::{LogLine, LogsRequest, ReplicaInfo, StatusRequest};
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::format::time::{self, Since};
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::without_null;

/// Show the logs of a deployment, service or replica
///
/// Collects the lines of all its replicas, on whichever nodes they run, each prefixed with its replica
/// and node. Lines of one replica keep their order. With --follow it goes on with restarted, replaced
/// and added replicas, also if the node that answers goes down and another one is known.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco logs shop -f --tail 0                 new lines of all services
  jaco logs shop/web --since 10m -o json
  jaco logs shop-web-3 --tail 20 -t
  jaco logs shop-web-3 --previous            why it was restarted")]
pub(crate) struct Args {
    /// A deployment, a service, or one replica
    #[arg(value_name = "DEPLOYMENT[/SERVICE]|REPLICA")]
    of: String,
    /// Follow new lines
    #[arg(short, long)]
    follow: bool,
    /// Only this number of last lines of each replica
    #[arg(long, value_name = "NUMBER")]
    tail: Option<u32>,
    /// Only lines since a time (2026-01-31T12:00:00Z) or of the last duration (10m)
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
    /// Show the time of each line
    #[arg(short, long)]
    timestamps: bool,
    /// Only lines that contain this text
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Show the last lines of the previous instance of each replica, as they were kept when it ended
    #[arg(long, conflicts_with_all = ["follow", "since"])]
    previous: bool,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    let mut request = LogsRequest {
        follow: args.follow,
        tail: args.tail.unwrap_or(0),
        last: args.tail,
        since_ms: args.since.as_ref().map_or(0, |since| since.at_ms(time::now_ms())),
        ..LogsRequest::default()
    };
    let status = client.read_status(StatusRequest::default()).await?;
    select(&mut request, &args.of, &status.replicas, |name| {
        status.deployments.iter().any(|deployment| deployment.name == name)
    })?;
    let mut printer = Printer { session, args: &args, missing: false };
    if args.previous {
        let selected = status.replicas.iter().filter(|replica| is_selected(&request, replica));
        for line in selected.flat_map(|replica| previous_lines(replica, args.tail)) {
            printer.print(&line)?;
        }
        return Ok(ExitCode::Converged);
    }
    let mut lines = client.log_lines(request);
    while let Some(line) = lines.next().await? {
        printer.print(&line)?;
    }
    Ok(if printer.missing { ExitCode::Unreachable } else { ExitCode::Converged })
}

/// Selects a deployment, `deployment/service` or a replica.
fn select(
    request: &mut LogsRequest,
    of: &str,
    replicas: &[ReplicaInfo],
    is_deployment: impl Fn(&str) -> bool,
) -> Result<(), CliError> {
    if let Some((deployment, service)) = of.split_once('/') {
        (request.deployment, request.service) = (deployment.to_owned(), service.to_owned());
        return Ok(());
    }
    // The service cannot be parsed from the replica id: names may contain dashes.
    match replicas.iter().find(|replica| replica.id == of) {
        Some(replica) => {
            request.deployment.clone_from(&replica.deployment);
            request.service.clone_from(&replica.service);
            request.replica.clone_from(&replica.id);
            Ok(())
        }
        None if is_deployment(of) => {
            of.clone_into(&mut request.deployment);
            Ok(())
        }
        None => Err(CliError::Refused {
            code: ErrorCode::ReplicaNotFound,
            message: format!("there is no deployment or replica {of}"),
            help: Some("a service is written DEPLOYMENT/SERVICE".to_owned()),
        }),
    }
}

fn is_selected(request: &LogsRequest, replica: &ReplicaInfo) -> bool {
    replica.deployment == request.deployment
        && (request.service.is_empty() || replica.service == request.service)
        && (request.replica.is_empty() || replica.id == request.replica)
}

/// The last lines of the instance that ended last.
fn previous_lines(replica: &ReplicaInfo, tail: Option<u32>) -> Vec<LogLine> {
    let Some(ended) = replica.terminations.first() else { return Vec::new() };
    let output = ended.details.get("output").map(String::as_str).unwrap_or_default();
    let lines: Vec<&str> = output.lines().collect();
    let skipped = tail.map_or(0, |tail| lines.len().saturating_sub(tail as usize));
    let line = |text: &&str| LogLine {
        replica: replica.id.clone(),
        node: ended.node.clone(),
        at_ms: ended.at_ms,
        text: (*text).to_owned(),
        ..LogLine::default()
    };
    lines[skipped..].iter().map(line).collect()
}

/// Prints lines as the options say.
struct Printer<'a> {
    session: &'a mut Session,
    args: &'a Args,
    /// Whether lines of a node are missing.
    missing: bool,
}

impl Printer<'_> {
    fn print(&mut self, line: &LogLine) -> Result<(), CliError> {
        if line.stream == "missing" {
            self.missing = true;
            self.session.ui.note(&format!("warning: {}", line.text));
            return Ok(());
        }
        if self.args.grep.as_ref().is_some_and(|wanted| !line.text.contains(wanted.as_str())) {
            return Ok(());
        }
        let shown = Line { line, timestamps: self.args.timestamps };
        self.session.ui.item(&shown).map_err(CliError::Output)
    }
}

struct Line<'a> {
    line: &'a LogLine,
    timestamps: bool,
}

impl Show for Line<'_> {
    fn json(&self) -> Value {
        without_null(json!({
            "replica": self.line.replica,
            "node": self.line.node,
            "stream": self.line.stream,
            "at": time::rfc3339(self.line.at_ms),
            "text": self.line.text,
        }))
    }

    fn text(&self, _: &Frame) -> String {
        let LogLine { replica, node, text, at_ms, .. } = self.line;
        let at = time::rfc3339(*at_ms).filter(|_| self.timestamps);
        let at = at.map(|at| format!("{at} ")).unwrap_or_default();
        format!("{at}[{replica}@{node}] {}\n", text.trim_end_matches(['\n', '\r']))
    }
}
