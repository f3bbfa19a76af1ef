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
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco explain shop/web
  jaco explain shop-web-3                     the service of this replica
  jaco explain shop/web -o json               rules with their stable names
  jaco explain shop/web --to shop/db:5432     why it does not connect
  jaco explain shop/web-3 --to blog/api       one replica, without a connection")]
pub(crate) struct Args {
    /// The service, or one of its replicas
    #[arg(value_name = "DEPLOYMENT/SERVICE|REPLICA")]
    of: String,
    /// What it wants to reach, with a TCP port to connect to
    #[arg(long, value_name = "DEPLOYMENT/SERVICE|REPLICA[:PORT]")]
    to: Option<String>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    if let Some(to) = args.to {
        return path(session, args.of, &to).await;
    }
    let request = match args.of.split_once('/') {
        Some((deployment, service)) => ExplainRequest {
            deployment: deployment.to_owned(),
            service: service.to_owned(),
            ..ExplainRequest::default()
        },
        None => ExplainRequest { replica: args.of, ..ExplainRequest::default() },
    };
    let answer = session.client()?.explain(request).await?;
    session.done(&Explanation(&answer))
}

async fn path(session: &mut Session, from: String, to: &str) -> CommandResult {
    let (to, port) = destination(to)?;
    let request = ExplainPathRequest { from, to, port };
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
