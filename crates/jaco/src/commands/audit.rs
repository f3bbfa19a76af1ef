//! `jaco audit`

use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    AuditRequest, SetAuditRetentionRequest, VerifyAuditRequest, VerifyAuditResponse,
};
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::archive::{self, Archived};
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
  jaco audit verify
  jaco audit verify --archive /var/lib/jaco/audit
  jaco audit retention 30d"
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
  jaco --server n2:7000 audit verify -o json
  jaco audit verify --archive /var/lib/jaco/audit")]
    Verify {
        /// Also check a node's files of events that the cluster let go of, and that they join
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
    },
    /// Show how long events are kept, or say it
    ///
    /// Events that are older, and the oldest where there are too many, go from the cluster to the
    /// files of each node. An hour to ten years.
    #[command(after_long_help = "Examples:
  jaco audit retention
  jaco audit retention 30d")]
    Retention {
        /// From now on: 90d, 36h
        #[arg(value_name = "AGE", value_parser = when::duration)]
        age: Option<Duration>,
    },
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    match args.what {
        Some(What::Verify { archive }) => verify(context, archive.as_deref()).await,
        Some(What::Retention { age }) => retention(context, age).await,
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
        if let Some(warning) = audit::gap_warning(&event) {
            context.ui.note(&warning);
            if matches!(context.ui.format(), Format::Table | Format::Wide) {
                continue;
            }
        }
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

async fn verify(context: &mut Context, folder: Option<&Path>) -> Done {
    // Asked first: what goes to the files meanwhile is newer than what they must join.
    let verified = context.client()?.verify_audit(VerifyAuditRequest {}).await?;
    let archived = folder.map(|folder| archive::verify(folder, &verified)).transpose()?;
    context.done(&said(&verified, archived.as_ref()))
}

async fn retention(context: &mut Context, age: Option<Duration>) -> Done {
    let age_ms = age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    if age.is_some() && age_ms == 0 {
        return Err(CliError::usage("an age of nothing keeps nothing", "write 30d or 36h"));
    }
    let request = SetAuditRetentionRequest { age_ms, request_id: fresh_request_id() };
    let known = context.client()?.set_audit_retention(request).await?;
    let text = match known.age_ms {
        0 => format!("the newest {} events are kept, whatever their age\n", known.events_max),
        age_ms => {
            let age = when::length(age_ms);
            format!("events are kept for {age}, the newest {} at most\n", known.events_max)
        }
    };
    let age = (known.age_ms > 0).then_some(known.age_ms);
    context.done(&Said { json: json!({ "age_ms": age, "events_max": known.events_max }), text })
}

fn said(verified: &VerifyAuditResponse, archived: Option<&Archived>) -> Said {
    let first = format!("{}/{}", verified.first_index, verified.first_number);
    let last = format!("{}/{}", verified.last_index, verified.last_number);
    let reach = if verified.complete { "all there ever were" } else { "older ones are gone" };
    let mut text = format!(
        "{} audit events of {}, {first} to {last}, are as they were written ({reach})\nhead {}\n",
        verified.events, verified.answered_by, verified.head
    );
    let mut json = json!({
        "node": verified.answered_by,
        "events": verified.events,
        "first": first,
        "last": last,
        "complete": verified.complete,
        "follows": verified.follows,
        "head": verified.head,
    });
    if let Some(archived) = archived {
        text.push_str(&archived.text());
        json["archive"] = archived.json();
    }
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
