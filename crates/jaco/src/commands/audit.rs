//! `jaco audit`

use jaco_proto::v1::{AuditRequest, VerifyAuditRequest, VerifyAuditResponse};
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::ui::{Format, Frame, Show};
use crate::view::Said;
use crate::view::audit::{self, Event};
use crate::when::{self, Since};

/// Show what happened, and who caused it
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "Examples:
  jaco audit --since 1h
  jaco audit --since 2d --until 1d --deployment shop
  jaco audit --type access_refused -f
  jaco audit --last 20 -o json
  jaco audit verify"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Only events since a moment (2026-01-31T12:00:00Z) or for a time (1h)
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
    /// Only events before a moment (2026-01-31T12:00:00Z) or a time ago (1h)
    #[arg(long, value_name = "WHEN", conflicts_with = "follow")]
    until: Option<Since>,
    /// Only events of these kinds
    #[arg(long = "type", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Only events of this deployment and its services
    #[arg(long, value_name = "NAME")]
    deployment: Option<String>,
    /// Only events of this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Only the newest ones
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    last: u32,
    /// Go on showing new events, also when the node that is asked dies
    #[arg(short, long)]
    follow: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Check that the events are as they were written
    ///
    /// Each event carries the hash of the one before. The hash of the newest stands for all: whoever
    /// keeps it elsewhere can tell later that none was changed.
    #[command(after_long_help = "Examples:
  jaco audit verify
  jaco --server n2:7000 audit verify -o json")]
    Verify,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    match args.what {
        Some(What::Verify) => verify(context).await,
        None => show(context, args).await,
    }
}

async fn show(context: &mut Context, args: Args) -> Done {
    let now = when::now_ms();
    let request = AuditRequest {
        since_ms: args.since.map_or(0, |since| since.at_ms(now)),
        until_ms: args.until.map_or(0, |until| until.at_ms(now)),
        kinds: args.kinds,
        deployment: args.deployment.unwrap_or_default(),
        node: args.node.unwrap_or_default(),
        follow: args.follow,
        last: args.last,
        ..AuditRequest::default()
    };
    let mut events = context.client()?.audit(request);
    let mut all = Vec::new();
    // What has an end is one value for programs; what has none is a stream of values.
    let as_one = !args.follow && matches!(context.ui.format(), Format::Json | Format::Yaml);
    while let Some(event) = events.next().await? {
        if as_one {
            all.push(audit::json(&event));
        } else {
            context.ui.item(&Event(&event)).map_err(CliError::Output)?;
        }
    }
    if as_one {
        return context.done(&All(all));
    }
    Ok(ExitCode::Converged)
}

async fn verify(context: &mut Context) -> Done {
    let verified = context.client()?.verify_audit(VerifyAuditRequest {}).await?;
    context.done(&said(&verified))
}

fn said(verified: &VerifyAuditResponse) -> Said {
    let first = format!("{}/{}", verified.first_index, verified.first_number);
    let last = format!("{}/{}", verified.last_index, verified.last_number);
    let reach = if verified.complete { "all there ever were" } else { "older ones are gone" };
    let text = format!(
        "{} audit events of {}, {first} to {last}, are as they were written ({reach})\nhead {}\n",
        verified.events, verified.answered_by, verified.head
    );
    let json = json!({
        "node": verified.answered_by,
        "events": verified.events,
        "first": first,
        "last": last,
        "complete": verified.complete,
        "follows": verified.follows,
        "head": verified.head,
    });
    Said { json, text }
}

struct All(Vec<Value>);

impl Show for All {
    fn json(&self) -> Value {
        Value::Array(self.0.clone())
    }

    fn text(&self, _: &Frame) -> String {
        String::new()
    }
}
