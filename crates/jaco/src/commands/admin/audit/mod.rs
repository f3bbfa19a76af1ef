//! `jaco audit`

mod archive;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::archive::VerifiedArchive;
use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    AuditRequest, SetAuditRetentionRequest, StatusRequest, StatusScope, VerifyAuditRequest,
    VerifyAuditResponse,
};
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::format::time::{self, Since};
use crate::output::{Format, Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::Summary;
use crate::view::audit::{self, Event};

/// Show the audit log
///
/// Lists what was changed or refused, when, and by whom, oldest first.
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
    action: Option<Action>,
    /// Only events since a time (2026-01-31T12:00:00Z) or of the last duration (1h)
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
    /// Only events before a time (2026-01-31T12:00:00Z) or a duration ago (1h)
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
    /// Only this number of newest events
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Follow new events, also if the node that answers goes down; without --since or --last from now on
    #[arg(short, long)]
    follow: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Verify the hash chain of the events
    ///
    /// Each event holds the hash of the event before it. The printed head is the hash of the newest one:
    /// kept elsewhere, it proves later that no event was changed.
    #[command(after_long_help = "Examples:
  jaco audit verify
  jaco --server n2:7000 audit verify -o json
  jaco audit verify --archive /var/lib/jaco/audit")]
    Verify {
        /// Also verify a node's archive of evicted events, and that the cluster's events continue it
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
    },
    /// Show or set the retention of events
    ///
    /// Older events, and the oldest ones if there are too many, are evicted from the cluster; each node
    /// keeps them in its archive. The retention is between an hour and ten years.
    #[command(after_long_help = "Examples:
  jaco audit retention
  jaco audit retention 30d")]
    Retention {
        /// The new retention: 90d, 36h
        #[arg(value_name = "AGE", value_parser = time::duration)]
        age: Option<Duration>,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Some(Action::Verify { archive }) => verify(session, archive.as_deref()).await,
        Some(Action::Retention { age }) => retention(session, age).await,
        None => show(session, args).await,
    }
}

async fn show(session: &mut Session, args: Args) -> CommandResult {
    let now = time::now_ms();
    let request = AuditRequest {
        since_ms: args.since.map_or(0, |since| since.at_ms(now)),
        until_ms: args.until.map_or(0, |until| until.at_ms(now)),
        kinds: args.kinds,
        deployment: args.deployment.unwrap_or_default(),
        node: args.node.unwrap_or_default(),
        follow: args.follow,
        last: args.last.unwrap_or_default(),
        ..AuditRequest::default()
    };
    let begins_now = request.follow && request.since_ms == 0 && request.last == 0;
    let request = match begins_now {
        true => {
            AuditRequest { after_index: newest(session).await?, after_number: u32::MAX, ..request }
        }
        false => request,
    };
    let mut events = session.client()?.events(request);
    let mut all = Vec::new();
    // A finite list is one value for programs; a followed one is a stream of values.
    let as_list = !args.follow && matches!(session.ui.format(), Format::Json | Format::Yaml);
    while let Some(event) = events.next().await? {
        if let Some(warning) = audit::gap_warning(&event) {
            session.ui.note(&warning);
            if matches!(session.ui.format(), Format::Table | Format::Wide) {
                continue;
            }
        }
        if as_list {
            all.push(audit::json(&event));
        } else {
            session.ui.item(&Event(&event)).map_err(CliError::Output)?;
        }
    }
    if as_list {
        return session.done(&EventList(all));
    }
    Ok(ExitCode::Converged)
}

/// The index of the newest entry that a node has: its clock and that of this machine may differ.
async fn newest(session: &mut Session) -> Result<u64, CliError> {
    let scope = StatusScope::Nodes.into();
    let request = StatusRequest { scope, ..StatusRequest::default() };
    let status = session.client()?.read_status(request).await?;
    Ok(status.raft_index)
}

async fn verify(session: &mut Session, folder: Option<&Path>) -> CommandResult {
    // Before the archive: events that are archived meanwhile are newer than those it must reach.
    let verified = session.client()?.verify_audit(VerifyAuditRequest {}).await?;
    let archive = folder.map(|folder| archive::verify(folder, &verified)).transpose()?;
    session.done(&summary(&verified, archive.as_ref()))
}

async fn retention(session: &mut Session, age: Option<Duration>) -> CommandResult {
    let age_ms = age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    if age.is_some() && age_ms == 0 {
        return Err(CliError::usage("the retention must be longer than zero", "give 30d or 36h"));
    }
    let request = SetAuditRetentionRequest { age_ms, request_id: fresh_request_id() };
    let known = session.client()?.set_audit_retention(request).await?;
    let text = match known.age_ms {
        0 => format!("the newest {} events are kept, of any age\n", known.events_max),
        age_ms => {
            let age = time::length(age_ms);
            format!("events are kept for {age}, the newest {} at most\n", known.events_max)
        }
    };
    let age = (known.age_ms > 0).then_some(known.age_ms);
    session.done(&Summary { json: json!({ "age_ms": age, "events_max": known.events_max }), text })
}

fn summary(verified: &VerifyAuditResponse, archive: Option<&VerifiedArchive>) -> Summary {
    let first = format!("{}/{}", verified.first_index, verified.first_number);
    let last = format!("{}/{}", verified.last_index, verified.last_number);
    let extent = if verified.complete { "complete" } else { "older events are evicted" };
    let mut text = format!(
        "{} audit events of {}, {first} to {last}, verified ({extent})\nhead {}\n",
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
    if let Some(archive) = archive {
        text.push_str(&archive.text());
        json["archive"] = archive.json();
    }
    Summary { json, text }
}

struct EventList(Vec<Value>);

impl Show for EventList {
    fn json(&self) -> Value {
        Value::Array(self.0.clone())
    }

    fn text(&self, _: &Frame) -> String {
        String::new()
    }
}
