//! `jaco notify`

use std::io::Read;
use std::path::{Path, PathBuf};

use jaco_client::{fresh_request_id, fresh_secret};
use jaco_proto::v1::{
    ListNotifyTargetsRequest, ListUndeliveredRequest, NotifyFilter, RemoveNotifyTargetRequest,
    SettleUndeliveredRequest, StoreNotifyTargetRequest, TestNotifyTargetRequest,
};
use jaco_types::ErrorCode;
use serde_json::json;

use crate::error::CliError;
use crate::format::quantity::count;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, notify};

/// The most bytes that are read of a file with an address or a secret.
const FILE_BYTES_MAX: u64 = 8 << 10;

/// Manage who is notified of events, by webhooks and chats
///
/// The leader sends the events of the audit log that a target is for, in their order, and again until the target has
/// accepted them: a receiver may get one twice, under the same id. Addresses and secrets are encrypted before they are
/// stored, and no command prints them. docs/notifications.md has a receiver.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco notify add ops webhook https://alerts.example.com/jaco
  jaco notify add chat slack --url-file slack-url.txt --group rollouts --deployment shop
  jaco notify test ops
  jaco notify ls")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add a target
    ///
    /// It gets events from now on: those of any of the groups and types, or of group `wake`, which is all of severity
    /// critical, if neither these nor a severity nor deployments are given. The secret that signs what a webhook is sent is
    /// made, and shown once, unless a file has one. An address is shown to other users of this machine while the command
    /// runs, and kept by your shell: give one that is secret, as those of chats are, in a file.
    #[command(after_long_help = "Examples:
  jaco notify add ops webhook https://alerts.example.com/jaco
  jaco notify add ops webhook https://alerts.example.com/jaco --secret-file key.txt --replace
  jaco notify add chat slack --url-file slack-url.txt --group wake --group rollouts
  jaco notify add audit webhook http://127.0.0.1:9000/ --group all
  jaco notify add shop webhook https://shop.example.com/hook --deployment shop --severity warning

Groups: wake (all of severity critical), deployments, rollouts, replicas, jobs, nodes, certificates, access, cluster,
and all. docs/notifications.md says which types of events are in which, and how severe they are.")]
    Add(Box<AddArgs>),
    /// Remove a target
    ///
    /// Notifications that were not delivered to it are forgotten.
    #[command(
        aliases = ["remove", "delete"],
        after_long_help = "Examples:
  jaco notify rm ops"
    )]
    Rm {
        /// The target
        #[arg(value_name = "TARGET")]
        target: String,
    },
    /// List the targets: what they get, and how far they are
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco notify ls
  jaco notify ls -o json"
    )]
    Ls,
    /// Verify a target: send it a notification now, and show what it answers
    ///
    /// The leader sends it, and waits 3 s for an answer; a delivery has 10 s.
    #[command(after_long_help = "Examples:
  jaco notify test ops")]
    Test {
        /// The target
        #[arg(value_name = "TARGET")]
        target: String,
    },
    /// List notifications that were given up
    ///
    /// A target that refuses a notification five times does not get it, nor one that could not be reached when the event is
    /// an hour old; the next one is sent then. Up to 64 of a target are kept.
    #[command(after_long_help = "Examples:
  jaco notify failed
  jaco notify failed ops -o json")]
    Failed {
        /// Of this target only
        #[arg(value_name = "TARGET")]
        target: Option<String>,
    },
    /// Push notifications that were given up once more
    ///
    /// Those that fail again stay in the list.
    #[command(after_long_help = "Examples:
  jaco notify retry ops           all of the target
  jaco notify retry ops 120/0     one event, as `jaco notify failed` lists it")]
    Retry(SettleArgs),
    /// Remove notifications that were given up
    #[command(after_long_help = "Examples:
  jaco notify clear ops
  jaco notify clear ops 120/0 121/3")]
    Clear(SettleArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// The name of the target
    #[arg(value_name = "NAME")]
    name: String,
    /// What it takes: `webhook`, the event as JSON with a signature; `slack`, a line of text, as Slack and what is compatible
    /// with it take it
    #[arg(value_name = "FORM", value_parser = ["webhook", "slack"])]
    form: String,
    /// The address
    #[arg(value_name = "URL", required_unless_present = "url_file")]
    url: Option<String>,
    /// Read the address from a file, or from stdin with `-`
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    url_file: Option<PathBuf>,
    /// Read the secret that signs from a file, or from stdin with `-`: 16 to 256 printable characters without spaces
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Events of this group, or `all`; can be repeated
    #[arg(long = "group", value_name = "GROUP", value_parser = [
        "all", "wake", "deployments", "rollouts", "replicas", "jobs", "nodes", "certificates", "access", "cluster",
    ])]
    groups: Vec<String>,
    /// Events of this type, as `jaco audit` has it; can be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events about this deployment; can be repeated
    #[arg(long = "deployment", value_name = "DEPLOYMENT")]
    deployments: Vec<String>,
    /// Only events that are at least as severe
    #[arg(long, value_name = "SEVERITY", value_parser = ["info", "warning", "critical"])]
    severity: Option<String>,
    /// Take an address without encryption that is not this machine's own: who is on the way reads and changes what is sent
    #[arg(long)]
    insecure_http: bool,
    /// Replace a target of this name, which goes on where it was
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, clap::Args)]
struct SettleArgs {
    /// The target
    #[arg(value_name = "TARGET")]
    target: String,
    /// Only these events, as `jaco notify failed` lists them
    #[arg(value_name = "EVENT")]
    events: Vec<String>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Add(args) => add(session, *args).await,
        Action::Rm { target } => remove(session, target).await,
        Action::Ls => {
            let listed = session.client()?.list_notify_targets(ListNotifyTargetsRequest {}).await?;
            let items = &listed.targets;
            session.done(&List { items, json: notify::json, text: notify::table })
        }
        Action::Test { target } => test(session, target).await,
        Action::Failed { target } => {
            let request = ListUndeliveredRequest { target: target.unwrap_or_default() };
            let listed = session.client()?.list_undelivered(request).await?;
            let (json, text) = (notify::undelivered_json, notify::undelivered_table);
            session.done(&List { items: &listed.notifications, json, text })
        }
        Action::Retry(args) => settle(session, args, "retry", "sent again").await,
        Action::Clear(args) => settle(session, args, "clear", "cleared").await,
    }
}

async fn add(session: &mut Session, args: AddArgs) -> CommandResult {
    let filter = filter(&args);
    let url = match (args.url, &args.url_file) {
        (Some(url), _) => url,
        (None, Some(file)) => read(file)?,
        (None, None) => String::new(),
    };
    let is_signed = args.form == "webhook";
    let (secret, is_made) = match &args.secret_file {
        Some(_) if !is_signed => {
            let message = "a target of the form slack has no secret beside its address";
            return Err(CliError::usage(message, "leave --secret-file out"));
        }
        Some(file) => (read(file)?, false),
        None if is_signed => (fresh_secret(), true),
        None => (String::new(), false),
    };
    let request = StoreNotifyTargetRequest {
        name: args.name,
        form: args.form,
        url,
        secret: secret.clone(),
        filter: Some(filter),
        insecure_http: args.insecure_http,
        replace: args.replace,
        request_id: fresh_request_id(),
    };
    let stored = session.client()?.store_notify_target(request).await?;
    let target = stored.target.unwrap_or_default();
    let mut json = notify::json(&target);
    let done = if stored.change == "updated" { "replaced" } else { "added" };
    let events = target.filter.as_ref().map(notify::filter_text).unwrap_or_default();
    let mut text =
        format!("notification target {} {done}: {} ({events})\n", target.name, target.address);
    if is_made {
        json["secret"] = secret.as_str().into();
        text += &format!("secret that signs, shown only now: {secret}\n");
    }
    session.done(&Summary { json, text })
}

/// The events that were asked for; without a word about them those that wake an operator.
fn filter(args: &AddArgs) -> NotifyFilter {
    let AddArgs { groups, types, deployments, severity, .. } = args;
    let is_default =
        groups.is_empty() && types.is_empty() && deployments.is_empty() && severity.is_none();
    let is_all = groups.iter().any(|group| group == "all");
    NotifyFilter {
        groups: match (is_default, is_all) {
            (true, _) => vec!["wake".to_owned()],
            (false, true) => Vec::new(),
            (false, false) => groups.clone(),
        },
        types: if is_all { Vec::new() } else { types.clone() },
        deployments: deployments.clone(),
        severity: severity.clone().unwrap_or_default(),
    }
}

/// A file with one line.
fn read(file: &Path) -> Result<String, CliError> {
    let unreadable = |error| CliError::local(format!("cannot read {}", file.display()), error);
    let mut text = String::new();
    let done = match file == Path::new("-") {
        true => std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text),
        false => std::fs::File::open(file)
            .and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_string(&mut text)),
    };
    done.map_err(unreadable)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

async fn remove(session: &mut Session, name: String) -> CommandResult {
    let request = RemoveNotifyTargetRequest { name: name.clone(), request_id: fresh_request_id() };
    let removed = session.client()?.remove_notify_target(request).await?;
    let summary = match removed.address.as_str() {
        "" => {
            let json = json!({ "name": name, "outcome": "absent" });
            Summary { json, text: format!("there is no notification target {name}\n") }
        }
        address => {
            let json = json!({ "name": name, "address": address, "outcome": "removed" });
            Summary { json, text: format!("notification target {name} removed\n") }
        }
    };
    session.done(&summary)
}

async fn test(session: &mut Session, name: String) -> CommandResult {
    let request = TestNotifyTargetRequest { name: name.clone() };
    let test = session.client()?.test_notify_target(request).await?;
    let (address, by, took) = (&test.address, &test.sent_by, test.took_ms);
    if !test.error.is_empty() {
        return Err(CliError::Outcome {
            code: ErrorCode::Unavailable,
            message: format!("{name} ({address}) did not accept the test: {}", test.error),
            because: vec![format!("sent by {by}, after {took} ms")],
            help: vec![test.advice],
        });
    }
    let status = test.status;
    let text =
        format!("{name} ({address}) accepted the test: {status} after {took} ms, sent by {by}\n");
    session.done(&Summary { json: notify::test_json(&name, &test), text })
}

async fn settle(
    session: &mut Session,
    SettleArgs { target, events }: SettleArgs,
    change: &str,
    done: &str,
) -> CommandResult {
    let request = SettleUndeliveredRequest {
        target: target.clone(),
        events,
        change: change.to_owned(),
        request_id: fresh_request_id(),
    };
    let number = session.client()?.settle_undelivered(request).await?.count;
    let json = json!({ "target": target, "change": change, "count": number });
    let number = count(usize::try_from(number).unwrap_or(usize::MAX), "notification");
    session.done(&Summary { json, text: format!("{number} to {target} {done}\n") })
}
