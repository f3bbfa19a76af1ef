//! `jaco logs`

use jaco_proto::v1::{LogLine, LogsRequest, StatusRequest};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::ui::{Frame, Show};
use crate::view::without_null;
use crate::when::{self, Since};
use jaco_types::code::ExitCode;

/// Show what the replicas of a service print
///
/// From whichever nodes they run on, one line per line, marked with its replica and node. Lines of one
/// replica keep their order.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco logs shop/web -f
  jaco logs shop-web-3 --tail 20
  jaco logs shop/web --since 10m -o json")]
pub(crate) struct Args {
    /// A service, or one replica
    #[arg(value_name = "DEPLOYMENT/SERVICE|REPLICA")]
    of: String,
    /// Go on showing new lines
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines of each replica
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    tail: u32,
    /// Only lines since a moment (2026-01-31T12:00:00Z) or for a time (10m)
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let client = context.client()?;
    let mut request = LogsRequest {
        follow: args.follow,
        tail: args.tail,
        since_ms: args.since.map_or(0, |since| since.at_ms(when::now_ms())),
        ..LogsRequest::default()
    };
    match args.of.split_once('/') {
        Some((deployment, service)) => {
            request.deployment = deployment.to_owned();
            request.service = service.to_owned();
        }
        // Which service a replica belongs to is written down, never read from its name.
        None => {
            let status = client.overview(StatusRequest::default()).await?;
            let found = status.replicas.into_iter().find(|replica| replica.id == args.of);
            let replica = found.ok_or_else(|| no_replica(&args.of))?;
            request.deployment = replica.deployment;
            request.service = replica.service;
            request.replica = replica.id;
        }
    }
    let mut lines = client.logs(request).await?;
    while let Some(line) = lines.next().await? {
        context.ui.item(&Line(&line)).map_err(CliError::Output)?;
    }
    Ok(ExitCode::Converged)
}

fn no_replica(id: &str) -> CliError {
    CliError::Refused {
        code: ErrorCode::ReplicaNotFound,
        message: format!("there is no replica {id}"),
        help: Some("a service is written DEPLOYMENT/SERVICE".to_owned()),
    }
}

struct Line<'a>(&'a LogLine);

impl Show for Line<'_> {
    fn json(&self) -> Value {
        without_null(json!({
            "replica": self.0.replica,
            "node": self.0.node,
            "stream": self.0.stream,
            "at": when::rfc3339(self.0.at_ms),
            "text": self.0.text,
        }))
    }

    fn text(&self, _: &Frame) -> String {
        let LogLine { replica, node, text, .. } = self.0;
        format!("[{replica}@{node}] {}\n", text.trim_end_matches(['\n', '\r']))
    }
}
