//! `jaco top`

use jaco_proto::v1::TopRequest;

use crate::session::{CommandResult, Session};
use crate::view::top::Top;

/// Show the resource usage of nodes and replicas
///
/// Shows measured usage, reservations and limits. Pressure is the usage of CPU or memory, whichever is
/// higher, relative to the capacity of the node. Nodes report measurements every 30 s; a missing or
/// outdated one is shown as `-`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco top
  jaco top -o json")]
pub(crate) struct Args {}

pub(crate) async fn run(session: &mut Session, _: Args) -> CommandResult {
    let answer = session.client()?.top(TopRequest {}).await?;
    session.done(&Top(&answer))
}
