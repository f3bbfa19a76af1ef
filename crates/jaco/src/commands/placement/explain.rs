//! `jaco explain`

use jaco_proto::v1::ExplainRequest;

use crate::session::{CommandResult, Session};
use crate::view::explain::Explanation;

/// Explain where the replicas of a service may run
///
/// Evaluates every node for one more replica of the service: the rules that make it ineligible, or the
/// values by which eligible nodes are ranked.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco explain shop/web
  jaco explain shop-web-3           the service of this replica
  jaco explain shop/web -o json     rules with their stable names")]
pub(crate) struct Args {
    /// The service, or one of its replicas
    #[arg(value_name = "DEPLOYMENT/SERVICE|REPLICA")]
    of: String,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
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
