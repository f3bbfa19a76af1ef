//! The leader's loop as `jaco-controller` runs it, without tokio: when to plan, and which heartbeats count,
//! is decided by that crate's own types.

use std::collections::BTreeMap;

use jaco_controller::{ClockStep, ClockWatch, Options, PassResult, PassSchedule};
use jaco_scheduler::input::{ConsumerSignal, EngineSignal};
use jaco_scheduler::rebalance::{
    CycleInput, Load, Overdue, Pressure, RebalanceConfig, Rebalancer, Sample, Share,
};
use jaco_scheduler::schedule::Agenda;
use jaco_scheduler::{NodeSignal, Plan, PlanInput, Planner, Signals};
use jaco_state::{ClusterState, Command};
use jaco_types::{
    Acknowledgement, ConsumerName, ImageNeed, ImageReadiness, Millis, NodeId, StateIndex, Timestamp,
};

/// What a leader keeps while it leads. All moments are by its own clock.
#[derive(Debug)]
pub(crate) struct LeaderLoop {
    /// The election that it won.
    pub(crate) term: u64,
    options: Options,
    signals: Signals,
    planner: Planner,
    schedule: PassSchedule,
    clocks: ClockWatch,
    proposing: Proposing,
    rebalancer: Rebalancer,
    pressure: Pressure,
    thresholds: RebalanceConfig,
    agenda: Agenda,
}

/// Whether the loop waits for the outcome of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proposing {
    No,
    Yes {
        /// When the planner wants to look again.
        wake_at: Option<Timestamp>,
    },
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was executed.
    Yes,
    /// It was refused, or its outcome is unknown.
    No,
}

impl LeaderLoop {
    pub(crate) fn new(term: u64, now: Timestamp) -> Self {
        let options = Options::default();
        Self {
            term,
            signals: Signals { listening_since: now, ..Signals::default() },
            planner: Planner::default(),
            schedule: PassSchedule::new(options.pace, now),
            options,
            clocks: ClockWatch::default(),
            proposing: Proposing::No,
            rebalancer: Rebalancer::default(),
            pressure: Pressure::default(),
            thresholds: RebalanceConfig::default(),
            agenda: Agenda::default(),
        }
    }

    /// When the next pass is due.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        match self.proposing {
            Proposing::Yes { .. } => None,
            Proposing::No => Some(self.schedule.due_at()),
        }
    }

    /// The state grew.
    pub(crate) fn note_state(&mut self, now: Timestamp) {
        self.schedule.event(now);
    }

    /// A node reports the readiness of the images that rollouts need there.
    pub(crate) fn hear_of_images(
        &mut self,
        node: NodeId,
        images: BTreeMap<ImageNeed, ImageReadiness>,
        now: Timestamp,
    ) {
        let is_news = self.signals.images.get(&node).is_some_and(|known| *known != images);
        self.signals.images.insert(node, images);
        if is_news {
            self.schedule.event(now);
        }
    }

    /// An endpoint consumer acknowledges a state.
    pub(crate) fn hear_of_endpoints(
        &mut self,
        name: ConsumerName,
        (session, acknowledged): (StateIndex, StateIndex),
        now: Timestamp,
    ) {
        let acknowledgement = Acknowledgement::of(acknowledged);
        let is_news = |known: ConsumerSignal| {
            known.session != session || known.acknowledgement.index < acknowledged
        };
        let signal = ConsumerSignal { session, heard_at: now, acknowledgement };
        if self.signals.consumers.insert(name, signal).is_none_or(is_news) {
            self.schedule.event(now);
        }
    }

    /// A node reports how much of its processors is in use.
    pub(crate) fn hear_of_load(&mut self, node: NodeId, percent: Option<u64>, now: Timestamp) {
        let sample = |percent| Sample {
            at: now,
            load: Load { cpu: Share(percent * Share::WHOLE.0 / 100), memory: Share(0) },
        };
        match percent.map(sample) {
            Some(sample) => self.pressure.nodes.insert(node, sample),
            None => self.pressure.nodes.remove(&node),
        };
    }

    /// A cycle of rebalancing: what to write, in order.
    pub(crate) fn rebalance(&mut self, state: &ClusterState, now: Timestamp) -> Vec<Command> {
        let overdue = self.rebalancer.overdue(state, now);
        let reverts = Overdue::command(&overdue, state);
        let (pressure, config) = (&self.pressure, &self.thresholds);
        let cycle = self.rebalancer.cycle(CycleInput { state, pressure, config, now });
        reverts.into_iter().chain(cycle.command(state)).collect()
    }

    /// What is due of jobs, and when something is next.
    pub(crate) fn due_runs(
        &mut self,
        state: &ClusterState,
        now: Timestamp,
    ) -> (Vec<Command>, Option<Timestamp>) {
        self.agenda.look(state, now)
    }

    /// A heartbeat. Only one that could change a decision wakes the loop.
    pub(crate) fn hear(&mut self, node: NodeId, engine: EngineSignal, now: Timestamp) {
        let signal = NodeSignal { heard_at: now, engine };
        let is_news = match self.signals.nodes.get(&node) {
            Some(known) => !known.engine.is_alike(&signal.engine),
            None => true,
        };
        self.signals.nodes.insert(node, signal);
        if is_news {
            self.schedule.event(now);
        }
    }

    /// Looks at the clocks, as a leader does all the time. `steady` is a clock that nobody sets.
    pub(crate) fn look(&mut self, now: Timestamp, steady: Millis) {
        match self.clocks.look(now, steady) {
            ClockStep::None => {}
            ClockStep::Set | ClockStep::Stalled => {
                self.signals = Signals { listening_since: now, ..Signals::default() };
            }
        }
    }

    /// Plans. With changes, the loop waits for [`LeaderLoop::answer`].
    pub(crate) fn pass(&mut self, state: &ClusterState, now: Timestamp, steady: Millis) -> Plan {
        self.look(now, steady);
        self.schedule.begin(now);
        let config = &self.options.planner;
        let plan = self.planner.plan(&PlanInput { state, signals: &self.signals, now, config });
        let wake_at = plan.wake_at;
        if plan.changes.is_empty() {
            self.schedule.end(now, PassResult::Done { wake_at });
        } else {
            self.proposing = Proposing::Yes { wake_at };
        }
        plan
    }

    /// What a pass at this moment would look at.
    pub(crate) fn input<'a>(&'a self, state: &'a ClusterState, now: Timestamp) -> PlanInput<'a> {
        PlanInput { state, signals: &self.signals, now, config: &self.options.planner }
    }

    /// What became of the batch.
    pub(crate) fn answer(&mut self, written: Written, now: Timestamp) {
        let Proposing::Yes { wake_at } = self.proposing else { return };
        self.proposing = Proposing::No;
        let result = match written {
            Written::Yes => PassResult::Done { wake_at },
            Written::No => PassResult::Refused,
        };
        self.schedule.end(now, result);
    }
}
