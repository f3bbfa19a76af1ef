//! The draft that a pass edits. Each edit changes the draft, the room on the nodes and the list of
//! changes at once, so that the three cannot disagree.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use jaco_state::command::{Previous, ReplaceCause};
use jaco_state::{Change, Deployment, NewInstance};
use jaco_types::slot::Exhausted;
use jaco_types::spec::{ServiceSpec, UpdatePolicy};
use jaco_types::{
    ImageDigest, InstanceObserved, Leaving, Millis, NodeId, Ordinal, ReplicaId, ReplicaState,
    RestartCount, Revision, RolloutState, Scheduling, ServiceKey, SpecHash, Standing, StateIndex,
    Timestamp,
};

use crate::company::{Company, InCompany};
use crate::gpu::{Held, grant};
use crate::input::PlanInput;
use crate::leaving::{Consumers, leaves_first};
use crate::node_table::{NodeIx, NodeRow, NodeTable};
use crate::placement::Limit;
use crate::report::Report;
use crate::waiting::Waiting;

/// What a pass works on.
pub(crate) struct Draft<'a> {
    pub(crate) pass: Pass<'a>,
    /// The services that are wanted, in the order of their keys.
    pub(crate) services: Vec<ServiceDraft<'a>>,
    /// Slots of services that nobody wants any more.
    pub(crate) unwanted: Vec<SlotDraft<'a>>,
    /// What the planner keeps about services, wanted or not, in the order of their keys.
    pub(crate) records: Vec<(&'a ServiceKey, &'a Scheduling)>,
}

/// What all services of a pass share.
pub(crate) struct Pass<'a> {
    pub(crate) input: PlanInput<'a>,
    pub(crate) nodes: NodeTable<'a>,
    pub(crate) changes: Vec<Change>,
    pub(crate) report: Report,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) consumers: Consumers<'a>,
}

impl<'a> Pass<'a> {
    /// A pass that has decided nothing yet.
    pub(crate) fn begin(input: PlanInput<'a>, nodes: NodeTable<'a>) -> Self {
        let (changes, report) = (Vec::new(), Report::default());
        let consumers = Consumers::default();
        Self { input, nodes, changes, report, wake_at: None, consumers }
    }

    /// Notes a future moment at which a decision may differ.
    pub(crate) fn wake(&mut self, at: Timestamp) {
        if at > self.input.now {
            self.wake_at = self.wake_at.into_iter().chain([at]).min();
        }
    }
}

/// A wanted service and its slots.
pub(crate) struct ServiceDraft<'a> {
    pub(crate) key: ServiceKey,
    pub(crate) deployment: &'a Deployment,
    pub(crate) goal: Goal<'a>,
    /// The slots in the order of their ids.
    pub(crate) slots: Vec<SlotDraft<'a>>,
    pub(crate) record: Scheduling,
    /// The record as it is in the state.
    pub(crate) known: Option<&'a Scheduling>,
    pub(crate) role: ServiceRole,
    /// What cannot be done now, and why.
    pub(crate) waiting: Vec<Waiting<'a>>,
    /// How many of its slots this pass removed.
    pub(crate) removed: u32,
    /// What this pass settled its image to be, at the revision that people want.
    pub(crate) settled: Option<ImageDigest>,
    /// The services that it goes with, where they were when they were looked for last.
    pub(crate) company: Rc<Company<'a>>,
    /// The nodes on which people want its allocation to rest: no replica goes there to run.
    pub(crate) resting: Rc<BTreeSet<NodeIx>>,
}

/// What every replica of a service should be in the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal<'a> {
    pub(crate) revision: Revision,
    pub(crate) spec: &'a ServiceSpec,
    pub(crate) roll: Roll,
}

/// Which way a service's replicas are being replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roll {
    /// To the revision that people want.
    Forward,
    /// Back to the previous one, after an aborted rollout.
    Back,
    /// Not at all: the rollout was aborted and nothing is left to go back to.
    Frozen,
}

/// Whether a service's containers are meant to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceRole {
    /// They serve; one that ends is started again.
    Server,
    /// Others wait for them to end without an error; that end is not a failure.
    Job,
}

/// A slot as it will be after the pass.
pub(crate) struct SlotDraft<'a> {
    pub(crate) id: ReplicaId,
    pub(crate) ordinal: Ordinal,
    /// One that is disabled has nothing that runs, takes nothing of its node, and retires nothing:
    /// its current instance is what it would run.
    pub(crate) standing: Standing,
    pub(crate) current: Live<'a>,
    /// Boxed, because most slots have none.
    pub(crate) retiring: Option<Box<Live<'a>>>,
    pub(crate) restarts: RestartCount,
    /// Whether an earlier instance of it is still leaving the endpoints: one thing at a time.
    pub(crate) is_leaving: bool,
    /// Whether it has what it cannot do without.
    pub(crate) company: InCompany,
}

/// A live instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live<'a> {
    pub(crate) node: NodeId,
    /// The node's row; none when it is no member any more.
    pub(crate) at: Option<NodeIx>,
    /// The entry that asked for it; none for one that is new in this pass.
    pub(crate) since: Option<StateIndex>,
    pub(crate) revision: Revision,
    pub(crate) hash: SpecHash,
    /// The spec it was made from; none when that revision is no longer kept.
    pub(crate) spec: Option<&'a ServiceSpec>,
    /// What its node saw of it.
    pub(crate) seen: Option<&'a InstanceObserved>,
    /// The GPUs that it has for itself.
    pub(crate) gpus: Held<'a>,
}

/// How a new instance follows the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handover {
    /// Whatever serves now goes on until the new one does.
    StartFirst,
    /// Nothing else of the slot runs beside the new one.
    StopFirst,
    /// The current instance is of no use any more; a retiring one goes on serving.
    Abandon,
}

/// A new instance and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Successor<'a> {
    pub(crate) at: NodeIx,
    pub(crate) revision: Revision,
    pub(crate) spec: &'a ServiceSpec,
    pub(crate) cause: ReplaceCause,
    pub(crate) handover: Handover,
    pub(crate) consecutive_failures: u32,
}

impl<'a> Live<'a> {
    pub(crate) fn state(&self) -> Option<ReplicaState> {
        self.seen.map(|seen| seen.state)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state() == Some(ReplicaState::Running)
    }

    /// Whether it serves, or has done what it was for.
    pub(crate) fn is_up(&self, role: ServiceRole) -> bool {
        self.is_running() || (role == ServiceRole::Job && self.is_done())
    }

    /// Whether it ended without an error.
    pub(crate) fn is_done(&self) -> bool {
        self.seen.is_some_and(|seen| {
            seen.state == ReplicaState::Stopped && seen.exit.is_none_or(|exit| exit.code == 0)
        })
    }

    fn take(&self, nodes: &mut NodeTable<'a>) {
        if let (Some(at), Some(spec)) = (self.at, self.spec) {
            let row = nodes.row_mut(at);
            row.usage.take(spec, self.gpus.ids(row.node));
        }
    }

    /// Gives its room back, unless it leaves the endpoints first and runs on meanwhile; says which.
    fn give_up(&self, pass: &mut Pass<'a>) -> bool {
        let leaves = leaves_first(self, pass);
        if !leaves {
            self.release(&mut pass.nodes);
        }
        leaves
    }

    fn release(&self, nodes: &mut NodeTable<'a>) {
        if let (Some(at), Some(spec)) = (self.at, self.spec) {
            let row = nodes.row_mut(at);
            row.usage.release(spec, self.gpus.ids(row.node));
        }
    }
}

impl<'a> SlotDraft<'a> {
    /// Ends the handover: only the current instance remains.
    pub(crate) fn settle(&mut self, pass: &mut Pass<'a>) {
        if let Some(retiring) = self.retiring.take() {
            self.is_leaving |= retiring.give_up(pass);
            pass.changes.push(Change::SlotSettle { id: self.id.clone() });
        }
    }

    /// Gives the handover up: only the retiring instance remains, and the failures of the other one
    /// are not held against it.
    pub(crate) fn revert(&mut self, pass: &mut Pass<'a>) {
        if let Some(retiring) = self.retiring.take() {
            self.is_leaving |= self.current.give_up(pass);
            move_count(&mut pass.nodes, self.current.at, retiring.at);
            self.current = *retiring;
            pass.changes.push(Change::SlotRevert { id: self.id.clone() });
            self.set_restarts(pass, RestartCount::default());
        }
    }

    /// Puts a new instance in.
    pub(crate) fn succeed(&mut self, pass: &mut Pass<'a>, successor: Successor<'a>) {
        let was_active = self.is_active();
        // What a disabled slot names holds nothing that could be taken over.
        let before = [Some(self.current).filter(|_| was_active), self.retiring.as_deref().copied()];
        let previous = self.part_with_current(pass, successor.handover);
        let gpus = self.take_over(pass, before, previous, successor);
        let next = Live {
            node: pass.nodes.row(successor.at).id,
            at: Some(successor.at),
            since: None,
            revision: successor.revision,
            hash: successor.spec.hash,
            spec: Some(successor.spec),
            seen: None,
            gpus,
        };
        next.take(&mut pass.nodes);
        move_count(&mut pass.nodes, self.current.at.filter(|_| was_active), next.at);
        let old = std::mem::replace(&mut self.current, next);
        self.standing = Standing::Active;
        match previous {
            Previous::Retire => self.retiring = Some(Box::new(old)),
            Previous::Drop if was_active => self.is_leaving |= old.give_up(pass),
            // What a disabled slot names never ran.
            Previous::Drop => {}
        }
        self.company = InCompany::Yes;
        let consecutive = successor.consecutive_failures;
        self.restarts = RestartCount { consecutive, exhausted: Exhausted::No };
        pass.changes.push(Change::SlotReplace {
            id: self.id.clone(),
            instance: next.as_new(&pass.nodes),
            previous,
            cause: successor.cause,
            consecutive_failures: consecutive,
        });
    }

    /// The GPUs of a successor. It may have those of the instances `before` it that are on its node and
    /// end before it begins; where its node does not have enough any more, it is left with what the one
    /// before it had, and the engine says what is wrong with them.
    fn take_over(
        &self,
        pass: &Pass<'a>,
        before: [Option<Live<'a>>; 2],
        previous: Previous,
        successor: Successor<'a>,
    ) -> Held<'a> {
        let Some(demand) = &successor.spec.gpus else { return Held::NONE };
        let row = pass.nodes.row(successor.at);
        let stays = |live: &Live<'a>| match previous {
            Previous::Retire => live.since == self.current.since,
            Previous::Drop => self.retiring.as_ref().is_some_and(|kept| kept.since == live.since),
        };
        let ended = before.into_iter().flatten();
        let ended = ended.filter(|live| live.at == Some(successor.at) && !stays(live));
        let own: Vec<_> = ended.map(|live| live.gpus).collect();
        match grant(row.node, &row.usage, demand, &own) {
            Ok(granted) => Held::Granted(granted),
            Err(_) => own.first().copied().unwrap_or(Held::NONE),
        }
    }

    /// A slot holds two instances at most, so before a third comes, one has to go: the retiring one
    /// where the current one serves already, else the current one.
    fn part_with_current(&mut self, pass: &mut Pass<'a>, handover: Handover) -> Previous {
        match handover {
            Handover::Abandon => Previous::Drop,
            Handover::StopFirst => {
                self.settle(pass);
                Previous::Drop
            }
            Handover::StartFirst => {
                if self.retiring.is_some() && !self.current.is_running() {
                    return Previous::Drop;
                }
                self.settle(pass);
                let is_over = self.current.state().is_some_and(ReplicaState::is_over);
                if is_over { Previous::Drop } else { Previous::Retire }
            }
        }
    }

    /// Sets the failures in a row.
    pub(crate) fn set_restarts(&mut self, pass: &mut Pass<'a>, restarts: RestartCount) {
        if self.restarts == restarts {
            return;
        }
        self.restarts = restarts;
        let RestartCount { consecutive, exhausted } = restarts;
        pass.changes.push(Change::SlotSetRestarts { id: self.id.clone(), consecutive, exhausted });
    }

    /// Lets nothing of it run any more; it keeps what it would run, and where.
    pub(crate) fn disable(&mut self, pass: &mut Pass<'a>) {
        self.count_out(pass);
        self.standing = Standing::Disabled;
        self.retiring = None;
        self.restarts = RestartCount::default();
        self.current = Live { since: None, seen: None, gpus: Held::NONE, ..self.current };
        let instance = self.current.as_new(&pass.nodes);
        pass.changes.push(Change::SlotDisable { id: self.id.clone(), instance });
    }

    /// What it would run from now on; for one that is disabled.
    pub(crate) fn redefine(&mut self, pass: &mut Pass<'a>, current: Live<'a>) {
        self.current = Live { since: None, seen: None, gpus: Held::NONE, ..current };
        let instance = self.current.as_new(&pass.nodes);
        pass.changes.push(Change::SlotDisable { id: self.id.clone(), instance });
    }

    /// Whether it runs something, or is to.
    pub(crate) fn is_active(&self) -> bool {
        self.standing == Standing::Active
    }

    /// Counts the slot out of its nodes, and proposes that it goes.
    pub(crate) fn remove(&mut self, pass: &mut Pass<'a>) {
        self.count_out(pass);
        pass.changes.push(Change::SlotRemove { id: self.id.clone() });
    }

    fn count_out(&mut self, pass: &mut Pass<'a>) {
        if !self.is_active() {
            return;
        }
        let mut leaves = false;
        for live in self.live() {
            leaves |= live.give_up(pass);
        }
        self.is_leaving |= leaves;
        move_count(&mut pass.nodes, self.current.at, None);
    }

    /// Counts the slot in on its nodes.
    pub(crate) fn count_in(&self, nodes: &mut NodeTable<'a>) {
        if !self.is_active() {
            return;
        }
        for live in self.live() {
            live.take(nodes);
        }
        move_count(nodes, None, self.current.at);
    }

    /// Takes what it has of a node out of what is taken there.
    pub(crate) fn leave(&self, at: NodeIx, row: &mut NodeRow<'_>) {
        if !self.is_active() {
            return;
        }
        for live in self.live().filter(|live| live.at == Some(at)) {
            if let Some(spec) = live.spec {
                row.usage.release(spec, live.gpus.ids(row.node));
            }
        }
        row.usage.replicas -= u32::from(self.current.at == Some(at));
    }

    /// Its live instances, the current one first.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Live<'a>> {
        std::iter::once(&self.current).chain(self.retiring.as_deref())
    }

    pub(crate) fn is_outdated(&self, goal: &Goal<'_>) -> bool {
        self.current.hash != goal.spec.hash || self.current.spec.is_none()
    }

    /// Whether some instance of it is up.
    pub(crate) fn serves(&self, role: ServiceRole) -> bool {
        self.current.is_up(role)
            || self.retiring.as_ref().is_some_and(|retiring| retiring.is_running())
    }
}

impl Live<'_> {
    fn as_new(&self, nodes: &NodeTable<'_>) -> NewInstance {
        let node = self.at.map(|at| nodes.row(at).node);
        let gpus = node.map(|node| self.gpus.ids(node).map(Arc::clone).collect());
        NewInstance {
            node: self.node,
            revision: self.revision,
            spec_hash: self.hash,
            gpus: gpus.unwrap_or_default(),
        }
    }
}

fn move_count(nodes: &mut NodeTable<'_>, from: Option<NodeIx>, to: Option<NodeIx>) {
    if let Some(from) = from {
        nodes.row_mut(from).usage.replicas -= 1;
    }
    if let Some(to) = to {
        nodes.row_mut(to).usage.replicas += 1;
    }
}

impl<'a> ServiceDraft<'a> {
    /// The spec of this service at a revision, if that is kept.
    pub(crate) fn spec_at(&self, revision: Revision) -> Option<&'a ServiceSpec> {
        let deployment: &'a Deployment = self.deployment;
        let record = deployment.revisions.get(&revision)?;
        record.spec.services.get(&self.key.service).map(|spec| &**spec)
    }

    /// Gives the step that is under way its full time from now: a successor was placed, for the
    /// first time or again because its node was lost.
    pub(crate) fn begin_step(&mut self, pass: &mut Pass<'_>) {
        let target = self.deployment.revision;
        let Some(rollout) = &mut self.record.rollout else { return };
        if rollout.target_revision == target && rollout.state == RolloutState::InProgress {
            rollout.last_step_at = pass.input.now;
            pass.wake(rollout.last_step_at.after(self.goal.spec.update.step_timeout));
        } else if self.goal.roll == Roll::Back {
            rollout.last_step_at = pass.input.now;
        }
    }

    /// What shows that its instances are good.
    pub(crate) fn proof(&self) -> Proof {
        let wanted = self.spec_at(self.deployment.revision);
        let monitor_back = match self.goal.roll {
            Roll::Back => wanted.and_then(|spec| spec.update.back.monitor),
            Roll::Forward | Roll::Frozen => None,
        };
        Proof { role: self.role, monitor_back }
    }

    /// How many replicas each node has, where it may not have any number of them.
    pub(crate) fn limit(&self, nodes: &NodeTable<'_>) -> Option<Limit> {
        let on_nodes: Vec<_> = self.slots.iter().filter_map(|slot| slot.current.at).collect();
        let max = nodes.demands.max_per_node(&self.goal.spec.scheduling);
        let paired = self.company.partner().map(|_| &*self.company);
        Limit::new(nodes, max, paired, &on_nodes)
    }

    /// Adds a slot with its first instance on this node; one that rests where people want that.
    pub(crate) fn create(&mut self, pass: &mut Pass<'a>, ordinal: Ordinal, at: NodeIx) {
        let id = ReplicaId::new(&self.key, &ordinal);
        let standing = self.standing_of_new(pass, at);
        let row = pass.nodes.row(at);
        let granted = self.goal.spec.gpus.as_ref().filter(|_| standing == Standing::Active);
        let granted = granted.and_then(|demand| grant(row.node, &row.usage, demand, &[]).ok());
        let current = Live {
            node: row.id,
            at: Some(at),
            since: None,
            revision: self.goal.revision,
            hash: self.goal.spec.hash,
            spec: Some(self.goal.spec),
            seen: None,
            gpus: granted.map_or(Held::NONE, Held::Granted),
        };
        if standing == Standing::Active {
            current.take(&mut pass.nodes);
            move_count(&mut pass.nodes, None, Some(at));
        }
        pass.changes.push(Change::SlotCreate {
            id: id.clone(),
            service: self.key.clone(),
            ordinal: ordinal.clone(),
            instance: current.as_new(&pass.nodes),
            standing,
        });
        let restarts = RestartCount::default();
        self.slots.push(SlotDraft {
            id,
            ordinal,
            standing,
            current,
            retiring: None,
            restarts,
            is_leaving: false,
            company: InCompany::Yes,
        });
    }
}

/// What shows that an instance of a service is good.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proof {
    role: ServiceRole,
    /// What the way back of a rollout asks instead of what the instance's own spec does.
    monitor_back: Option<Millis>,
}

/// Whether the current instance of a slot is up, and has been for as long as its `monitor` asks. Where
/// that says nothing, one that comes after a failure must stay up for a while nevertheless: each run of
/// a container that ends soon would be a proof otherwise.
pub(crate) fn is_proven(slot: &SlotDraft<'_>, proof: Proof, pass: &mut Pass<'_>) -> bool {
    let live = &slot.current;
    let (Some(spec), Some(seen)) = (live.spec, live.seen) else { return live.is_up(proof.role) };
    if !live.is_running() {
        return live.is_up(proof.role);
    }
    let steady = match proof.monitor_back.or(spec.update.monitor) {
        Some(monitor) => monitor,
        None if slot.restarts.consecutive > 0 => UpdatePolicy::WATCH,
        None => Millis(0),
    };
    let proven_at = seen.since.after(steady);
    if steady.0 > 0 && pass.input.now < proven_at {
        pass.wake(proven_at);
        return false;
    }
    true
}

/// Until when a failure of a slot that is proven is still a failure of its step; none where its
/// `monitor` was waited for already, and where the clock of its node is far ahead.
pub(crate) fn watched_until(slot: &SlotDraft<'_>, pass: &Pass<'_>) -> Option<Timestamp> {
    let is_watched = slot.current.spec.is_some_and(|spec| spec.update.monitor.is_none());
    let seen = slot.current.seen.filter(|_| is_watched && slot.current.is_running())?;
    let latest = pass.input.now.after(UpdatePolicy::WATCH).after(UpdatePolicy::WATCH);
    Some(seen.since.after(UpdatePolicy::WATCH)).filter(|until| *until <= latest)
}

impl<'a> Draft<'a> {
    /// Counts in what has left the endpoints and runs on.
    pub(crate) fn note_leaving(&mut self, leaving: &Leaving) {
        let spec = self.pass.input.state.service_spec(&leaving.service, leaving.revision);
        let spec = spec.filter(|spec| spec.hash == leaving.spec_hash);
        if let (Some(spec), Some(at)) = (spec, self.pass.nodes.find(leaving.node)) {
            self.pass.nodes.row_mut(at).usage.take(spec, &leaving.gpus);
        }
        let service = self.services.binary_search_by(|known| known.key.cmp(&leaving.service));
        let Ok(service) = service else { return };
        let slots = &mut self.services[service].slots;
        if let Ok(at) = slots.binary_search_by(|slot| slot.id.cmp(&leaving.id.replica)) {
            slots[at].is_leaving = true;
        }
    }

    /// Removes the slots of services that nobody wants any more.
    pub(crate) fn remove_unwanted(&mut self) {
        for mut slot in std::mem::take(&mut self.unwanted) {
            slot.remove(&mut self.pass);
        }
    }
}
