//! Which node is hot, and since how many cycles. Sustained pressure counts; a spike does not.

use std::collections::BTreeMap;

use jaco_types::{NodeId, Timestamp};

use super::{CycleInput, Load, Sample, Share};

/// What a hot node has too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dominant {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
}

impl Dominant {
    /// The name as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    pub(super) const fn of(self, load: Load) -> Share {
        match self {
            Self::Cpu => load.cpu,
            Self::Memory => load.memory,
        }
    }
}

/// The averages of all nodes that sent samples lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Heat(BTreeMap<NodeId, Average>);

#[derive(Debug, Clone, Copy)]
struct Average {
    at: Timestamp,
    load: Load,
    /// Samples in a row that left it hot.
    hot_cycles: u32,
}

/// The node to move replicas off.
pub(super) struct Hot {
    pub(super) node: NodeId,
    pub(super) dominant: Dominant,
}

impl Heat {
    /// Takes new samples into the averages; nodes without a recent one are forgotten.
    pub(super) fn fold(&mut self, input: CycleInput<'_>) {
        self.0.retain(|node, _| fresh(input, *node).is_some());
        for node in input.pressure.nodes.keys() {
            let Some(sample) = fresh(input, *node) else { continue };
            let first = Average { at: sample.at, load: sample.load, hot_cycles: 0 };
            let (average, is_new) = match self.0.get(node) {
                None => (first, true),
                Some(known) => (known.followed(sample, input), known.at != sample.at),
            };
            let is_hot = average.pressure() >= input.config.trigger;
            let hot_cycles = match (is_hot, is_new) {
                (false, _) => 0,
                (true, false) => average.hot_cycles,
                (true, true) => average.hot_cycles.saturating_add(1),
            };
            self.0.insert(*node, Average { hot_cycles, ..average });
        }
    }

    /// As if the last samples had always been what they are.
    pub(super) fn of_samples(input: CycleInput<'_>) -> Self {
        let nodes = input.pressure.nodes.keys();
        let averages = nodes.filter_map(|node| {
            let Sample { at, load } = fresh(input, *node)?;
            Some((*node, Average { at, load, hot_cycles: u32::MAX }))
        });
        Self(averages.collect())
    }

    /// The hot nodes by this moment's measure, the hottest first.
    pub(super) fn all_hot(&self, input: CycleInput<'_>) -> Vec<Hot> {
        let coolest = self.0.values().map(Average::pressure).min().unwrap_or_default();
        let is_hot = |average: &Average| {
            average.pressure() >= input.config.trigger
                && average.pressure().minus(coolest) >= input.config.imbalance_gap
        };
        let mut hot: Vec<_> = self.0.iter().filter(|(_, average)| is_hot(average)).collect();
        hot.sort_by_key(|(node, average)| (std::cmp::Reverse(average.pressure()), **node));
        hot.into_iter().map(|(node, average)| average.as_hot(*node)).collect()
    }

    /// The average pressure of a node.
    pub(super) fn pressure(&self, node: NodeId) -> Option<Share> {
        self.0.get(&node).map(Average::pressure)
    }

    /// The hottest node, if it has been hot for long enough and another is much cooler.
    pub(super) fn hottest(&self, input: CycleInput<'_>) -> Option<Hot> {
        // Of two that are equally hot, the one that joined first.
        let (node, hottest) = self.0.iter().rev().max_by_key(|(_, average)| average.pressure())?;
        let coolest = self.0.values().map(Average::pressure).min()?;
        let gap = hottest.pressure().minus(coolest);
        let was_hot = hottest.hot_cycles >= input.config.consecutive_cycles.max(1);
        // An average stays hot for a while after a burst has ended; then there is nothing to rebalance,
        // and a move would be undone by the next burst.
        let load = fresh(input, *node)?.load;
        let is_hot = was_hot && load.cpu.max(load.memory) >= input.config.trigger;
        if self.0.len() < 2 || !is_hot || gap < input.config.imbalance_gap {
            return None;
        }
        Some(hottest.as_hot(*node))
    }
}

impl Average {
    fn pressure(&self) -> Share {
        self.load.cpu.max(self.load.memory)
    }

    fn as_hot(&self, node: NodeId) -> Hot {
        let Load { cpu, memory } = self.load;
        let dominant = if memory > cpu { Dominant::Memory } else { Dominant::Cpu };
        Hot { node, dominant }
    }

    /// With a clock that went back no time has passed.
    fn followed(self, sample: Sample, input: CycleInput<'_>) -> Self {
        let (elapsed, window) = (sample.at.since(self.at), input.config.window);
        let cpu = self.load.cpu.drawn_to(sample.load.cpu, elapsed, window);
        let memory = self.load.memory.drawn_to(sample.load.memory, elapsed, window);
        Self { at: sample.at, load: Load { cpu, memory }, ..self }
    }
}

/// The sample of a member, if it is recent.
pub(super) fn fresh(input: CycleInput<'_>, node: NodeId) -> Option<Sample> {
    let sample = input.pressure.nodes.get(&node)?;
    let oldest = input.config.sample_interval.0.saturating_mul(3);
    let is_fresh = input.now.since(sample.at).0 <= oldest;
    (is_fresh && input.state.nodes.contains(&node)).then_some(*sample)
}
