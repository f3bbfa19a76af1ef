//! `jaco audit`

use jaco_proto::v1::AuditRequest;
use jaco_types::code::ExitCode;
use serde_json::Value;

use super::{Context, Done};
use crate::error::CliError;
use crate::ui::{Format, Frame, Show};
use crate::view::audit::{self, Event};
use crate::when::{self, Since};

/// Show what happened, and who caused it
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco audit --since 1h
  jaco audit --type access_refused -f
  jaco audit --last 20 -o json")]
pub(crate) struct Args {
    /// Only events since a moment (2026-01-31T12:00:00Z) or for a time (1h)
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
    /// Only events of these kinds
    #[arg(long = "type", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Only the newest ones
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    last: u32,
    /// Go on showing new events
    #[arg(short, long)]
    follow: bool,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let request = AuditRequest {
        since_ms: args.since.map_or(0, |since| since.at_ms(when::now_ms())),
        kinds: args.kinds,
        follow: args.follow,
        last: args.last,
        ..AuditRequest::default()
    };
    let mut events = context.client()?.audit(request).await?;
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

struct All(Vec<Value>);

impl Show for All {
    fn json(&self) -> Value {
        Value::Array(self.0.clone())
    }

    fn text(&self, _: &Frame) -> String {
        String::new()
    }
}
