//! `jaco constraints`

use std::collections::HashMap;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{GetConstraintsRequest, SetConstraintsRequest};
use serde_json::json;

use crate::error::CliError;
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Manage default placement constraints
///
/// A default applies to every service that does not set the key itself: each key is taken from the
/// service, else from its deployment, else from these defaults.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco constraints get
  jaco constraints set cpu=2 ram=3G
  jaco constraints rm zone")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the default constraints
    #[command(
        visible_alias = "ls",
        aliases = ["list", "show"],
        after_long_help = "Examples:
  jaco constraints get
  jaco constraints get -o json"
    )]
    Get,
    /// Set default constraints; other keys stay
    ///
    /// cpu and ram require this much free capacity, and the node with the least excess is chosen; storage
    /// requires a disk of this size. `max` instead of an amount requires a node that has as much of it as any
    /// other. zone, datacenter, arch, os and hostname (or place-in) require this value, and tags these labels;
    /// max-per-node is the maximum number of replicas of one service per node. An amount of `0` requires
    /// nothing, and `KEY=` removes a key. Replicas that are placed are not moved.
    #[command(after_long_help = "Examples:
  jaco constraints set cpu=2 ram=3G
  jaco constraints set \"ram=512M zone=a\"   the same as one argument
  jaco constraints set zone=               remove the key")]
    Set {
        /// Keys with their values
        #[arg(required = true, value_name = "KEY=VALUE")]
        pairs: Vec<String>,
    },
    /// Remove default constraints
    #[command(
        aliases = ["remove", "delete"],
        after_long_help = "Examples:
  jaco constraints rm zone
  jaco constraints rm cpu ram"
    )]
    Rm {
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    tokio::select! {
        biased;
        done = dispatch(session, args.action) => done,
        () = interrupted() => Err(CliError::Interrupted { message: String::new() }),
    }
}

async fn dispatch(session: &mut Session, action: Action) -> CommandResult {
    match action {
        Action::Get => {
            let known = session.client()?.get_constraints(GetConstraintsRequest {}).await?;
            show(session, known.pairs, &[])
        }
        Action::Set { pairs } => set(session, parse_pairs(&pairs)?).await,
        Action::Rm { keys } => {
            if let Some(wrong) = keys.iter().find(|key| key.is_empty() || key.contains('=')) {
                let message = format!("{wrong:?} is not the key of a constraint");
                return Err(CliError::usage(message, "give the keys alone, as in cpu"));
            }
            set(session, keys.into_iter().map(|key| (key, String::new())).collect()).await
        }
    }
}

async fn set(session: &mut Session, pairs: HashMap<String, String>) -> CommandResult {
    let request = SetConstraintsRequest { pairs, request_id: fresh_request_id() };
    let set = session.client()?.set_constraints(request).await?;
    for warning in &set.warnings {
        session.ui.note(&format!("warning: {warning}"));
    }
    show(session, set.pairs, &set.warnings)
}

fn show(
    session: &mut Session,
    pairs: HashMap<String, String>,
    warnings: &[String],
) -> CommandResult {
    let mut lines: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    lines.sort();
    let text = if lines.is_empty() { "none\n".to_owned() } else { lines.concat() };
    session.done(&Summary { json: json!({ "constraints": pairs, "warnings": warnings }), text })
}

/// Parses `cpu=2`, `ram=3G` and `"cpu=2 ram=3G"`.
fn parse_pairs(words: &[String]) -> Result<HashMap<String, String>, CliError> {
    let mut pairs = HashMap::new();
    for word in words.iter().flat_map(|word| word.split_whitespace()) {
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let message = format!("{word:?} is not a constraint");
            return Err(CliError::usage(message, "give KEY=VALUE, or KEY= to remove the key"));
        };
        if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
            let message = format!("constraint {key} is given twice");
            return Err(CliError::usage(message, "give each key once"));
        }
    }
    Ok(pairs)
}
