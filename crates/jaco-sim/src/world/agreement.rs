//! Consensus: who leads, which entries are committed, and how they reach all members.

use std::collections::BTreeSet;

use jaco_scheduler::input::EngineSignal;
use jaco_state::command::Batch;
use jaco_state::command::SpecChange;
use jaco_state::{Command, Outcome};
use jaco_store::ProposeError;
use jaco_types::{Identity, Millis, NodeId, Revision, StateIndex, Timestamp};

use super::rebalance::REBALANCE_EVERY;
use super::{Election, Happening, NodeSignalSent, World};
use crate::consensus::{Moment, Origin, Proposal};
use crate::daemon::{Daemon, View};
use crate::leader::{LeaderLoop, Written};
use crate::network::MachineIx;
use crate::sabotage::Sabotage;

/// How long voters miss their leader before one of them stands for election.
const ELECTION: (u64, u64) = (300, 900);
/// How long a leader misses its voters before it stops leading.
const LEASE: Millis = Millis(600);
/// How long the leader's disk takes.
const FLUSH: (u64, u64) = (1, 4);
/// How long a broken connection seems alive.
const BROKEN: Millis = Millis(500);

impl World {
    /// The machines that this one is connected with, itself included, that are up and can write what it sends them.
    fn peers_of(&self, ix: MachineIx) -> BTreeSet<MachineIx> {
        let is_up =
            |peer: &MachineIx| self.machine(*peer).daemon.is_some() && self.can_write(*peer);
        let connected = |peer: &MachineIx| self.network.is_connected(ix, *peer);
        self.all().filter(is_up).filter(connected).collect()
    }

    fn can_lead(&self, ix: MachineIx) -> bool {
        self.machine(ix).daemon.is_some() && self.consensus.is_majority(&self.peers_of(ix))
    }

    /// The machine that leads and has a quorum.
    pub(crate) fn leader(&self) -> Option<MachineIx> {
        let leader = self.consensus.leader?;
        let leads = self.machine(leader).daemon.as_ref()?.leading.is_some();
        (leads && self.can_lead(leader)).then_some(leader)
    }

    /// The leader to which a machine would forward a write.
    pub(crate) fn leader_seen_by(&self, ix: MachineIx) -> Option<MachineIx> {
        let leads = |ix: MachineIx| {
            self.machine(ix).daemon.as_ref().is_some_and(|daemon| daemon.leading.is_some())
        };
        if leads(ix) {
            return Some(ix);
        }
        let leader = self.consensus.leader.filter(|_| self.consensus.is_member(ix))?;
        (leads(leader) && self.network.is_connected(ix, leader)).then_some(leader)
    }

    /// Machines or links came or went.
    pub(super) fn topology_changed(&mut self) {
        match self.leader() {
            Some(leader) => {
                self.plan_in(Millis(0), Happening::Agree { term: self.consensus.term });
                self.bring_up_to_date(leader);
            }
            None => self.miss_leader(),
        }
    }

    fn miss_leader(&mut self) {
        if let Some(machine) = self.consensus.leader {
            let term = self.consensus.term;
            self.plan_in(LEASE, Happening::StepDown { machine, term });
        }
        if self.election == Election::None {
            self.election = Election::Coming;
            let after = Millis(self.network.rng().between(ELECTION.0, ELECTION.1));
            self.plan_in(after, Happening::Election);
        }
    }

    pub(super) fn is_candidate(&self, ix: MachineIx) -> bool {
        self.consensus.is_voter(ix) && self.consensus.is_complete(ix) && self.can_lead(ix)
    }

    pub(super) fn hold_election(&mut self) {
        self.election = Election::None;
        if self.leader().is_some() {
            return;
        }
        let candidates: Vec<MachineIx> = self.all().filter(|ix| self.is_candidate(*ix)).collect();
        if candidates.is_empty() {
            // No candidate has a quorum now; a member that comes back tries again.
            return;
        }
        let winner = *self.network.rng().pick(&candidates);
        self.win(winner);
    }

    pub(super) fn win(&mut self, winner: MachineIx) {
        let uncommitted = self.consensus.uncommitted();
        let luck = self.network.rng().place(uncommitted + 1);
        let (before, old) = (self.consensus.last(), self.consensus.leader);
        let in_doubt = self.consensus.elect(winner, luck, &BTreeSet::from([winner]));
        for origin in in_doubt {
            let result = Err(ProposeError::Unknown);
            self.plan_in(BROKEN, Happening::Answer { from: winner, origin, result });
        }
        if let Some(old) = old.filter(|old| self.network.is_connected(winner, *old)) {
            self.stop_leading(old);
        }
        self.note_commits(before);
        self.catch_up(winner, self.consensus.last());
        let (term, now) = (self.consensus.term, self.now);
        let machine = &mut self.machines[winner.0];
        let clock = machine.cluster_time(now);
        if let Some(daemon) = &mut machine.daemon {
            daemon.leading = Some(LeaderLoop::new(term, clock));
            if !daemon.knows_time.replace(true) {
                self.checker.time_begins_anew();
            }
        }
        self.plan_in(REBALANCE_EVERY, Happening::Rebalance { machine: winner, term });
        self.plan_in(Millis(0), Happening::LookAtJobs { machine: winner, term });
        self.bring_up_to_date(winner);
    }

    /// A leader that has lost its voters notices.
    pub(super) fn step_down(&mut self, ix: MachineIx, term: u64) {
        let has_old_term = |daemon: &crate::daemon::Daemon| {
            daemon.leading.as_ref().is_some_and(|leading| leading.term == term)
        };
        if !self.machine(ix).daemon.as_ref().is_some_and(has_old_term) {
            return;
        }
        if self.consensus.term != term || !self.can_lead(ix) {
            self.stop_leading(ix);
        }
    }

    fn stop_leading(&mut self, ix: MachineIx) {
        if let Some(daemon) = &mut self.machines[ix.0].daemon {
            daemon.leading = None;
        }
    }

    /// Sends a proposal to the presumed leader of this machine.
    pub(super) fn propose(&mut self, from: MachineIx, proposal: Proposal) {
        let leader = self.leader_seen_by(from);
        let term = leader.and_then(|leader| {
            self.machine(leader).daemon.as_ref()?.leading.as_ref().map(|leading| leading.term)
        });
        match (leader, term) {
            (Some(to), Some(term)) => {
                let proposal = Box::new(proposal);
                self.send(from, to, Happening::Arrive { to, term, proposal });
            }
            _ => {
                let result = Err(ProposeError::NoLeader);
                let origin = proposal.origin;
                self.plan_in(Millis(0), Happening::Answer { from, origin, result });
            }
        }
    }

    pub(super) fn arrive(&mut self, to: MachineIx, term: u64, proposal: Proposal) {
        let machine = self.machine(to);
        let leads = machine.daemon.as_ref().is_some_and(|daemon| {
            daemon.leading.as_ref().is_some_and(|leading| leading.term == term)
        });
        if !leads || self.consensus.term != term {
            // A deposed leader that does not know it yet appends entries that will never be committed.
            let result = Err(ProposeError::Unknown);
            let origin = proposal.origin;
            self.plan_in(BROKEN, Happening::Answer { from: to, origin, result });
            return;
        }
        let Some(proposal) = self.sabotage_proposal(to, proposal) else { return };
        if !self.can_write(to) {
            let (result, origin) = (Err(ProposeError::Unknown), proposal.origin);
            self.plan_in(BROKEN, Happening::Answer { from: to, origin, result });
            return self.end_where_full([to]);
        }
        let at = self.machine(to).cluster_time(self.now);
        let reached = self.peers_of(to);
        let takes = Millis(self.network.rng().between(FLUSH.0, FLUSH.1) + self.network.latency().0);
        let moment = Moment { at, truly: self.now };
        self.consensus.append(proposal, moment, self.now.after(takes), reached);
        self.plan_in(takes, Happening::Agree { term });
    }

    pub(super) fn agree(&mut self, term: u64) {
        let Some(leader) = self.leader().filter(|_| self.consensus.term == term) else { return };
        if self.consensus.uncommitted() > 0 {
            let connected = |peer: &MachineIx| self.network.is_connected(leader, *peer);
            let receivers: Vec<MachineIx> = self.all().filter(connected).collect();
            self.end_where_full(receivers);
        }
        let before = self.consensus.last();
        let with = self.peers_of(leader);
        let voters: BTreeSet<MachineIx> =
            with.iter().copied().filter(|ix| self.consensus.is_voter(*ix)).collect();
        let agreed = self.consensus.agree(self.now, &voters);
        if agreed.is_empty() {
            return;
        }
        self.note_commits(before);
        for (origin, index) in agreed {
            if let Origin::Planner { machine, .. }
            | Origin::Rebalancer { machine }
            | Origin::Jobs { machine } = origin
            {
                self.checker.plan_written(machine, leader, index);
            }
            let outcome = self.catch_up(leader, index);
            let result = outcome.ok_or(ProposeError::Unknown);
            let latency = self.network.latency();
            self.plan_in(latency, Happening::Answer { from: leader, origin, result });
        }
        self.bring_up_to_date(leader);
    }

    /// [`Sabotage::DeposedPlans`] and [`Sabotage::LoseWrites`]; nothing where it is lost.
    fn sabotage_proposal(&mut self, to: MachineIx, mut proposal: Proposal) -> Option<Proposal> {
        if self.sabotage == Some(Sabotage::DeposedPlans)
            && let Origin::Planner { machine, .. } = &mut proposal.origin
        {
            machine.0 += 1;
        }
        if self.sabotage == Some(Sabotage::LoseWrites)
            && matches!(proposal.command, Command::DeploymentApply(_))
        {
            let result =
                Ok(Outcome::Deployed { revision: Revision(1), change: SpecChange::Created });
            self.plan_in(BROKEN, Happening::Answer { from: to, origin: proposal.origin, result });
            return None;
        }
        Some(proposal)
    }

    fn note_commits(&mut self, before: StateIndex) {
        let entries = self.consensus.entries(before, self.consensus.last());
        for entry in entries.cloned().collect::<Vec<_>>() {
            self.last_commit_at = self.now;
            self.checker.committed(&entry, self.consensus.appended_at(entry.index), self.now);
            self.note_removal(&entry);
        }
    }

    /// Sends every machine that lags behind what it lacks.
    fn bring_up_to_date(&mut self, leader: MachineIx) {
        let upto = self.consensus.last();
        for to in self.all().filter(|to| *to != leader) {
            let lags = self
                .machine(to)
                .daemon
                .as_ref()
                .is_some_and(|daemon| daemon.applied < upto || daemon.view == View::Old);
            if lags && self.consensus.is_member(to) {
                self.send(leader, to, Happening::Deliver { from: leader, to, upto });
            }
        }
    }

    pub(super) fn deliver(&mut self, from: MachineIx, to: MachineIx, upto: StateIndex) {
        if self.network.is_open(from, to) && self.machine(to).daemon.is_some() {
            if self.consensus.stored(to) < upto && !self.can_write(to) {
                return self.end_where_full([to]);
            }
            self.consensus.store(to, upto);
            if self.consensus.leader != Some(to) {
                // A member that hears of a newer leader follows it.
                self.stop_leading(to);
            }
            self.catch_up(to, upto);
        }
    }

    /// Executes the log up to there. The outcome is the last entry's.
    pub(super) fn catch_up(&mut self, ix: MachineIx, upto: StateIndex) -> Option<Outcome> {
        let machine = &mut self.machines[ix.0];
        let clock = machine.cluster_time(self.now);
        let daemon = machine.daemon.as_mut()?;
        let mut outcome = None;
        let skips = self.sabotage == Some(Sabotage::SkipReports) && ix != MachineIx(0);
        for entry in self.consensus.entries(daemon.applied, upto) {
            outcome = Some(match skips && matches!(entry.command, Command::Observe(_)) {
                true => daemon.skip(entry),
                false => daemon.apply(entry),
            });
            if let Some(sabotage) = self.sabotage {
                sabotage.state(&mut daemon.state);
            }
            self.checker.applied(&machine.hostname, &mut daemon.state);
        }
        daemon.applied = daemon.applied.max(upto);
        if let Some(leading) = daemon.leading.as_mut().filter(|_| outcome.is_some()) {
            leading.note_state(clock);
        }
        if daemon.view == View::Old {
            self.agent_begins(ix);
        } else if let Some(event) = daemon.desired() {
            self.warn_of_outdated(ix);
            self.tell_agent(ix, event);
        }
        for news in [Daemon::prepare, Daemon::logins_changed] {
            if let Some(event) = self.machines[ix.0].daemon.as_mut().and_then(news) {
                self.tell_agent(ix, event);
            }
        }
        self.look_at_router(ix);
        outcome
    }

    /// A leader receives a heartbeat, and answers it.
    pub(super) fn signal(&mut self, to: MachineIx, sent_at: Timestamp, status: NodeSignalSent) {
        let NodeSignalSent { node, engine, images, load_percent } = status;
        self.acknowledge(to, node, &engine, sent_at);
        let machine = &mut self.machines[to.0];
        let clock = machine.cluster_time(self.now);
        if let Some(leading) = machine.daemon.as_mut().and_then(|daemon| daemon.leading.as_mut()) {
            leading.hear_of_load(node, load_percent, clock);
            leading.hear_of_images(node, images, clock);
            leading.hear(node, engine, clock);
        }
    }

    /// Answers a heartbeat, unless the answer is lost or the leader has had no quorum for a lease: then it
    /// leads no more.
    fn acknowledge(
        &mut self,
        from: MachineIx,
        node: NodeId,
        engine: &EngineSignal,
        sent_at: Timestamp,
    ) {
        let leads = self.machine(from).daemon.as_ref().is_some_and(|it| it.leading.is_some());
        let Some(to) = self.machine_of(node).filter(|to| leads && self.network.is_open(from, *to))
        else {
            return;
        };
        let committed = self.consensus.last();
        let time = self.machine(from).cluster_time(self.now);
        self.machine(to).follow(self.now, time);
        let machine = &mut self.machines[to.0];
        machine.contact_at = machine.contact_at.max(sent_at);
        machine.committed_at_contact = committed;
        let acts = machine.daemon.as_ref().is_some_and(|daemon| daemon.view == View::Current);
        // The reported state of the engine may be some seconds old.
        let answers = machine.driver.host.answer().is_ok();
        if acts && answers && *engine == EngineSignal::Up {
            self.checker.attended(to);
        }
    }

    /// A pass of the planner on this machine.
    pub(super) fn pass(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        let clock = machine.cluster_time(self.now);
        let Some(daemon) = &mut machine.daemon else { return };
        let life = daemon.life;
        let Some(leading) = &mut daemon.leading else { return };
        let mut plan = leading.pass(&daemon.state, clock, Millis(self.now.0));
        if let Some(sabotage) = self.sabotage {
            plan = sabotage.plan(plan, &daemon.state);
        }
        if plan.changes.is_empty() {
            return;
        }
        let command = Batch::new(plan.based_on, plan.changes).into();
        let origin = Origin::Planner { machine: ix, life };
        self.propose(ix, Proposal { origin, by: Identity::Scheduler, request: None, command });
    }

    /// The outcome of a proposal reaches its proposer. Over a broken connection it stays unknown.
    pub(super) fn answer(
        &mut self,
        from: MachineIx,
        origin: Origin,
        result: Result<Outcome, ProposeError>,
    ) {
        let to = origin.machine();
        let result =
            if self.network.is_open(from, to) { result } else { Err(ProposeError::Unknown) };
        match origin {
            Origin::Planner { machine, life } => self.answer_planner(machine, life, &result),
            Origin::Reporter { machine, life } => self.answer_reporter(machine, life, &result),
            Origin::Consumer { machine, life } => self.answer_consumer(machine, life),
            // What is refused is not tried again; the next cycle sees what came in between.
            Origin::Rebalancer { .. } | Origin::Jobs { .. } => {}
            Origin::Client { request, .. } => self.answer_client(request, result),
        }
    }

    fn answer_planner(&mut self, ix: MachineIx, life: u64, result: &Result<Outcome, ProposeError>) {
        if !self.is_alive(ix, life) {
            return;
        }
        let written = match result {
            Ok(Outcome::Rejected(_)) | Err(_) => Written::No,
            Ok(_) => Written::Yes,
        };
        let machine = &mut self.machines[ix.0];
        let clock = machine.cluster_time(self.now);
        if let Some(leading) = machine.daemon.as_mut().and_then(|daemon| daemon.leading.as_mut()) {
            leading.answer(written, clock);
        }
    }

    fn answer_reporter(
        &mut self,
        ix: MachineIx,
        life: u64,
        result: &Result<Outcome, ProposeError>,
    ) {
        if !self.is_alive(ix, life) {
            return;
        }
        let Some(daemon) = &mut self.machines[ix.0].daemon else { return };
        let again = match result {
            Ok(_) => daemon.outbox.written(),
            Err(_) => daemon.outbox.failed(),
        };
        if let Some(after) = again {
            self.plan_in(after, Happening::Report { machine: ix, life });
        }
    }
}
