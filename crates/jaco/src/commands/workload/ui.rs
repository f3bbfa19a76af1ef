//! `jaco ui`

use jaco_proto::v1::IssueSignInLinkRequest;
use serde_json::json;

use super::{status, terminal};
use crate::output::{Format, Stream};
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Show the cluster on the screen, or sign in to its page
///
/// With --terminal the whole terminal shows the cluster, until q: what needs attention, and services, replicas and nodes with
/// their reasons. ? lists the keys. A pipe gets what jaco status --watch prints.
///
/// Without it, prints a link to the page of the node that answers, for a browser. It signs in once, within five minutes, with
/// the rights of whoever runs the command.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco ui --terminal
  jaco ui                      a link to the page
  xdg-open \"$(jaco ui -q)\"
  jaco ui -o json | jq -r .url")]
pub(crate) struct Args {
    /// Show it here
    #[arg(short, long)]
    terminal: bool,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    if !args.terminal {
        return link(session).await;
    }
    let for_people = matches!(session.ui.format(), Format::Table | Format::Wide);
    if for_people && session.ui.is_terminal(Stream::Out) && session.ui.has_keys() {
        return terminal::show(session).await;
    }
    status::follow(session).await
}

/// To the node that answers, by the name in its certificate, which browsers verify.
async fn link(session: &mut Session) -> CommandResult {
    let made = session.client()?.issue_sign_in_link(IssueSignInLinkRequest {}).await?;
    let (ip, port) = made.address.rsplit_once(':').unwrap_or((&made.address, ""));
    let page = format!("https://{}:{port}/ui", made.server_name);
    let link = format!("https://{}:{port}{}", made.server_name, made.path);
    let json = json!({
        "node": made.node,
        "address": made.address,
        "server_name": made.server_name,
        "page": page,
        "url": link,
        "valid_seconds": made.valid_secs,
    });
    let text = format!("{link}\n");
    session.ui.note(&format!(
        "good for one sign-in at node {} within {} minutes, as whoever runs this command",
        made.node,
        made.valid_secs / 60
    ));
    session.ui.note(&format!(
        "the browser needs the line `{ip} {}` in its machine's hosts file, and the authority in ca.crt (docs/ui.md)",
        made.server_name
    ));
    session.done(&Summary { json, text })
}
