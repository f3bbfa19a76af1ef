//! `jaco disable`, `jaco enable`

mod file;
mod settled;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use file::read_any;

use std::path::PathBuf;
use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{AllocationRef, SetDisabledRequest};

use self::settled::{Change, wait_until_settled};
use crate::error::CliError;
use crate::format::time;
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};
use crate::view::{List, allocation};

/// Stop allocations and keep their placement
///
/// A disabled replica is removed from the endpoints, stopped with its stop signal and grace period, and
/// not started until it is enabled. It keeps its node, reserves no capacity and holds no port. A new
/// revision of its service updates it without a start. `jaco get allocations` shows what is disabled.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco disable shop/web                  all replicas of a service
  jaco disable shop/web --node n2        those on one node
  jaco disable shop/web --replica 3      one replica
  jaco disable --node n2                 everything on a node
  jaco disable -f disabled.json          exactly the allocations in the file")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// A file that lists all disabled allocations: {\"services\": {\"shop/web\": {\"allocations\": [\"n2\"]}},
    /// \"nodes\": [\"n3\"]}; \"jobs\" and \"workers\" are accepted too; `-` for stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["of", "node", "replica"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    patience: Patience,
}

/// How long the end of a change is waited for.
#[derive(Debug, clap::Args)]
struct Patience {
    /// Return as soon as the cluster has accepted the change
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
}

/// Start disabled allocations again
///
/// Replicas start on the node they were on, with the current revision of their service. If that node has
/// no room, a replica without data starts on another node, and one with data stays pending. Enabling a
/// service includes what was disabled by node or replica within it; enabling a node includes the
/// services on it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco enable shop/web
  jaco enable shop/web --node n2
  jaco enable --node n2")]
pub(crate) struct EnableArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Debug, clap::Args)]
struct Selection {
    /// The service
    #[arg(value_name = "DEPLOYMENT/SERVICE")]
    of: Option<String>,
    /// Only on this node; without a service, everything on it
    #[arg(long, value_name = "HOST")]
    node: Option<String>,
    /// Only this replica: its id, or the number at the end of its id
    #[arg(long, value_name = "REPLICA", conflicts_with = "node", requires = "of")]
    replica: Option<String>,
}

pub(crate) async fn disable(session: &mut Session, args: Args) -> CommandResult {
    let (change, allocations) = match args.file {
        Some(path) => (Change::Replace, file::read(&path)?),
        None => (Change::Disable, vec![args.selection.allocation()?]),
    };
    set(session, change, allocations, &args.patience).await
}

pub(crate) async fn enable(session: &mut Session, args: EnableArgs) -> CommandResult {
    let allocations = vec![args.selection.allocation()?];
    set(session, Change::Enable, allocations, &args.patience).await
}

async fn set(
    session: &mut Session,
    change: Change,
    allocations: Vec<AllocationRef>,
    patience: &Patience,
) -> CommandResult {
    if !patience.detach {
        session.limit(patience.timeout);
    }
    let request = SetDisabledRequest {
        change: change.as_str().to_owned(),
        allocations: allocations.clone(),
        request_id: fresh_request_id(),
    };
    let client = session.client()?;
    let set = tokio::select! {
        biased;
        set = client.set_disabled(request) => set?,
        () = interrupted() => return Err(CliError::Interrupted { message: String::new() }),
    };
    if !patience.detach {
        wait_until_settled(session, change, &allocations, patience.timeout).await?;
    }
    session.done(&List {
        items: &set.disabled,
        json: allocation::disabled_json,
        text: allocation::disabled_table,
    })
}

impl Selection {
    fn allocation(self) -> Result<AllocationRef, CliError> {
        let help = "give DEPLOYMENT/SERVICE, --node HOST or both";
        let (deployment, service) = match (&self.of, &self.node) {
            (None, None) => return Err(CliError::usage("no allocation is given", help)),
            (None, Some(_)) => (String::new(), String::new()),
            (Some(of), _) => match of.split_once('/') {
                Some((deployment, service)) if !deployment.is_empty() && !service.is_empty() => {
                    (deployment.to_owned(), service.to_owned())
                }
                Some(_) | None => {
                    return Err(CliError::usage(format!("{of:?} is no service"), help));
                }
            },
        };
        let (node, replica) = (self.node.unwrap_or_default(), self.replica.unwrap_or_default());
        Ok(AllocationRef { deployment, service, node, replica })
    }
}
