//! The moves that rebalance hot nodes, or order replicas, at the request of an operator.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_scheduler::rebalance::{self, Concerned, Goal, Pressure};
use jaco_state::ClusterState;
use jaco_state::command::Rebalance;
use jaco_types::{Author, Rejection};

use super::top::{larger, recent_samples};
use crate::forward::Write;
use crate::member::Member;
use crate::status::invalid;

/// Maximum number of moves of one request: each starts one container and stops another.
const MOVES_MAX: usize = 1000;

#[async_trait]
impl Write for v1::RebalanceRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RebalanceResponse, Rejection> {
        let turn = member.gate.turn().await?;
        let state = member.store.read(ClusterState::for_decisions);
        let now = member.clock.now();
        let pressure = recent_samples(member, now);
        let (hottest, hottest_pressure) = hottest(&state, &pressure).unwrap_or_default();
        let max_moves = match usize::try_from(self.max_moves) {
            Ok(max @ 1..=MOVES_MAX) => max,
            Ok(_) | Err(_) => MOVES_MAX,
        };
        let goal = Aim::named(&self.goal)?;
        let (desk, known) = (Arc::clone(&member.rebalance), state.clone());
        let computed = turn.run(move || match goal {
            Aim::Load => {
                let moved = desk.moves_off_hot_nodes(&known, now, max_moves);
                (rebalance::moves(&known, &moved), moved, Concerned::default())
            }
            Aim::Order(goal) => {
                let moves = rebalance::arrange(&known, goal, max_moves);
                let concerned = rebalance::concerned(&known, goal);
                (rebalance::arrangement(&known, goal, &moves), Vec::new(), concerned)
            }
        });
        let (moves, moved, concerned) = computed.await?;
        let facts = |one: &jaco_state::command::RebalanceMove| v1::Move {
            facts: one.facts.clone().into_iter().collect(),
        };
        let mut answer = v1::RebalanceResponse {
            moves: moves.iter().map(facts).collect(),
            index: 0,
            measured: u32::try_from(pressure.nodes.len()).unwrap_or(u32::MAX),
            concerned: concerned.replicas,
            movable: concerned.movable,
            hottest,
            hottest_pressure,
            trigger: member.rebalance.options().thresholds.trigger.0,
        };
        if self.apply && !moves.is_empty() {
            let command = Rebalance::new(state.index, moves).into();
            answer.index = member.commit(by, &self.request_id, command).await?.index.0;
            member.rebalance.note_moves(&moved, now);
        }
        Ok(answer)
    }
}

/// The node with the highest pressure, and that, if any is measured.
fn hottest(state: &ClusterState, pressure: &Pressure) -> Option<(String, u64)> {
    let nodes = pressure.nodes.iter();
    let nodes = nodes.filter_map(|(id, sample)| Some((state.nodes.get(id)?, larger(sample.load))));
    let (node, pressure) = nodes.max_by_key(|(node, pressure)| (*pressure, Reverse(node.id)))?;
    Some((node.hostname.to_string(), pressure))
}

/// The goal of the moves.
#[derive(Debug, Clone, Copy)]
enum Aim {
    /// Move replicas off hot nodes, by their measured usage.
    Load,
    /// Improve the placement of replicas.
    Order(Goal),
}

impl Aim {
    fn named(text: &str) -> Result<Self, Rejection> {
        match text {
            "" | "load" => Ok(Self::Load),
            "spread" => Ok(Self::Order(Goal::Spread)),
            "pack" => Ok(Self::Order(Goal::Pack)),
            unknown => {
                let message = format!("goal is {unknown:?}: write load, spread or pack");
                Err(invalid(message))
            }
        }
    }
}
