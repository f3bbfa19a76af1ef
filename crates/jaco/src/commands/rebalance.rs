//! `jaco rebalance`

use jaco_client::fresh_request_id;
use jaco_proto::v1::RebalanceRequest;

use super::{Context, Done};
use crate::view::top::Rebalanced;

/// Move replicas off hot nodes now, or show what would move
///
/// The leader moves one replica at a time by itself, once a node has been hot for a while. This asks
/// for all moves that help by what was measured last, with the same rules for where a replica may go.
/// Each move is start-first: the old replica serves until the new one does. Replicas with data, global
/// ones and those that came to run lately stay.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco rebalance --plan
  jaco rebalance --apply
  jaco rebalance --apply --most 3")]
#[group(skip)]
pub(crate) struct Args {
    /// Show the moves and change nothing
    #[arg(long, required_unless_present = "apply", conflicts_with = "apply")]
    plan: bool,
    /// Make the moves
    #[arg(long)]
    apply: bool,
    /// So many moves at most [default: as many as help, up to 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    most: Option<u32>,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let Args { apply, most, .. } = args;
    let request = RebalanceRequest {
        apply,
        most: most.unwrap_or_default(),
        request_id: if apply { fresh_request_id() } else { String::new() },
    };
    let answer = context.client()?.rebalance(request).await?;
    context.done(&Rebalanced(&answer))
}
