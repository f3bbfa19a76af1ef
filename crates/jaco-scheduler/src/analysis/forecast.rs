//! Forecast: the planner and an ideal runtime in turn, on a copy of the state, until it has converged.
//!
//! Every step is the planner's own pass and the state's own `apply`, so the forecast is what
//! would be done if every container started and stayed up. It never guesses: what it did not get to
//! is reported as open.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::{Batch, Observe, Previous, ReplaceCause};
use jaco_state::{Change, ClusterState, Command, Entry, Outcome, Table, apply};
use jaco_types::observed::Exit;
use jaco_types::{
    Acknowledgement, DeploymentName, DesiredState, FirstWatch, Identity, InstanceId,
    InstanceObserved, Node, NodeId, NodeStatus, ReplicaId, ReplicaState, RolloutState, ServiceKey,
    Slot, StateIndex, TerminatingInstance, Timestamp,
};

use crate::input::{ConsumerSignal, PlanInput, PlannerConfig, Signals};
use crate::pass::Plan;
use crate::planner::Planner;

/// How many rows of the state may be looked at: about a second of planning. What needs more is
/// left open. A rollout of 500 replicas fits, one after another.
const ROWS_MAX: usize = 1_000_000;

/// How often time may be let pass without anything moving: 16 minutes of `delay` or `monitor`.
const WAITS_MAX: usize = 64;

/// The world as it will be, and how it comes to be so.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// What becomes of each replica that does not stay as it is, in the order of their names.
    pub moves: Vec<Move>,
    /// The last pass: what it says to be waiting waits in the end.
    pub last: Plan,
    /// Whether the end was reached.
    pub end: End,
    /// The state in the end.
    pub state: ClusterState,
    /// What the nodes say in the end: those that spoke lately go on speaking.
    pub signals: Signals,
    /// The moment of the end.
    pub now: Timestamp,
}

/// Whether a forecast reached the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing moves any more.
    Rest,
    /// More would happen than is looked at.
    Open,
}

/// What becomes of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The replica.
    pub replica: ReplicaId,
    /// The service it belongs to.
    pub service: ServiceKey,
    /// What is done with it.
    pub action: Action,
    /// Where it is; none for a new one.
    pub from: Option<NodeId>,
    /// Where it will be; none for one that is removed, and for one whose turn the forecast does not reach.
    pub to: Option<NodeId>,
    /// The last reason that the planner gave.
    pub cause: &'static str,
    /// What becomes of the instance before, where there is one.
    pub previous: Option<Previous>,
}

/// What is done with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It is new.
    Create,
    /// It gets another instance on its node.
    Replace,
    /// It gets another instance on another node.
    Move,
    /// It is disabled: it runs nothing, and what it would run is renewed.
    Stage,
    /// It goes.
    Stop,
}

impl Action {
    /// The action as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Move => "move",
            Self::Stage => "stage",
            Self::Stop => "stop",
        }
    }
}

impl Forecast {
    /// The end as a pass would look at it.
    #[must_use]
    pub fn input<'a>(&'a self, config: &'a PlannerConfig) -> PlanInput<'a> {
        PlanInput { state: &self.state, signals: &self.signals, now: self.now, config }
    }
}

/// What the cluster converges to if every container starts and stays up.
#[must_use]
pub fn forecast(input: &PlanInput<'_>) -> Forecast {
    let mut world = World {
        state: input.state.clone(),
        // An image is there when it is needed: a node that says nothing of images is not waited for.
        signals: Signals { images: BTreeMap::new(), ..input.signals.clone() },
        now: input.now,
        config: input.config,
        notes: BTreeMap::new(),
        at_rest: None,
    };
    world.obey();
    let mut planner = Planner::default();
    let (mut rows_left, mut waits_left) = (ROWS_MAX, WAITS_MAX);
    let (last, end) = loop {
        let pass = planner.plan(&world.input());
        if !pass.changes.is_empty() {
            rows_left = rows_left.saturating_sub(world.rows());
            waits_left = WAITS_MAX;
            if world.carry_out(&pass) && rows_left > 0 {
                continue;
            }
            break (pass, End::Open);
        }
        match pass.wake_at.filter(|_| world.is_in_progress()) {
            None => break (pass, End::Rest),
            Some(_) if waits_left == 0 || rows_left == 0 => break (pass, End::Open),
            Some(at) => {
                waits_left -= 1;
                rows_left = rows_left.saturating_sub(world.rows());
                world.wait_until(at);
            }
        }
    };
    let moves = world.moves(input.state, end);
    let World { state, signals, now, .. } = world;
    Forecast { moves, last, end, state, signals, now }
}

fn report(reports: &mut BTreeMap<NodeId, Observe>, node: NodeId) -> &mut Observe {
    reports.entry(node).or_insert_with(|| Observe::new(node))
}

/// The copy, and the planner's last reason about each replica.
struct World<'a> {
    state: ClusterState,
    signals: Signals,
    now: Timestamp,
    config: &'a PlannerConfig,
    notes: BTreeMap<ReplicaId, Note>,
    at_rest: Option<AtRest>,
}

/// What the nodes had carried out.
struct AtRest {
    nodes: Table<NodeId, Node>,
    slots: Table<ReplicaId, Slot>,
    terminating: Table<InstanceId, TerminatingInstance>,
}

impl AtRest {
    fn of(state: &ClusterState) -> Self {
        Self {
            nodes: state.nodes.clone(),
            slots: state.slots.clone(),
            terminating: state.terminating.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Note {
    cause: &'static str,
    previous: Option<Previous>,
}

impl World<'_> {
    fn input(&self) -> PlanInput<'_> {
        PlanInput { state: &self.state, signals: &self.signals, now: self.now, config: self.config }
    }

    /// What a pass over the world costs.
    fn rows(&self) -> usize {
        self.state.slots.len() + self.state.nodes.len() + 1
    }

    /// Writes the changes and lets the nodes carry them out; whether the state took them.
    fn carry_out(&mut self, pass: &Plan) -> bool {
        let placed = pass.report.placed.iter().map(|placed| (&placed.replica, placed.why));
        let reasons: BTreeMap<&ReplicaId, &'static str> = placed.collect();
        for change in &pass.changes {
            self.note(change, &reasons);
        }
        let (based_on, changes) = (pass.based_on, pass.changes.clone());
        let outcome = self.commit(Identity::Scheduler, Batch::new(based_on, changes).into());
        self.obey();
        outcome == Outcome::Done
    }

    /// Remembers why a replica changes; `reasons` are those of the replicas that were placed.
    fn note(&mut self, change: &Change, reasons: &BTreeMap<&ReplicaId, &'static str>) {
        match change {
            Change::SlotCreate { id, .. } => {
                let cause = reasons.get(id).copied().unwrap_or("new");
                self.notes.insert(id.clone(), Note { cause, previous: None });
            }
            Change::SlotReplace { id, previous, cause, .. } => {
                let note = Note { cause: cause.as_str(), previous: Some(*previous) };
                self.notes.insert(id.clone(), note);
            }
            Change::SlotDisable { id, .. } => {
                self.notes.insert(id.clone(), Note { cause: "disabled", previous: None });
            }
            Change::SlotRemove { id } => {
                let wanted = self.state.slots.get(id).is_some_and(|slot| self.wants(&slot.service));
                let cause = if wanted { "fewer are wanted" } else { "not wanted any more" };
                self.notes.insert(id.clone(), Note { cause, previous: None });
            }
            Change::SlotFinish { .. }
            | Change::SlotSettle { .. }
            | Change::SlotRevert { .. }
            | Change::TerminatingRemove { .. }
            | Change::ConsumerExpire { .. }
            | Change::SlotSetRestarts { .. }
            | Change::SchedulingSet { .. }
            | Change::NodeStatusSet { .. }
            | Change::ImageResolve { .. }
            | Change::DrainTimeout { .. } => {}
        }
    }

    fn wants(&self, service: &ServiceKey) -> bool {
        let deployment = self.state.deployments.get(&service.deployment);
        deployment.is_some_and(|wanted| wanted.spec().services.contains_key(&service.service))
    }

    fn commit(&mut self, by: Identity, command: Command) -> Outcome {
        let index = StateIndex(self.state.index.0.saturating_add(1));
        let entry = Entry { index, at: self.now, by, origin: None, request: None, command };
        apply(&mut self.state, &entry)
    }

    /// Nodes that take part run what they should and drop what they should not, and whoever follows
    /// the endpoints knows them.
    fn obey(&mut self) {
        self.run_and_drop();
        for consumer in self.state.consumers.values() {
            let signal = ConsumerSignal {
                session: consumer.session,
                heard_at: self.now,
                acknowledgement: Acknowledgement::of(self.state.index),
            };
            self.signals.consumers.insert(consumer.name.clone(), signal);
        }
    }

    fn run_and_drop(&mut self) {
        let jobs = self.jobs();
        let mut reports: BTreeMap<NodeId, Observe> = BTreeMap::new();
        for id in self.restless() {
            let slot = self.state.slots.get(&id);
            for (id, instance) in slot.iter().flat_map(|slot| slot.instances()) {
                let known = self.state.observed.get(&id);
                let is_settled = known.is_some_and(|seen| {
                    seen.state.is_over() || seen.state == ReplicaState::Running
                });
                if !is_settled && self.takes_part(instance.node) {
                    let is_job = slot.is_some_and(|slot| jobs.contains(&slot.service));
                    let seen = slot.map(|slot| self.obeyed(slot, &id, instance.node, is_job));
                    report(&mut reports, instance.node).observed.extend(seen);
                }
                if instance.joining_since.is_some() && self.takes_part(instance.node) {
                    report(&mut reports, instance.node).joined.push(id);
                }
            }
            let first = InstanceId { replica: id.clone(), raft_index: StateIndex(0) };
            let seen = self.state.observed.range(first..).map(|(_, seen)| seen);
            for seen in seen.take_while(|seen| seen.id.replica == id) {
                let is_kept = slot
                    .is_some_and(|slot| slot.kept_instances().any(|(kept, _)| kept == seen.id))
                    || self.state.terminating.contains(&seen.id);
                if !is_kept && self.takes_part(seen.node) {
                    report(&mut reports, seen.node).gone.push(seen.id.clone());
                }
            }
        }
        self.at_rest = Some(AtRest::of(&self.state));
        for (node, report) in reports {
            self.commit(Identity::Node { id: node }, report.into());
        }
    }

    /// The replicas of which something has changed since the nodes had nothing more to do.
    fn restless(&self) -> BTreeSet<ReplicaId> {
        let state = &self.state;
        match self.at_rest.as_ref().filter(|rest| rest.nodes.is_same(&state.nodes)) {
            Some(rest) => {
                let slots = state.slots.changed_since(&rest.slots);
                let slots = slots.into_iter().map(|changed| changed.key.clone());
                let terminating = state.terminating.changed_since(&rest.terminating);
                slots.chain(terminating.into_iter().map(|it| it.key.replica.clone())).collect()
            }
            None => {
                let observed = state.observed.keys().map(|id| id.replica.clone());
                state.slots.keys().cloned().chain(observed).collect()
            }
        }
    }

    fn takes_part(&self, node: NodeId) -> bool {
        self.state.nodes.get(&node).is_some_and(|node| node.status != NodeStatus::Down)
            && self.signals.nodes.contains_key(&node)
    }

    /// What a node reports of an instance that works: a job has completed, all others run.
    fn obeyed(&self, slot: &Slot, id: &InstanceId, node: NodeId, is_job: bool) -> InstanceObserved {
        let (state, exit) = match is_job {
            true => (ReplicaState::Stopped, Some(Exit { code: 0, out_of_memory: false })),
            false => (ReplicaState::Running, None),
        };
        InstanceObserved {
            id: id.clone(),
            service: slot.service.clone(),
            node,
            state,
            code: None,
            details: BTreeMap::new(),
            container_id: String::new(),
            ports: BTreeMap::new(),
            started_at: Some(self.now),
            since: self.now,
            exit,
        }
    }

    /// Services that run to their end.
    fn jobs(&self) -> BTreeSet<ServiceKey> {
        let of = |name: &DeploymentName, service: &jaco_types::ServiceName| ServiceKey {
            deployment: name.clone(),
            service: service.clone(),
        };
        let deployments = self.state.deployments.values();
        let jobs = deployments.flat_map(|deployment| {
            deployment.spec().jobs().into_iter().map(|name| of(&deployment.name, name))
        });
        jobs.collect()
    }

    /// Whether something was begun that time alone can carry on.
    fn is_in_progress(&self) -> bool {
        let rolling = |record: &jaco_types::Scheduling| {
            // One whose replicas do not all have a node goes on for as long.
            (record.first_watch == FirstWatch::Open && record.unplaced.is_empty())
                || record.rollout.as_ref().is_some_and(|roll| {
                    roll.state == RolloutState::InProgress || roll.rollback_progress.is_some()
                })
        };
        !self.state.terminating.is_empty()
            || self.state.slots.values().any(|slot| slot.retiring.is_some())
            || self.state.scheduling.iter().any(|(key, record)| self.wants(key) && rolling(record))
    }

    /// Lets time pass; nodes with a recent heartbeat continue to send them.
    fn wait_until(&mut self, at: Timestamp) {
        let heard_lately = |heard: Timestamp| self.now.since(heard) < self.config.node_down_after;
        for signal in self.signals.nodes.values_mut() {
            if heard_lately(signal.heard_at) {
                signal.heard_at = at;
            }
        }
        for signal in self.signals.consumers.values_mut() {
            signal.heard_at = at;
        }
        self.now = at;
    }

    /// What is different from before.
    fn moves(&self, before: &ClusterState, end: End) -> Vec<Move> {
        let row = |slot: &Slot, action, from, to| {
            let note = self.notes.get(&slot.id);
            Move {
                replica: slot.id.clone(),
                service: slot.service.clone(),
                action,
                from,
                to,
                cause: note.map_or("", |note| note.cause),
                previous: note.and_then(|note| note.previous),
            }
        };
        let mut moves = Vec::new();
        for slot in self.state.slots.values() {
            let to = Some(slot.current.node);
            match before.slots.get(&slot.id) {
                None => moves.push(row(slot, Action::Create, None, to)),
                Some(old) if old.current.raft_index == slot.current.raft_index => {
                    if end == End::Open && self.is_to_be_replaced(slot) {
                        let later = row(slot, Action::Replace, to, None);
                        let cause = ReplaceCause::SpecChanged.as_str();
                        moves.push(Move { cause, ..later });
                    }
                }
                Some(old) => {
                    let from = Some(old.current.node);
                    let action = match slot.desired_state {
                        DesiredState::Disabled => Action::Stage,
                        DesiredState::Active | DesiredState::Finished(_) if from == to => {
                            Action::Replace
                        }
                        DesiredState::Active | DesiredState::Finished(_) => Action::Move,
                    };
                    moves.push(row(slot, action, from, to));
                }
            }
        }
        let gone = before.slots.values().filter(|slot| !self.state.slots.contains(&slot.id));
        moves.extend(gone.map(|slot| row(slot, Action::Stop, Some(slot.current.node), None)));
        moves.sort_by(|a, b| a.replica.cmp(&b.replica));
        moves
    }

    /// Whether a rollout that is not over, and was not given up, has yet to get to a slot.
    fn is_to_be_replaced(&self, slot: &Slot) -> bool {
        let Some(deployment) = self.state.deployments.get(&slot.service.deployment) else {
            return false;
        };
        let wanted = deployment.spec().services.get(&slot.service.service);
        let is_outdated = wanted.is_some_and(|spec| spec.hash != slot.current.spec_hash);
        let record = self.state.scheduling.get(&slot.service);
        let rollout = record.and_then(|record| record.rollout.as_ref());
        let is_given_up = rollout.is_some_and(|rollout| {
            rollout.target_revision == deployment.revision && rollout.state.has_failed()
        });
        is_outdated && !is_given_up
    }
}
