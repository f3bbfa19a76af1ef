//! The leader's loop, as `jaco-controller` runs it: wait for quiet, plan, propose, wait for the
//! outcome. It decides nothing.

use std::collections::BTreeMap;

use jaco_controller::{ClockStep, ClockWatch, Debounce, Options};
use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::{NodeSignal, Plan, PlanInput, Planner, Signals};
use jaco_state::ClusterState;
use jaco_types::{ImageNeed, ImageReadiness, Millis, NodeId, Timestamp};

/// What a leader keeps while it leads. All moments are by its own clock.
#[derive(Debug)]
pub(crate) struct LeaderLoop {
    /// The election that it won.
    pub(crate) term: u64,
    options: Options,
    signals: Signals,
    planner: Planner,
    debounce: Debounce,
    watch: ClockWatch,
    next_tick: Timestamp,
    proposing: Proposing,
}

/// Whether the loop waits for the outcome of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proposing {
    No,
    Yes {
        /// When the next pass is due if nothing happens before.
        next_tick: Timestamp,
    },
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was executed.
    Yes,
    /// It was refused, or nobody knows.
    No,
}

impl LeaderLoop {
    pub(crate) fn new(term: u64, now: Timestamp) -> Self {
        let options = Options::default();
        Self {
            term,
            signals: Signals { listening_since: now, ..Signals::default() },
            planner: Planner::default(),
            debounce: Debounce::new(options.quiet, options.at_most),
            options,
            watch: ClockWatch::default(),
            next_tick: now,
            proposing: Proposing::No,
        }
    }

    /// When the next pass is due.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        match self.proposing {
            Proposing::Yes { .. } => None,
            Proposing::No => {
                Some(self.debounce.due_at().map_or(self.next_tick, |at| at.min(self.next_tick)))
            }
        }
    }

    /// The state grew.
    pub(crate) fn note_state(&mut self, now: Timestamp) {
        self.debounce.event(now);
    }

    /// A node says how it stands with the images that rollouts need there.
    pub(crate) fn hear_of_images(
        &mut self,
        node: NodeId,
        images: BTreeMap<ImageNeed, ImageReadiness>,
        now: Timestamp,
    ) {
        let is_news = self.signals.images.get(&node).is_some_and(|known| *known != images);
        self.signals.images.insert(node, images);
        if is_news {
            self.debounce.event(now);
        }
    }

    /// A node says how it is. Only what could change a decision wakes the loop.
    pub(crate) fn hear(&mut self, node: NodeId, engine: EngineSignal, now: Timestamp) {
        let signal = NodeSignal { heard_at: now, engine };
        let is_news = match self.signals.nodes.get(&node) {
            Some(known) => !known.engine.is_alike(&signal.engine),
            None => true,
        };
        self.signals.nodes.insert(node, signal);
        if is_news {
            self.debounce.event(now);
        }
    }

    /// Plans. With changes, the loop waits for [`LeaderLoop::answer`]. `steady` is a clock that nobody
    /// sets.
    pub(crate) fn pass(&mut self, state: &ClusterState, now: Timestamp, steady: Millis) -> Plan {
        if self.watch.look(now, steady) == ClockStep::Set {
            self.signals = Signals { listening_since: now, ..Signals::default() };
        }
        self.debounce.pass(now);
        let config = &self.options.planner;
        let plan = self.planner.plan(&PlanInput { state, signals: &self.signals, now, config });
        let tick = now.after(self.options.safety_tick);
        let next_tick =
            plan.wake_at.map_or(tick, |at| at.min(tick)).max(now.after(self.options.quiet));
        if plan.changes.is_empty() {
            self.next_tick = next_tick;
        } else {
            self.proposing = Proposing::Yes { next_tick };
        }
        plan
    }

    /// What a pass at this moment would look at.
    pub(crate) fn input<'a>(&'a self, state: &'a ClusterState, now: Timestamp) -> PlanInput<'a> {
        PlanInput { state, signals: &self.signals, now, config: &self.options.planner }
    }

    /// What became of the batch.
    pub(crate) fn answer(&mut self, written: Written, now: Timestamp) {
        let Proposing::Yes { next_tick } = self.proposing else { return };
        self.proposing = Proposing::No;
        self.next_tick = match written {
            Written::Yes => next_tick,
            Written::No => now.after(self.options.quiet),
        };
    }
}
