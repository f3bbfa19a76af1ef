//! Rebalancing of hot nodes: from what the nodes measured to at most one move.
//!
//! A cycle folds the samples, finds the hottest node, and asks the gates in turn. It changes
//! nothing but its own memory, which is the leader's alone and is rebuilt within two cycles.

mod arrange;
mod choice;
mod concerned;
mod handover;
mod heat;
mod hot_node;
mod movable;
mod payload;
mod share;
mod taken;

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::{Rebalance, RebalanceMove};
use jaco_state::{ClusterState, Command, NewInstance};
use jaco_types::{InstanceId, Millis, NodeId, ReplicaId, ServiceKey, Timestamp};

pub use arrange::{Arranged, Goal, arrange, arrangement};
pub use choice::Reason;
pub use concerned::{Concerned, concerned};
use handover::Handovers;
pub use handover::Overdue;
pub use heat::Dominant;
use heat::Heat;
pub use share::Share;

/// The thresholds. Defaults are the product's; tests shorten the lengths of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebalanceConfig {
    /// How often a node is expected to send a sample; three times this old, it is ignored (30 s).
    pub sample_interval: Millis,
    /// The window of the moving average (5 min).
    pub window: Millis,
    /// The pressure from which on a node is hot (0.85).
    pub trigger: Share,
    /// How many cycles with a new sample it must be hot in a row (2).
    pub consecutive_cycles: u32,
    /// How far the coolest node must be below the hottest (0.25).
    pub imbalance_gap: Share,
    /// What a move must take off the hot node (0.10).
    pub relief_floor: Share,
    /// What the destination must stay below (0.75).
    pub destination_cap: Share,
    /// How long a replica stays where it came to run (10 min).
    pub replica_cooldown: Millis,
    /// How long a node receives no other replica after it received one (2 min).
    pub node_cooldown: Millis,
    /// What a move costs, taken off its score (0.01).
    pub move_cost: Share,
    /// What a replica is taken to use of a processor where it is neither measured nor limited (0.12).
    pub default_cpu: Share,
    /// The same of memory (0.06).
    pub default_memory: Share,
}

impl Default for RebalanceConfig {
    fn default() -> Self {
        Self {
            sample_interval: Millis::from_secs(30),
            window: Millis::from_secs(300),
            trigger: Share(850_000),
            consecutive_cycles: 2,
            imbalance_gap: Share(250_000),
            relief_floor: Share(100_000),
            destination_cap: Share(750_000),
            replica_cooldown: Millis::from_secs(600),
            node_cooldown: Millis::from_secs(120),
            move_cost: Share(10_000),
            default_cpu: Share(120_000),
            default_memory: Share(60_000),
        }
    }
}

/// Use of a node's processors and memory, each as a share of all the node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Processor time.
    pub cpu: Share,
    /// Memory.
    pub memory: Share,
}

/// What a node measured of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it came, by the leader's clock.
    pub at: Timestamp,
    /// How much of it is in use.
    pub load: Load,
}

/// What the nodes measured lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pressure {
    /// The last sample of each node.
    pub nodes: BTreeMap<NodeId, Sample>,
    /// What instances use, as shares of the nodes that run them, where that was measured.
    pub instances: BTreeMap<InstanceId, Load>,
}

/// All that a cycle may look at.
#[derive(Debug, Clone, Copy)]
pub struct CycleInput<'a> {
    /// The replicated state.
    pub state: &'a ClusterState,
    /// What the nodes measured lately.
    pub pressure: &'a Pressure,
    /// The thresholds.
    pub config: &'a RebalanceConfig,
    /// The moment of the cycle, by the leader's clock.
    pub now: Timestamp,
}

/// A replica on a hot node, and what became of the thought of moving it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighed {
    /// The replica; absent if the node has none that may be moved.
    pub replica: Option<(ReplicaId, ServiceKey)>,
    /// The hot node.
    pub src: NodeId,
    /// Where it would go; absent if that was not asked, or no node takes it.
    pub dst: Option<NodeId>,
    /// What the node has too little of.
    pub dominant: Dominant,
    /// What the replica uses, as a share of the hot node.
    pub footprint: Load,
    /// What the move takes off the hot node.
    pub relief: Share,
    /// What the move costs.
    pub move_cost: Share,
    /// The hot node before and after.
    pub src_pressure: (Share, Share),
    /// The destination before and after; zero without one.
    pub dst_pressure: (Share, Share),
}

/// What a cycle decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cycle {
    /// The move to make.
    pub moved: Option<Weighed>,
    /// What was not moved, for reasons that were not given yet since the node became hot.
    pub skipped: Vec<(Weighed, Reason)>,
}

impl Cycle {
    /// What to write so that it happens; nothing where there is nothing to say.
    #[must_use]
    pub fn command(&self, state: &ClusterState) -> Option<Command> {
        let kept: Vec<_> = self
            .skipped
            .iter()
            .map(|(weighed, reason)| weighed.payload(state, Some(*reason)))
            .collect();
        let moves = moves(state, self.moved.as_slice());
        let says_something = !moves.is_empty() || !kept.is_empty();
        says_something.then_some(Rebalance::new(state.index, moves).kept(kept).into())
    }
}

/// The moves as the log takes them: a replica runs there what it ran here.
#[must_use]
pub fn moves(state: &ClusterState, moved: &[Weighed]) -> Vec<RebalanceMove> {
    let one = |weighed: &Weighed| {
        let (replica, _) = weighed.replica.as_ref()?;
        let current = &state.slots.get(replica)?.current;
        Some(RebalanceMove {
            id: replica.clone(),
            instance: NewInstance {
                node: weighed.dst?,
                revision: current.revision,
                spec_hash: current.spec_hash,
                // What has GPUs is not moved.
                gpus: Vec::new(),
            },
            facts: weighed.payload(state, None),
        })
    };
    moved.iter().filter_map(one).collect()
}

/// What a leader remembers from cycle to cycle. A new leader begins with an empty one.
#[derive(Debug, Clone, Default)]
pub struct Rebalancer {
    heat: Heat,
    received: BTreeMap<NodeId, Timestamp>,
    moved: BTreeMap<ReplicaId, Timestamp>,
    /// Moves that the last samples may not show yet, and when they were made.
    recent: Vec<(Timestamp, Weighed)>,
    reported: BTreeMap<NodeId, BTreeSet<(Option<ReplicaId>, Reason)>>,
    handovers: Handovers,
}

impl Rebalancer {
    /// Takes the samples in and decides. The caller makes the move before the next cycle; one that
    /// is refused costs its cooldowns nevertheless.
    pub fn cycle(&mut self, input: CycleInput<'_>) -> Cycle {
        self.pass_time(input);
        self.heat.fold(input);
        self.forget_cool_nodes(input);
        let Some(hot) = self.heat.hottest(input) else { return Cycle::default() };
        let (moved, skipped) = choice::choose(input, self, &hot);
        self.note_moves(moved.as_slice(), input.now);
        let reported = self.reported.entry(hot.node).or_default();
        let is_new = |(weighed, reason): &(Weighed, Reason)| {
            reported.insert((weighed.replica.as_ref().map(|(id, _)| id.clone()), *reason))
        };
        Cycle { moved, skipped: skipped.into_iter().filter(is_new).collect() }
    }

    /// The moves whose successors did not run in time, and that are to be taken back. The replica and
    /// the node that it did not run on cool down as after a move.
    pub fn overdue(&mut self, state: &ClusterState, now: Timestamp) -> Vec<Overdue> {
        let overdue = self.handovers.overdue(state, now);
        for one in &overdue {
            self.moved.insert(one.replica.clone(), now);
            self.received.insert(one.dst, now);
            let is_it = |moved: &Weighed| {
                moved.replica.as_ref().is_some_and(|(replica, _)| *replica == one.replica)
            };
            self.recent.retain(|(_, moved)| !is_it(moved));
        }
        overdue
    }

    /// Begins the cooldowns of moves that are being made.
    pub fn note_moves(&mut self, moves: &[Weighed], now: Timestamp) {
        for one in moves {
            if let Weighed { replica: Some((replica, _)), dst: Some(dst), .. } = one {
                self.moved.insert(replica.clone(), now);
                self.received.insert(*dst, now);
                self.recent.push((now, one.clone()));
            }
        }
    }

    /// Ends cooldowns. A clock that went back must not make one longer than it is.
    fn pass_time(&mut self, input: CycleInput<'_>) {
        let (now, config) = (input.now, input.config);
        self.received.retain(|_, at| is_cooling(at, now, config.node_cooldown));
        self.moved.retain(|_, at| is_cooling(at, now, config.replica_cooldown));
        let seen_by = Millis(config.sample_interval.0.saturating_mul(3));
        self.recent.retain_mut(|(at, _)| is_cooling(at, now, seen_by));
    }

    /// What was reported of a node is reported again only after it was clearly cool: a node at the edge of
    /// the trigger would otherwise repeat it for ever.
    fn forget_cool_nodes(&mut self, input: CycleInput<'_>) {
        let heat = &self.heat;
        self.reported.retain(|node, _| {
            heat.pressure(*node).is_some_and(|pressure| pressure >= input.config.destination_cap)
        });
    }
}

fn is_cooling(at: &mut Timestamp, now: Timestamp, cooldown: Millis) -> bool {
    *at = (*at).min(now);
    now.since(*at) < cooldown
}
