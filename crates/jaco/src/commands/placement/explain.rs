//! `jaco explain`

use jaco_proto::v1::{ExplainPathRequest, ExplainRequest};
use jaco_types::code::ExitCode;

use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::explain::Explanation;
use crate::view::path::Path;

/// Explain where replicas may run, or what they reach
///
/// Evaluates every node for one more replica of the service: the rules that make it ineligible, or the
/// values by which eligible nodes are ranked.
///
/// With `--to`, walks the way from a replica to another service over the networks of the cluster, and stops at the first
/// step that does not hold: a network that both are attached to, the name, ready replicas, the tunnel between their
/// nodes, the plan that both routers hold, and a connection to the port. Of a service, one replica on each node asks.
/// The exit code is 1 if a step does not hold.
///
/// With an address as `--to`, and no replica, walks the way of a request from outside through the edges of all nodes: the
/// route that matches, its certificate, edges that listen, ready replicas, the plan that all edges hold, and a connection
/// of each edge to each replica. No request is sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco explain shop/web
  jaco explain shop-web-3                     the service of this replica
  jaco explain shop/web -o json               rules with their stable names
  jaco explain shop/web --to shop/db:5432     why it does not connect
  jaco explain shop/web-3 --to blog/api       one replica, without a connection
  jaco explain --to https://shop.example.com/cart     why it is not answered")]
pub(crate) struct Args {
    /// The service, or one of its replicas
    #[arg(value_name = "DEPLOYMENT/SERVICE|REPLICA", required_unless_present = "to")]
    of: Option<String>,
    /// What it wants to reach, with a TCP port to connect to, or what a client outside wants to reach
    #[arg(long, value_name = "DEPLOYMENT/SERVICE|REPLICA[:PORT]|URL")]
    to: Option<String>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let of = match (args.of, args.to) {
        (of, Some(to)) => return path(session, request(of, to)?).await,
        (of, None) => of.unwrap_or_default(),
    };
    let request = match of.split_once('/') {
        Some((deployment, service)) => ExplainRequest {
            deployment: deployment.to_owned(),
            service: service.to_owned(),
            ..ExplainRequest::default()
        },
        None => ExplainRequest { replica: of, ..ExplainRequest::default() },
    };
    let answer = session.client()?.explain(request).await?;
    session.done(&Explanation(&answer))
}

/// From a replica, or from outside where the destination is an address.
fn request(from: Option<String>, to: String) -> Result<ExplainPathRequest, CliError> {
    match (from, to.contains("://")) {
        (None, true) => Ok(ExplainPathRequest { url: to, ..ExplainPathRequest::default() }),
        (Some(from), false) => {
            let (to, port) = destination(&to)?;
            Ok(ExplainPathRequest { from, to, port, ..ExplainPathRequest::default() })
        }
        (Some(_), true) => Err(CliError::usage(
            "a request for an address comes from outside, not from a replica",
            "leave the replica out, as in jaco explain --to https://shop.example.com/",
        )),
        (None, false) => Err(CliError::usage(
            format!("nobody is named who wants to reach {to:?}"),
            "name a service or replica before it, or an address that begins with https:// or http://",
        )),
    }
}

async fn path(session: &mut Session, request: ExplainPathRequest) -> CommandResult {
    let answer = session.client()?.explain_path(request).await?;
    session.ui.result(&Path(&answer)).map_err(CliError::Output)?;
    let holds = answer.steps.iter().all(|step| step.holds);
    Ok(if holds { ExitCode::Converged } else { ExitCode::Unexpected })
}

/// A name and a port, which is 0 where none is given.
fn destination(text: &str) -> Result<(String, u32), CliError> {
    let Some((name, port)) = text.rsplit_once(':') else { return Ok((text.to_owned(), 0)) };
    match port.parse::<u16>() {
        Ok(number) if number > 0 => Ok((name.to_owned(), u32::from(number))),
        Ok(_) | Err(_) => Err(CliError::usage(
            format!("{port:?} is no TCP port"),
            "write a number from 1 to 65535, as in --to shop/db:5432",
        )),
    }
}
