//! `jaco dev down`

use std::time::Duration;

use jaco_client::{Client, Target};
use jaco_proto::v1::StatusRequest;
use serde_json::json;

use super::cluster::{folder, load, remove};
use crate::deploy::After;
use crate::deploy::delete::delete;
use crate::dev::layout::Engine;
use crate::dev::process::{self, Stopped, is_running};
use crate::dev::record::Record;
use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Maximum time to remove the containers of one deployment.
const DELETE_LIMIT: Duration = Duration::from_secs(45);

/// Stop a development cluster and remove its containers and data
///
/// It is no error if there is no such cluster.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco dev down
  jaco dev down --name blue --keep-containers")]
pub(super) struct Args {
    /// The cluster's name
    #[arg(long, default_value = "dev")]
    name: String,
    /// Keep its containers running
    #[arg(long)]
    keep_containers: bool,
}

pub(super) async fn run(session: &mut Session, args: &Args) -> CommandResult {
    let name = &args.name;
    let Some(record) = load(name)? else {
        let text = format!("there is no development cluster {name}\n");
        return session.done(&Summary { json: json!({ "name": name, "outcome": "absent" }), text });
    };
    if !args.keep_containers
        && record.engine == Engine::Docker.as_str()
        && let Err(error) = remove_containers(session, &record).await
    {
        let report = error.report();
        session.ui.note(&format!("warning: some containers may be left: {}", report.sentence));
    }
    let stopped = process::stop(&record.nodes).await;
    for (node, outcome) in record.nodes.iter().zip(stopped) {
        match outcome {
            Stopped::Gracefully => {}
            Stopped::NotRunning => session.ui.note(&format!("{} was not running", node.name)),
            Stopped::Killed => session.ui.note(&format!("{} had to be killed", node.name)),
        }
    }
    remove(&record, &folder(name)?).map_err(|error| {
        CliError::local(format!("cannot remove {}", record.data.display()), error)
    })?;
    let json = json!({ "name": name, "outcome": "removed" });
    session.done(&Summary { json, text: format!("development cluster {name} removed\n") })
}

/// Lets the cluster delete its deployments: it knows its own containers.
async fn remove_containers(session: &mut Session, record: &Record) -> Result<(), CliError> {
    let running = record.nodes.iter().find(|node| is_running(node)).ok_or_else(|| {
        CliError::usage("no daemon is running to remove them", "remove them manually")
    })?;
    let client = Client::new(Target::socket(&running.socket));
    let status = client.overview(StatusRequest::default()).await?;
    session.use_client(client);
    for deployment in &status.deployments {
        session.ui.note(&format!("removing {}", deployment.name));
        delete(session, &deployment.name, After::Wait(DELETE_LIMIT)).await?;
    }
    Ok(())
}
