//! The moves that rebalance hot nodes, or order replicas, at the request of an operator.

use std::sync::Arc;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_scheduler::rebalance::{self, Goal};
use jaco_state::ClusterState;
use jaco_state::command::Rebalance;
use jaco_types::{Author, ErrorCode, Rejection};

use super::top::recent_samples;
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
        let state = member.store.read(ClusterState::for_decisions);
        if self.apply && !member.rebalance.is_understood(&state) {
            let message = "moves cannot be made while nodes run different versions: upgrade all nodes, \
                           then try again";
            return Err(Rejection::new(ErrorCode::Unavailable, message));
        }
        let now = member.clock.now();
        let measured = recent_samples(member, now).nodes.len();
        let max_moves = match usize::try_from(self.max_moves) {
            Ok(max @ 1..=MOVES_MAX) => max,
            Ok(_) | Err(_) => MOVES_MAX,
        };
        let goal = Aim::named(&self.goal)?;
        let (desk, known) = (Arc::clone(&member.rebalance), state.clone());
        let computed = tokio::task::spawn_blocking(move || match goal {
            Aim::Load => {
                let moved = desk.moves_off_hot_nodes(&known, now, max_moves);
                (rebalance::moves(&known, &moved), moved)
            }
            Aim::Order(goal) => {
                let moves = rebalance::arrange(&known, goal, max_moves);
                (rebalance::arrangement(&known, goal, &moves), Vec::new())
            }
        });
        let (moves, moved) = computed
            .await
            .map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
        let facts = |one: &jaco_state::command::RebalanceMove| v1::Move {
            facts: one.facts.clone().into_iter().collect(),
        };
        let mut answer = v1::RebalanceResponse {
            moves: moves.iter().map(facts).collect(),
            index: 0,
            measured: u32::try_from(measured).unwrap_or(u32::MAX),
        };
        if self.apply && !moves.is_empty() {
            let command = Rebalance::new(state.index, moves).into();
            answer.index = member.commit(by, &self.request_id, command).await?.index.0;
            member.rebalance.note_moves(&moved, now);
        }
        Ok(answer)
    }
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
