//! `jaco rebalance`

use jaco_client::fresh_request_id;
use jaco_proto::v1::RebalanceRequest;

use super::{Context, Done};
use crate::view::top::{Ordered, Rebalanced};

/// Move replicas off hot nodes now, or into a better order, or show what would move
///
/// The leader moves one replica at a time by itself, once a node has been hot for a while. This asks
/// for all moves that help by what was measured last, with the same rules for where a replica may go.
/// With --goal spread replicas of a spread service go to nodes that have fewer of them, with --goal pack
/// those of packed services go together so that nodes become free, whatever is measured: each move
/// lowers the potential that is shown, and once they are done there is nothing left to move.
/// Each move is start-first: the old replica serves until the new one does. Replicas with data, global
/// ones and those that came to run lately stay.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco rebalance --plan
  jaco rebalance --apply
  jaco rebalance --apply --most 3
  jaco rebalance --goal spread --plan
  jaco rebalance --goal pack --apply")]
#[group(skip)]
pub(crate) struct Args {
    /// Show the moves and change nothing
    #[arg(long, required_unless_present = "apply", conflicts_with = "apply")]
    plan: bool,
    /// Make the moves
    #[arg(long)]
    apply: bool,
    /// What is made better
    #[arg(long, value_enum, default_value_t = Goal::Load)]
    goal: Goal,
    /// So many moves at most [default: as many as help, up to 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    most: Option<u32>,
}

/// What is made better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Goal {
    /// Nodes that are hot, by what was measured
    Load,
    /// Replicas of a service that share a node
    Spread,
    /// Nodes that have few packed replicas
    Pack,
}

impl Goal {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Spread => "spread",
            Self::Pack => "pack",
        }
    }
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let Args { apply, most, goal, .. } = args;
    let request = RebalanceRequest {
        apply,
        most: most.unwrap_or_default(),
        goal: goal.as_str().to_owned(),
        request_id: if apply { fresh_request_id() } else { String::new() },
    };
    let answer = context.client()?.rebalance(request).await?;
    match goal {
        Goal::Load => context.done(&Rebalanced(&answer)),
        Goal::Spread | Goal::Pack => context.done(&Ordered(&answer)),
    }
}
