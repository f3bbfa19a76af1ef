//! `jaco dev down`

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_client::{Client, Target};
use jaco_proto::v1::{CollectVolumesRequest, ListNetworksRequest, StatusRequest, StatusScope};
use jaco_types::NetworkId;
use serde_json::json;
use tokio::time::Instant;

use super::cluster::{folder, load, remove};
use crate::deploy::After;
use crate::deploy::delete::delete;
use crate::dev::layout::Engine;
use crate::dev::network;
use crate::dev::process::{self, POLL, Stopped, is_running};
use crate::dev::record::Record;
use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Maximum time to remove the containers of one deployment.
const DELETE_LIMIT: Duration = Duration::from_secs(45);

/// Maximum time in which the daemons remove the networks of what they have removed.
const NETWORKS_LIMIT: Duration = Duration::from_secs(10);

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
    /// Keep its containers running; names of the cluster end, and its networks stay on the engine
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
        session.ui.note(&format!(
            "warning: some containers or networks may be left: {}",
            report.sentence
        ));
    }
    let stopped = process::stop(&record.nodes).await;
    for (node, outcome) in record.nodes.iter().zip(stopped) {
        match outcome {
            Stopped::Gracefully => {}
            Stopped::NotRunning => session.ui.note(&format!("{} was not running", node.name)),
            Stopped::Killed => session.ui.note(&format!("{} had to be killed", node.name)),
        }
    }
    remove(&record, &folder(name)?).await.map_err(|error| {
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
    let scope = StatusScope::Deployments.into();
    let status = client.read_status(StatusRequest { scope, ..StatusRequest::default() }).await?;
    let networks = client.list_networks(ListNetworksRequest::default()).await?.networks;
    let bridges = networks.iter().map(|network| NetworkId(network.id).bridge()).collect();
    session.use_client(client);
    for deployment in &status.deployments {
        session.ui.note(&format!("removing {}", deployment.name));
        delete(session, &deployment.name, After::Wait(DELETE_LIMIT)).await?;
    }
    await_removed(&bridges).await?;
    // Nobody could ask for it later.
    session.client()?.collect_volumes(CollectVolumesRequest::default()).await?;
    Ok(())
}

/// Waits until the engine has none of these networks any more: they would be in the way of the next cluster.
async fn await_removed(bridges: &BTreeSet<String>) -> Result<(), CliError> {
    let deadline = Instant::now() + NETWORKS_LIMIT;
    loop {
        let left = network::present(bridges);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let names: Vec<String> = left.into_iter().collect();
            return Err(CliError::usage(
                format!("the engine still has its networks with the bridges {}", names.join(", ")),
                "docker network ls, docker network rm",
            ));
        }
        tokio::time::sleep(POLL).await;
    }
}
