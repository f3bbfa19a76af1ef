//! Several moves at once, on operator request: the same gates, asked of what the last samples show now
//! and, after each move, of what they would say then. It waits for no second cycle, and for no node
//! that received one: what a node received is counted in instead.

use std::collections::BTreeMap;

use jaco_state::ClusterState;
use jaco_types::StateIndex;

use super::heat::Heat;
use super::{CycleInput, Load, Pressure, Rebalancer, Sample, Weighed, choice};

impl Rebalancer {
    /// The moves that cool every hot node as far as they can, in order, `most` at most. Each takes
    /// something off the hottest node that can give something off and leaves no other as hot, so that a run
    /// after them finds less to do, and in the end nothing.
    #[must_use]
    pub fn moves_off_hot_nodes(&self, input: CycleInput<'_>, most: usize) -> Vec<Weighed> {
        let mut memory = Self { received: BTreeMap::new(), ..self.clone() };
        memory.pass_time(input);
        let mut state = input.state.clone();
        let mut pressure = input.pressure.clone();
        for (at, one) in &memory.recent {
            let is_older = |sample: &Sample| sample.at <= *at;
            shift(&mut pressure, &state, one, is_older);
        }
        let mut moves = Vec::new();
        while moves.len() < most {
            let now = CycleInput { state: &state, pressure: &pressure, ..input };
            let hot = Heat::of_samples(now).all_hot(now);
            let best = hot.iter().find_map(|hot| choice::choose(now, &memory, hot).0);
            let Some(best) = best else { break };
            shift(&mut pressure, &state, &best, |_| true);
            begin_handover(&mut state, &best);
            moves.push(best);
        }
        moves
    }
}

/// Counts a move in where the sample does not show it.
fn shift(
    pressure: &mut Pressure,
    state: &ClusterState,
    one: &Weighed,
    lacks: impl Fn(&Sample) -> bool,
) {
    let nodes = (state.nodes.get(&one.src), one.dst.and_then(|dst| state.nodes.get(&dst)));
    let (Some(src), Some(dst)) = nodes else { return };
    let (from, to) = (src.facts.capacity, dst.facts.capacity);
    let Load { cpu, memory } = one.footprint;
    if let Some(sample) = pressure.nodes.get_mut(&src.id).filter(|sample| lacks(sample)) {
        let load = sample.load;
        sample.load = Load { cpu: load.cpu.minus(cpu), memory: load.memory.minus(memory) };
    }
    if let Some(sample) = pressure.nodes.get_mut(&dst.id).filter(|sample| lacks(sample)) {
        let load = sample.load;
        sample.load = Load {
            cpu: load.cpu.plus(cpu.carried(from.cpu.0, to.cpu.0)),
            memory: load.memory.plus(memory.carried(from.memory.0, to.memory.0)),
        };
    }
}

/// The replica as it is once the move is written: room is taken on both nodes.
fn begin_handover(state: &mut ClusterState, one: &Weighed) {
    let next = StateIndex(state.index.0.saturating_add(1));
    if let (Some((replica, _)), Some(dst)) = (&one.replica, one.dst)
        && let Some(slot) = state.slots.get_mut(replica)
    {
        let mut current = slot.current.clone();
        (current.node, current.raft_index) = (dst, next);
        slot.retiring = Some(std::mem::replace(&mut slot.current, current));
    }
}
