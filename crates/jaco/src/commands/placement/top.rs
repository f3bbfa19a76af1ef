//! `jaco top`

use jaco_proto::v1::TopRequest;

use crate::session::{CommandResult, Session};
use crate::view::top::Top;

/// Show the load of nodes, replicas and routes
///
/// Shows measured usage, reservations and limits. Pressure is the usage of CPU or memory, whichever is
/// higher, relative to the capacity of the node. Nodes report measurements every 30 s; a missing or
/// outdated one is shown as `-`.
///
/// Routes are shown with what all edges have answered in the last 20 to 30 s: requests per second, the share that
/// instances answered with a status of 500 or above (5XX), the share that edges refused by themselves (REFUSED: the
/// reason is in `x-jaco-reason`), and the bound within which 99 of 100 responses began (P99). Edges that cannot be asked
/// are named, and what they answer is in no figure.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco top
  jaco top -o wide        routes by node, too
  jaco top -o json")]
pub(crate) struct Args {}

pub(crate) async fn run(session: &mut Session, _: Args) -> CommandResult {
    let answer = session.client()?.top(TopRequest {}).await?;
    let unknown: std::collections::BTreeMap<_, _> = answer.unknown_edges.iter().collect();
    for (node, why) in unknown {
        session
            .ui
            .note(&format!("warning: the requests of the edge of {node} are not known: {why}"));
    }
    session.done(&Top(&answer))
}
