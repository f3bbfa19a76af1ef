//! `jaco dev`

mod down;
mod up;

use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::dev::process::is_running;
use crate::dev::record::{self, NodeRecord, Record};
use crate::error::CliError;
use crate::table::Table;
use crate::ui::{Frame, Show};
use crate::view::without_null;

/// A cluster of real daemons on this machine, for development
///
/// Each node is a `jacod` process with a loopback address and a folder of its own. They share this
/// machine's Docker Engine; each touches only its own containers.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco dev up --nodes 3
  eval \"$(jaco dev env)\"        from here on, jaco talks to it
  jaco status
  jaco dev down")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Up(up::Args),
    Down(down::Args),
    /// List the nodes and their processes
    Nodes {
        /// The cluster's name
        #[arg(long, default_value = "dev")]
        name: String,
    },
    /// Print shell lines that make `jaco` talk to the cluster
    Env {
        /// The cluster's name
        #[arg(long, default_value = "dev")]
        name: String,
    },
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    match args.what {
        What::Up(args) => up::run(context, &args).await,
        What::Down(args) => down::run(context, &args).await,
        What::Nodes { name } => {
            let record = existing(&name)?;
            context.done(&Nodes(&record))
        }
        What::Env { name } => env(context, &name),
    }
}

fn env(context: &mut Context, name: &str) -> Done {
    let record = existing(name)?;
    let node = record.nodes.iter().find(|node| is_running(node)).ok_or_else(|| {
        let message = format!("no node of the development cluster {name} is running");
        CliError::usage(message, format!("jaco dev down --name {name}, then jaco dev up"))
    })?;
    let line = format!("export JACO_SOCKET={}\n", quoted(&node.socket.display().to_string()));
    context.ui.raw(&line).map_err(CliError::Output)?;
    Ok(ExitCode::Converged)
}

/// A word as a shell reads it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn folder(name: &str) -> Result<std::path::PathBuf, CliError> {
    record::folder(name).ok_or_else(|| {
        CliError::usage("there is no place to remember a cluster", "set HOME or XDG_STATE_HOME")
    })
}

fn load(name: &str) -> Result<Option<Record>, CliError> {
    Record::load(&folder(name)?).map_err(|error| {
        CliError::local(format!("what is known about cluster {name} cannot be read"), error)
    })
}

fn existing(name: &str) -> Result<Record, CliError> {
    load(name)?.ok_or_else(|| {
        let message = format!("there is no development cluster {name}");
        CliError::usage(message, format!("jaco dev up --name {name} makes one"))
    })
}

/// The nodes with their processes.
struct Nodes<'a>(&'a Record);

impl Show for Nodes<'_> {
    fn json(&self) -> Value {
        let node = |node: &NodeRecord| {
            without_null(json!({
                "name": node.name,
                "address": node.address,
                "socket": node.socket.display().to_string(),
                "config": node.config.display().to_string(),
                "log": node.log.display().to_string(),
                "pid": node.pid,
                "running": is_running(node),
            }))
        };
        self.0.nodes.iter().map(node).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["NODE", "STATE", "PID", "ADDRESS", "SOCKET"]);
        for node in &self.0.nodes {
            let state = if is_running(node) { "running" } else { "stopped" };
            table.row([
                node.name.clone(),
                state.to_owned(),
                node.pid.map(|pid| pid.to_string()).unwrap_or_default(),
                node.address.clone(),
                node.socket.display().to_string(),
            ]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_when_they_must_be() {
        assert_eq!(quoted("/run/a.sock"), "/run/a.sock");
        assert_eq!(quoted("/my dir/it's"), r"'/my dir/it'\''s'");
    }
}
