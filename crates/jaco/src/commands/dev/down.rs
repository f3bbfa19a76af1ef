//! `jaco dev down`

use std::time::Duration;

use jaco_client::{Client, Target};
use jaco_proto::v1::StatusRequest;
use serde_json::json;

use super::up::remove;
use super::{Context, Done, folder, load};
use crate::commands::delete::{Then, delete};
use crate::dev::layout::Engine;
use crate::dev::process::{self, Stopped, is_running};
use crate::dev::record::Record;
use crate::error::CliError;
use crate::view::Said;

/// How long the containers of one deployment may take to go.
const DELETE_LIMIT: Duration = Duration::from_secs(45);

/// Stop a cluster and remove its containers and data
///
/// Nothing to do is no error.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The cluster's name
    #[arg(long, default_value = "dev")]
    name: String,
    /// Leave its containers running
    #[arg(long)]
    keep_containers: bool,
}

pub(super) async fn run(context: &mut Context, args: &Args) -> Done {
    let name = &args.name;
    let Some(record) = load(name)? else {
        let text = format!("there is no development cluster {name}\n");
        return context.done(&Said { json: json!({ "name": name, "outcome": "absent" }), text });
    };
    if !args.keep_containers
        && record.engine == Engine::Docker.as_str()
        && let Err(error) = remove_containers(context, &record).await
    {
        let report = error.report();
        context.ui.note(&format!("warning: containers may be left: {}", report.sentence));
    }
    let stopped = process::stop(&record.nodes).await;
    for (node, how) in record.nodes.iter().zip(stopped) {
        match how {
            Stopped::Gracefully => {}
            Stopped::NotRunning => context.ui.note(&format!("{} was not running", node.name)),
            Stopped::Killed => context.ui.note(&format!("{} had to be killed", node.name)),
        }
    }
    remove(&record, &folder(name)?).map_err(|error| {
        CliError::local(format!("cannot remove {}", record.data.display()), error)
    })?;
    let json = json!({ "name": name, "outcome": "removed" });
    context.done(&Said { json, text: format!("development cluster {name} removed\n") })
}

/// Has the cluster delete everything that it runs: it knows what is its own.
async fn remove_containers(context: &mut Context, record: &Record) -> Result<(), CliError> {
    let running = record.nodes.iter().find(|node| is_running(node)).ok_or_else(|| {
        CliError::usage("no daemon is running that could remove them", "remove them by hand")
    })?;
    let client = Client::new(Target::socket(&running.socket));
    let status = client.overview(StatusRequest::default()).await?;
    context.ask(client);
    for deployment in &status.deployments {
        context.ui.note(&format!("removing {}", deployment.name));
        delete(context, &deployment.name, DELETE_LIMIT, Then::Wait).await?;
    }
    Ok(())
}
