//! The actions of `jaco notify`.

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    ListNotifyTargetsRequest, ListUndeliveredRequest, RemoveNotifyTargetRequest,
    SettleUndeliveredRequest, TestNotifyTargetRequest,
};
use jaco_types::ErrorCode;
use serde_json::json;

use super::add::{AddArgs, add};
use super::pause::{ResumeArgs, pause, resume};
use crate::error::CliError;
use crate::format::quantity::count;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, notify};

/// Manage who is notified of events, by webhooks, chats and mail
///
/// The leader sends the events of the audit log that a target is for, in their order, and again until the target has
/// accepted them: a receiver may get one twice, under the same id. Addresses and secrets are encrypted before they are
/// stored, and no command prints them. docs/notifications.md has a receiver.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco notify add ops webhook https://alerts.example.com/jaco
  jaco notify add chat slack --url-file slack-url.txt --group rollouts --deployment shop
  jaco notify add mail email smtps://jaco@mail.example.com --password-file password.txt \\
      --from jaco@example.com --to ops@example.com
  jaco notify test ops
  jaco notify ls
  jaco notify pause ops; jaco notify resume ops")]
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
    ///
    /// A mail server is reached encrypted from the first byte (smtps://, port 465 unless given) or by STARTTLS (smtp://, port
    /// 587); without encryption only at 127.0.0.1 and [::1]. A mail goes to all recipients or, if the server refuses one, to none.
    #[command(after_long_help = "Examples:
  jaco notify add ops webhook https://alerts.example.com/jaco
  jaco notify add ops webhook https://alerts.example.com/jaco --secret-file key.txt --replace
  jaco notify add chat slack --url-file slack-url.txt --group wake --group rollouts
  jaco notify add audit webhook http://127.0.0.1:9000/ --group all
  jaco notify add shop webhook https://shop.example.com/hook --deployment shop --severity warning
  jaco notify add mail email smtp://jaco@mail.example.com:587 --password-file password.txt \\
      --from jaco@example.com --to ann@example.com --to bob@example.com
  jaco notify add relay email smtp://127.0.0.1 --from jaco@example.com --to ops@example.com

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
    /// Pause a target: nothing is sent to it until it is resumed
    ///
    /// Its events wait in the audit log. `jaco notify test` sends to it all the same.
    #[command(after_long_help = "Examples:
  jaco notify pause ops")]
    Pause {
        /// The target
        #[arg(value_name = "TARGET")]
        target: String,
    },
    /// Resume a target that is paused, as those of a restored backup are
    ///
    /// It is sent what happens from now on. What happened in the pause is not sent, unless --catch-up is given; the audit log
    /// has it.
    #[command(after_long_help = "Examples:
  jaco notify resume ops
  jaco notify resume ops --catch-up     what happened in the pause as well")]
    Resume(ResumeArgs),
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
        Action::Pause { target } => pause(session, target).await,
        Action::Resume(args) => resume(session, args).await,
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
