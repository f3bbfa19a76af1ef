//! `jaco dev`

mod cluster;
mod down;
mod start;
mod up;

use jaco_types::code::ExitCode;

use self::cluster::{Nodes, existing};
use crate::dev::process::is_running;
use crate::error::CliError;
use crate::session::{CommandResult, Session};

/// Run a development cluster on this machine
///
/// Each node is a real `jacod` process with its own loopback address and folder. The nodes share this
/// machine's Docker Engine; each manages only its own containers.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco dev up --nodes 3
  eval \"$(jaco dev env)\"        connect jaco to it in this shell
  jaco status
  jaco dev down")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Up(up::Args),
    Start(start::Args),
    Down(down::Args),
    /// List the nodes and their processes
    #[command(
        alias = "nodes",
        visible_alias = "list",
        after_long_help = "Examples:
  jaco dev ls
  jaco dev ls --name blue -o json"
    )]
    Ls {
        /// The cluster's name
        #[arg(long, default_value = "dev")]
        name: String,
    },
    /// Print shell commands that connect `jaco` to the cluster
    #[command(after_long_help = "Examples:
  eval \"$(jaco dev env)\"")]
    Env {
        /// The cluster's name
        #[arg(long, default_value = "dev")]
        name: String,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Up(args) => up::run(session, &args).await,
        Action::Start(args) => start::run(session, &args).await,
        Action::Down(args) => down::run(session, &args).await,
        Action::Ls { name } => {
            let record = existing(&name)?;
            session.done(&Nodes(&record))
        }
        Action::Env { name } => env(session, &name),
    }
}

fn env(session: &mut Session, name: &str) -> CommandResult {
    let record = existing(name)?;
    let node = record.nodes.iter().find(|node| is_running(node)).ok_or_else(|| {
        let message = format!("no node of the development cluster {name} is running");
        CliError::usage(message, format!("jaco dev down --name {name}, then jaco dev up"))
    })?;
    let line = format!("export JACO_SOCKET={}\n", quoted(&node.socket.display().to_string()));
    session.ui.raw(&line).map_err(CliError::Output)?;
    Ok(ExitCode::Converged)
}

/// A word quoted for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_special_characters_are_quoted() {
        assert_eq!(quoted("/run/a.sock"), "/run/a.sock");
        assert_eq!(quoted("/my dir/it's"), r"'/my dir/it'\''s'");
    }
}
