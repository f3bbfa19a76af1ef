//! `jaco rebalance`

use jaco_client::fresh_request_id;
use jaco_proto::v1::RebalanceRequest;

use crate::session::{CommandResult, Session, unless_overtaken};
use crate::view::rebalance::{LoadMoves, PlacementMoves};

/// Rebalance replicas between nodes
///
/// The leader moves one replica at a time by itself when a node has been hot for a while. This command
/// makes all moves that help at once, by the latest measurements and the same eligibility rules. With
/// --goal spread, replicas of a spread service move to nodes with fewer of them; with --goal pack, those
/// of packed services move together to free nodes. These two ignore measurements: each move lowers the
/// potential that is shown, until no move is left.
///
/// Each move is start-first: the old replica serves until the new one does. Replicas with data, global
/// ones and recently started ones are not moved.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco rebalance --plan
  jaco rebalance --apply
  jaco rebalance --apply --max 3
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
    /// What to improve
    #[arg(long, value_enum, default_value_t = Goal::Load)]
    goal: Goal,
    /// Maximum number of moves [default: all that help, up to 1000]
    #[arg(long, alias = "most", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max: Option<u32>,
}

/// What the moves improve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Goal {
    /// The load of hot nodes, by measurements
    Load,
    /// The spread of each service over nodes
    Spread,
    /// The number of nodes without packed replicas
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

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let Args { apply, max, goal, .. } = args;
    let answer = unless_overtaken(session, async |session| {
        let request = RebalanceRequest {
            apply,
            max_moves: max.unwrap_or_default(),
            goal: goal.as_str().to_owned(),
            request_id: if apply { fresh_request_id() } else { String::new() },
        };
        Ok(session.client()?.rebalance(request).await?)
    })
    .await?;
    match goal {
        Goal::Load => session.done(&LoadMoves(&answer)),
        Goal::Spread => {
            let placements = "`placement: spread` or `hosts`";
            session.done(&PlacementMoves { answer: &answer, placements })
        }
        Goal::Pack => {
            session.done(&PlacementMoves { answer: &answer, placements: "`placement: pack`" })
        }
    }
}
