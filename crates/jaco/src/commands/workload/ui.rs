//! `jaco ui`

use jaco_proto::v1::{ClusterStatusRequest, ClusterStatusResponse};
use jaco_types::ErrorCode;
use serde_json::json;

use super::{status, terminal};
use crate::error::CliError;
use crate::output::{Format, Stream};
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Show the cluster on the screen, or where its page is
///
/// With --terminal the whole terminal shows the cluster, until q: what needs attention, and services, replicas and nodes with
/// their reasons. ? lists the keys. A pipe gets what jaco status --watch prints.
///
/// Without it, prints the address of the page of the node that answers, for a browser.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco ui --terminal
  jaco ui                      the address of the page
  jaco ui -o json | jq -r .name_url")]
pub(crate) struct Args {
    /// Show it here
    #[arg(short, long)]
    terminal: bool,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    if !args.terminal {
        return address(session).await;
    }
    let for_people = matches!(session.ui.format(), Format::Table | Format::Wide);
    if for_people && session.ui.is_terminal(Stream::Out) && session.ui.has_keys() {
        return terminal::show(session).await;
    }
    status::follow(session).await
}

/// Of the node that answers; under the name of the cluster it has a certificate that browsers can verify.
async fn address(session: &mut Session) -> CommandResult {
    let status = session.client()?.status(ClusterStatusRequest {}).await?;
    let address = own_address(&status).ok_or_else(|| {
        let message = "this daemon belongs to no cluster yet".to_owned();
        CliError::Refused { code: ErrorCode::ClusterUninitialized, message, help: None }
    })?;
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    let url = format!("https://{address}/ui");
    let name_url = format!("https://{}.internal:{port}/ui", status.cluster_id);
    let json = json!({"node": status.answered_by, "url": url, "name_url": name_url});
    let text = format!("{url}\n");
    session.ui.note(&format!(
        "a browser verifies it as {name_url}: docs/ui.md says how; sign in with an operator token"
    ));
    session.done(&Summary { json, text })
}

fn own_address(status: &ClusterStatusResponse) -> Option<&str> {
    let own = status.nodes.iter().find(|node| node.hostname == status.answered_by)?;
    Some(&own.address)
}
