//! `jaco top`

use jaco_proto::v1::TopRequest;

use super::{Context, Done};
use crate::view::top::Top;

/// Show what nodes and replicas use: measured, reserved, limited
///
/// Pressure is the use of processors or of memory, whichever is more, as a share of what the node has.
/// Nodes measure themselves every 30 s and tell the leader; what was not heard of late is shown as `-`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco top
  jaco top -o json")]
pub(crate) struct Args {}

pub(crate) async fn run(context: &mut Context, _: Args) -> Done {
    let answer = context.client()?.top(TopRequest {}).await?;
    context.done(&Top(&answer))
}
