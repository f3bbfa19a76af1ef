//! `jaco explain`

use jaco_proto::v1::ExplainRequest;

use super::{Context, Done};
use crate::view::explain::Explained;

/// Explain where a service's replicas may run: every node, every rule, what the choice goes by
///
/// Each node answers to one more replica of the service: every rule that keeps it off, or what the
/// choice among those that would take it goes by.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco explain shop/web
  jaco explain shop-web-3           the service of this replica
  jaco explain shop/web -o json     rules by their stable names")]
pub(crate) struct Args {
    /// The service, or one of its replicas
    #[arg(value_name = "DEPLOYMENT/SERVICE|REPLICA")]
    of: String,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let request = match args.of.split_once('/') {
        Some((deployment, service)) => ExplainRequest {
            deployment: deployment.to_owned(),
            service: service.to_owned(),
            ..ExplainRequest::default()
        },
        None => ExplainRequest { replica: args.of, ..ExplainRequest::default() },
    };
    let answer = context.client()?.explain(request).await?;
    context.done(&Explained(&answer))
}
