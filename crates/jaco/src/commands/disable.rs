//! `jaco disable`, `jaco enable`

use std::path::PathBuf;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{AllocationRef, SetDisabledRequest};

use super::{Context, Done};
use crate::disabled_file;
use crate::error::CliError;
use crate::view::{List, allocation};
use crate::wait::interrupted;

/// Let allocations rest: they keep their place and definition, and run nothing
///
/// What is disabled leaves the endpoints, stops by its own signal and grace period, and is not started
/// or restarted until it is enabled; it counts in no sum of capacity and holds no port. A change of its
/// service renews its definition without a start. `jaco get allocations` shows what is disabled.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco disable shop/web                  all of a service
  jaco disable shop/web --node n2        what it has on one node
  jaco disable shop/web --replica 3      one replica
  jaco disable --node n2                 everything on a node
  jaco disable -f disabled.json          exactly what the file says, and nothing else")]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// A file that says all that is disabled: {\"services\": {\"shop/web\": {\"allocations\": [\"n2\"]}},
    /// \"nodes\": [\"n3\"]}; \"jobs\" and \"workers\" are taken as well; `-` for stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["of", "node", "replica"])]
    file: Option<PathBuf>,
}

/// Let allocations run again that were disabled
///
/// They start where they were, as what their service is by now; what has no data there and finds no room
/// starts elsewhere, and what has waits and says so. All that lies within is enabled too: a service with
/// its nodes and replicas, a node with the services on it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco enable shop/web
  jaco enable shop/web --node n2
  jaco enable --node n2")]
pub(crate) struct EnableArgs {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The service
    #[arg(value_name = "DEPLOYMENT/SERVICE")]
    of: Option<String>,
    /// Only what is on this node; without a service, everything on it
    #[arg(long, value_name = "HOST")]
    node: Option<String>,
    /// Only this replica: its id, or the number it ends with
    #[arg(long, value_name = "REPLICA", conflicts_with = "node", requires = "of")]
    replica: Option<String>,
}

pub(crate) async fn disable(context: &mut Context, args: Args) -> Done {
    match args.file {
        Some(path) => set(context, "replace", disabled_file::read(&path)?).await,
        None => set(context, "disable", vec![args.which.named()?]).await,
    }
}

pub(crate) async fn enable(context: &mut Context, args: EnableArgs) -> Done {
    set(context, "enable", vec![args.which.named()?]).await
}

async fn set(context: &mut Context, change: &str, allocations: Vec<AllocationRef>) -> Done {
    let request = SetDisabledRequest {
        change: change.to_owned(),
        allocations,
        request_id: fresh_request_id(),
    };
    let client = context.client()?;
    let set = tokio::select! {
        biased;
        set = client.set_disabled(request) => set?,
        () = interrupted() => return Err(CliError::Interrupted { message: String::new() }),
    };
    context.done(&List {
        items: &set.disabled,
        json: allocation::disabled_json,
        text: allocation::disabled_table,
    })
}

impl Which {
    fn named(self) -> Result<AllocationRef, CliError> {
        let help = "write DEPLOYMENT/SERVICE, --node HOST or both";
        let (deployment, service) = match (&self.of, &self.node) {
            (None, None) => return Err(CliError::usage("nothing is named".to_owned(), help)),
            (None, Some(_)) => (String::new(), String::new()),
            (Some(of), _) => match of.split_once('/') {
                Some((deployment, service)) if !deployment.is_empty() && !service.is_empty() => {
                    (deployment.to_owned(), service.to_owned())
                }
                Some(_) | None => {
                    return Err(CliError::usage(format!("{of:?} names no service"), help));
                }
            },
        };
        let (node, replica) = (self.node.unwrap_or_default(), self.replica.unwrap_or_default());
        Ok(AllocationRef { deployment, service, node, replica })
    }
}
