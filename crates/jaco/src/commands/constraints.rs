//! `jaco constraints`

use std::collections::HashMap;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{GetConstraintsRequest, SetConstraintsRequest};
use serde_json::json;

use super::{Context, Done};
use crate::error::CliError;
use crate::view::Said;
use crate::wait::interrupted;

/// Say what every service asks of its nodes, unless it says otherwise
///
/// Each key falls back by itself: from the service to its deployment, to the cluster, to asking for
/// nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Set some keys; the others stay
    ///
    /// cpu and ram ask for that much left on a node, and the node that has the least more is taken. zone,
    /// datacenter, arch, os and hostname (or place-in) ask for that value; max is the most replicas of one
    /// service on one node. `0` asks for nothing, and `KEY=` takes a key back. No replica that has a node is
    /// moved by it.
    #[command(after_long_help = "Examples:
  jaco constraints set cpu=2 ram=3G
  jaco constraints set \"ram=512M zone=a\"   the same, as one text
  jaco constraints set zone=               take it back")]
    Set {
        /// Keys with their values
        #[arg(required = true, value_name = "KEY=VALUE")]
        pairs: Vec<String>,
    },
    /// Show them
    #[command(after_long_help = "Examples:
  jaco constraints get
  jaco constraints get -o json")]
    Get,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    tokio::select! {
        biased;
        done = dispatch(context, args.what) => done,
        () = interrupted() => Err(CliError::Interrupted { message: String::new() }),
    }
}

async fn dispatch(context: &mut Context, what: What) -> Done {
    match what {
        What::Set { pairs } => {
            let pairs = pairs_of(&pairs)?;
            let request = SetConstraintsRequest { pairs, request_id: fresh_request_id() };
            let set = context.client()?.set_constraints(request).await?;
            for warning in &set.warnings {
                context.ui.note(&format!("warning: {warning}"));
            }
            show(context, set.pairs, &set.warnings)
        }
        What::Get => {
            let known = context.client()?.get_constraints(GetConstraintsRequest {}).await?;
            show(context, known.pairs, &[])
        }
    }
}

fn show(context: &mut Context, pairs: HashMap<String, String>, warnings: &[String]) -> Done {
    let mut lines: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    lines.sort();
    let text = if lines.is_empty() { "none\n".to_owned() } else { lines.concat() };
    context.done(&Said { json: json!({ "constraints": pairs, "warnings": warnings }), text })
}

/// Reads `cpu=2`, `ram=3G` and `"cpu=2 ram=3G"`.
fn pairs_of(words: &[String]) -> Result<HashMap<String, String>, CliError> {
    let mut pairs = HashMap::new();
    for word in words.iter().flat_map(|word| word.split_whitespace()) {
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let message = format!("{word:?} is no constraint");
            return Err(CliError::usage(message, "write KEY=VALUE, or KEY= to take it back"));
        };
        if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
            let message = format!("constraint {key} is given twice");
            return Err(CliError::usage(message, "leave out one of them"));
        }
    }
    Ok(pairs)
}
