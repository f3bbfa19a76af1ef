//! `jaco route`

use jaco_pki::password::hash;
use jaco_proto::v1::{ListRoutesRequest, ListRoutesResponse};
use jaco_types::{DeploymentName, ErrorCode};
use serde_json::json;

use super::password::{self, PasswordSource};
use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, route};

/// Inspect routes: which requests from outside go to which service
///
/// Routes are part of a deployment: they are written in jaco.yaml and change with its applies. The edge of every node
/// answers requests by them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco route ls
  jaco route ls shop -o json
  jaco route password ann")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the routes of all deployments, or of one
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco route ls
  jaco route ls shop
  jaco route ls --at 1204        as they were at this index; jaco audit shows indices
  jaco route ls -o json"
    )]
    Ls {
        /// Only the routes of this deployment
        #[arg(value_name = "DEPLOYMENT")]
        deployment: Option<String>,
        /// As they were at this index of the log, as far back as the node can show it
        #[arg(long, value_name = "INDEX", value_parser = clap::value_parser!(u64).range(1..))]
        at: Option<u64>,
    },
    /// Print the hash of a password, for `basic_auth` of a route
    ///
    /// The password is prompted for without echo, and never read from the command line. It is hashed on this
    /// machine and sent nowhere.
    #[command(after_long_help = "Examples:
  jaco route password ann
  jaco route password ann --password-stdin < password.txt")]
    Password {
        /// The user
        #[arg(value_name = "USER")]
        user: String,
        /// Read the password from stdin; one line break at its end is removed
        #[arg(long)]
        password_stdin: bool,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Ls { deployment, at } => list(session, deployment, at).await,
        Action::Password { user, password_stdin } => {
            let source =
                if password_stdin { PasswordSource::Stdin } else { PasswordSource::Prompt };
            print_hash(session, &user, source)
        }
    }
}

async fn list(session: &mut Session, deployment: Option<String>, at: Option<u64>) -> CommandResult {
    let deployment = deployment.unwrap_or_default();
    if !deployment.is_empty() {
        DeploymentName::new(&deployment).map_err(|invalid| {
            CliError::usage(format!("{deployment:?} is not the name of a deployment"), invalid.rule)
        })?;
    }
    let request = ListRoutesRequest { deployment, at_index: at.unwrap_or_default() };
    let listed = session.client()?.list_routes(request).await?;
    check_at(at, &listed)?;
    for warned in listed.routes.iter().filter(|route| !route.warning.is_empty()) {
        let name = route::name(warned);
        session.ui.note(&format!("warning: {name}: {}", warned.warning));
    }
    let has_routes = !listed.routes.is_empty();
    for edge in listed.edges.iter().filter(|edge| has_routes && !edge.problem.is_empty()) {
        session.ui.note(&format!("warning: edge of {}: {}", edge.hostname, edge.problem));
    }
    session.done(&List { items: &listed.routes, json: route::json, text: route::table })
}

/// Refuses the routes of now of a node that does not know what an index is.
fn check_at(at: Option<u64>, listed: &ListRoutesResponse) -> Result<(), CliError> {
    if at.is_none() || listed.past.is_some() {
        return Ok(());
    }
    let message = "this node runs a version that shows the routes of now only: upgrade it, or ask another node with --server";
    let message = message.to_owned();
    Err(CliError::Refused { code: ErrorCode::MembersOutdated, message, help: None })
}

fn print_hash(session: &mut Session, user: &str, source: PasswordSource) -> CommandResult {
    jaco_types::route::UserName::new(user).map_err(|invalid| {
        CliError::usage(format!("{user:?} is not the name of a user"), invalid.rule)
    })?;
    let password = password::read(&mut session.ui, user, source)?;
    let hash = hash(password.as_bytes()).to_text();
    let text = format!("{user}: {hash}\n");
    session.done(&Summary { json: json!({ "user": user, "hash": hash }), text })
}
