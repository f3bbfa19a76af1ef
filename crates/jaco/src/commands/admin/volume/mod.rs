//! `jaco volume`

mod backup;
mod moving;
mod restore;

use jaco_proto::v1::ListVolumesRequest;

use crate::error::CliError;
use crate::output::Stream;
use crate::session::{CommandResult, Session};
use crate::view::{List, volume};

/// List, move, back up and restore volumes
///
/// Volumes are kept by the container engines of the nodes: each node has its own. VOLUME is what the compose
/// file calls it: the name of a volume there, or the path of a folder that is kept in one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco volume ls shop
  jaco volume backup shop/data data.tar
  jaco volume restore shop/data data.tar --node n2
  jaco volume move shop/data n2")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Ls(LsArgs),
    Backup(backup::Args),
    Restore(restore::Args),
    Move(moving::Args),
}

/// List the volumes of all nodes, and which replicas mount them
///
/// SIZE is what `volumes` of jaco.yaml says, and USED what is in a volume of a class. One that takes more than its size is
/// named in a warning: nothing stops it.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "list",
    after_long_help = "Examples:
  jaco volume ls
  jaco volume ls shop -o json"
)]
struct LsArgs {
    /// Only those of this deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: Option<String>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Ls(args) => list(session, args.deployment.unwrap_or_default()).await,
        Action::Backup(args) => backup::run(session, args).await,
        Action::Restore(args) => restore::run(session, args).await,
        Action::Move(args) => moving::run(session, args).await,
    }
}

async fn list(session: &mut Session, deployment: String) -> CommandResult {
    let request = ListVolumesRequest { deployment, local_only: false };
    let listed = session.client()?.list_volumes(request).await?;
    let mut silent: Vec<String> =
        listed.unreachable.iter().map(|(node, why)| format!("{node}: {why}")).collect();
    silent.sort();
    for node in silent {
        session.ui.note(&format!("the volumes of a node are missing here: {node}"));
    }
    for (over, help) in volume::over_size(&listed.volumes) {
        let (name, taken) = (format!("{}/{}", over.deployment, over.volume), volume::taken(over));
        session.ui.note(&format!("warning: {name} on {} {taken}: {help}", over.node));
    }
    session.done(&List { items: &listed.volumes, json: volume::json, text: volume::table })
}

/// Progress on a terminal.
fn draw(session: &mut Session, lines: &[String]) {
    if session.ui.is_terminal(Stream::Err) {
        // The copy goes on even if its progress cannot be printed.
        session.ui.draw(Stream::Err, lines).ok();
    }
}

/// A volume as it is named on the command line.
struct Named {
    deployment: String,
    volume: String,
}

impl Named {
    /// Of `DEPLOYMENT/VOLUME`.
    fn parse(text: &str) -> Result<Self, CliError> {
        match text.split_once('/') {
            Some((deployment, volume)) if !deployment.is_empty() && !volume.is_empty() => {
                Ok(Self { deployment: deployment.to_owned(), volume: volume.to_owned() })
            }
            Some(_) | None => Err(CliError::usage(
                format!("{text:?} names no volume"),
                "name it as DEPLOYMENT/VOLUME; `jaco volume ls` lists them",
            )),
        }
    }
}
