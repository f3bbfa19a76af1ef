//! The nodes: daemons start and die, agents receive events and act on their engines.

use jaco_agent::engine::{ContainerId, EngineEvent, ObservedContainer};
use jaco_agent::{CONTACT_LAPSE, Effect, Event, StateAge};
use jaco_state::view::Role;
use jaco_store::cluster_time::difference;
use jaco_types::{Hostname, Identity, InstanceId, Millis, NodeId, StateIndex};

use super::{AGENT_TICK, HEARTBEAT, Happening, NodeSignalSent, World};
use crate::consensus::{Origin, Proposal};
use crate::daemon::{Daemon, View};
use crate::invariants::{AgentEffect, Process, Started};
use crate::machine::{Disk, Machine, Membership};
use crate::network::MachineIx;
use crate::sabotage::Sabotage;

impl World {
    /// A new machine with a running daemon.
    pub(super) fn add_machine(&mut self, hostname: Hostname, node: NodeId) -> MachineIx {
        let ix = MachineIx(self.machines.len());
        self.machines.push(Machine::new(hostname, node));
        self.script_machine(ix);
        self.consensus.add_member(ix);
        self.boot(ix);
        ix
    }

    /// Starts the daemon. It has what was stored of the log, and waits for a leader before it acts.
    pub(super) fn boot(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        if machine.daemon.is_some()
            || machine.membership == Membership::Dismissed
            || machine.disk == Disk::Full
        {
            return;
        }
        machine.lives += 1;
        // Events of the engine while no daemon ran are lost.
        let _missed = machine.driver.poll(self.now);
        let life = machine.lives;
        let mut daemon = Daemon::new(machine.owner(), life);
        let stored = self.consensus.stored(ix);
        for entry in self.consensus.entries(daemon.applied, stored) {
            daemon.apply(entry);
            self.checker.applied(&self.machines[ix.0].hostname, &mut daemon.state);
        }
        daemon.applied = stored;
        self.machines[ix.0].daemon = Some(daemon);
        self.plan_in(Millis(0), Happening::Heartbeat { machine: ix, life });
        self.plan_in(AGENT_TICK, Happening::Tick { machine: ix, life });
        self.topology_changed();
    }

    /// The daemon dies. Its containers go on.
    pub(super) fn crash(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        machine.daemon = None;
        machine.driver.drop_jobs();
        machine.router.daemon_died();
        self.checker.unattended(ix);
        self.topology_changed();
    }

    /// The agent begins to act: its state is current.
    pub(super) fn agent_begins(&mut self, ix: MachineIx) {
        let now = self.now;
        let machine = &mut self.machines[ix.0];
        let foreign = machine.foreign(now);
        let Some(daemon) = machine.daemon.as_mut().filter(|daemon| daemon.view == View::Old) else {
            return;
        };
        let first = daemon.first_desired();
        // Its leader has no heartbeat of it yet, and may be about to replace its replicas elsewhere: only an
        // answer to a heartbeat shows that the leader counts on this machine again.
        self.machines[ix.0].contact_at = now;
        self.tell_agent(ix, first);
        self.tell_agent(ix, Event::EventsLost);
        for seen in foreign {
            self.tell_agent(ix, Event::Engine(EngineEvent::Changed(seen)));
        }
        if self.sabotage == Some(Sabotage::RecreateOnStart) {
            self.remove_all(ix);
        }
    }

    fn remove_all(&mut self, ix: MachineIx) {
        for seen in self.machines[ix.0].driver.host.list(self.now) {
            let ObservedContainer { instance, container, .. } = seen;
            self.carry_out(ix, Effect::Remove { instance, container });
        }
    }

    /// Hands the agent an event, and carries out its effects.
    pub(super) fn tell_agent(&mut self, ix: MachineIx, event: Event) {
        let event = self.forget_retiring(self.mix_in_foreign(ix, event));
        let machine = &mut self.machines[ix.0];
        let (clock, cluster) = (machine.own_time(self.now), machine.cluster_time(self.now));
        let Some(daemon) = machine.daemon.as_mut().filter(|daemon| daemon.view == View::Current)
        else {
            return;
        };
        daemon.core.note_cluster_time(difference(cluster, clock));
        if let Event::Started { instance, result: Ok(seen) } = &event {
            let by = Process { machine: ix, life: daemon.life };
            let (container, state) = (&seen.container, &daemon.state);
            self.checker.started(&Started { instance, container, by, state });
            if self.sabotage == Some(Sabotage::StartTwice) {
                let container = &ContainerId(format!("{container}-again").into());
                self.checker.started(&Started { instance, container, by, state });
            }
            if self.sabotage == Some(Sabotage::StartBeside) {
                let raft_index = StateIndex(instance.raft_index.0 + 1);
                let instance = &InstanceId { raft_index, ..instance.clone() };
                let container = &ContainerId(format!("{container}-next").into());
                self.checker.started(&Started { instance, container, by, state });
            }
        }
        daemon.note_engine(&event);
        let effects = daemon.core.handle(event, clock);
        let images = daemon.core.prepulls();
        let is_news = daemon.images != images;
        daemon.images = images;
        for effect in effects {
            self.carry_out(ix, effect);
        }
        if is_news {
            // A rollout waits for this, so it does not wait for the next heartbeat.
            self.send_heartbeat(ix);
        }
    }

    fn carry_out(&mut self, ix: MachineIx, effect: Effect) {
        let effect = self.follow_names(ix, effect);
        let machine = &mut self.machines[ix.0];
        if let Some(daemon) = &machine.daemon {
            // An agent that has contact again acts on its state until it receives a newer one.
            let (state, silence) = (&daemon.state, daemon.silence);
            let (node, membership) = (machine.node, machine.membership);
            let asked = AgentEffect { effect: &effect, state, node, membership, silence };
            self.checker.effect(&asked, self.now);
        }
        if let Effect::Report { observed, gone, joined } = effect {
            let Some(daemon) = &mut machine.daemon else { return };
            let life = daemon.life;
            if let Some(after) = daemon.outbox.take(observed, gone, joined) {
                self.plan_in(after, Happening::Report { machine: ix, life });
            }
        } else if self.sabotage != Some(Sabotage::NeverStop)
            || !matches!(effect, Effect::Stop { .. } | Effect::Remove { .. })
        {
            self.ask_engine(ix, effect);
        }
    }

    /// [`Sabotage::EndPredecessors`].
    fn forget_retiring(&self, mut event: Event) -> Event {
        if self.sabotage == Some(Sabotage::EndPredecessors)
            && let Event::Desired { desired, .. } = &mut event
        {
            desired.retain(|_, wanted| wanted.role != Role::Retiring);
        }
        event
    }

    /// [`Sabotage::FollowNames`].
    fn follow_names(&self, ix: MachineIx, mut effect: Effect) -> Effect {
        if self.sabotage == Some(Sabotage::FollowNames)
            && let Effect::Start(request) = &mut effect
        {
            request.image = self.machine(ix).driver.host.name_of(&request.image).into();
        }
        effect
    }

    /// An engine that others use too lists everything; the agent has to recognise its own containers.
    fn mix_in_foreign(&self, ix: MachineIx, event: Event) -> Event {
        let Event::Listed(Ok(listed)) = event else { return event };
        let machine = self.machine(ix);
        let own = machine.owner();
        let mut foreign = machine.foreign(self.now);
        if self.sabotage == Some(Sabotage::IgnoreOwner) {
            foreign.iter_mut().for_each(|seen| seen.owner = own.clone());
        }
        Event::Listed(Ok(foreign.into_iter().chain(listed).collect()))
    }

    /// What happened on a machine's engine reaches its agent, if there is one.
    pub(super) fn poll_engine(&mut self, ix: MachineIx) {
        let events = self.machines[ix.0].driver.poll(self.now);
        if !events.iter().all(|event| matches!(event, Event::Listed(_))) {
            self.look_at(ix);
        }
        for event in events {
            if matches!(event, Event::Joined { .. }) {
                let addresses = self.machines[ix.0].driver.host.addresses(self.now);
                self.checker.attached(addresses);
            }
            self.tell_agent(ix, event);
        }
    }

    /// Lets the checker see a machine's containers as they are.
    pub(super) fn look_at(&mut self, ix: MachineIx) {
        let mut containers = self.machines[ix.0].driver.host.list(self.now);
        if self.sabotage == Some(Sabotage::TripleContainers) {
            let copy = |seen: &ObservedContainer, number: u32| ObservedContainer {
                container: ContainerId(format!("{}-{number}", seen.container).into()),
                ..seen.clone()
            };
            let three = |seen: &ObservedContainer| [1, 2, 3].map(|number| copy(seen, number));
            containers = containers.iter().flat_map(three).collect();
        }
        self.checker.containers(ix, containers, self.now);
    }

    pub(super) fn tick(&mut self, ix: MachineIx, life: u64) {
        if !self.is_alive(ix, life) {
            return;
        }
        self.tell_agent(ix, Event::Tick);
        self.end_if_removed(ix);
        self.plan_in(AGENT_TICK, Happening::Tick { machine: ix, life });
    }

    pub(super) fn heartbeat(&mut self, ix: MachineIx, life: u64) {
        if !self.is_alive(ix, life) {
            return;
        }
        self.look_at_clocks(ix);
        self.send_heartbeat(ix);
        self.report_contact(ix);
        self.learn_of_removal(ix);
        self.plan_in(HEARTBEAT, Happening::Heartbeat { machine: ix, life });
    }

    fn look_at_clocks(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        let clock = machine.cluster_time(self.now);
        if let Some(leading) = machine.daemon.as_mut().and_then(|daemon| daemon.leading.as_mut()) {
            leading.look(clock, Millis(self.now.0));
        }
    }

    /// Sends the leader the state of this node.
    fn send_heartbeat(&mut self, ix: MachineIx) {
        let machine = self.machine(ix);
        let Some(daemon) = &machine.daemon else { return };
        if let (Some(engine), Some(to)) = (self.engine_signal(ix), self.leader_seen_by(ix)) {
            let images = daemon.images.clone();
            let (node, load_percent) = (machine.node, machine.load_percent);
            let status = Box::new(NodeSignalSent { node, engine, images, load_percent });
            self.send(ix, to, Happening::Signal { to, sent_at: self.now, status });
        }
    }

    /// Tells the agent for how long no leader answered, where anything depends on it.
    fn report_contact(&mut self, ix: MachineIx) {
        let machine = self.machine(ix);
        let silence = machine.silence(self.now);
        let minds =
            machine.daemon.as_ref().is_some_and(|daemon| daemon.core.depends_on_leader_contact());
        if minds && self.sabotage != Some(Sabotage::NeverIsolated) {
            if let Some(daemon) = &mut self.machines[ix.0].daemon {
                daemon.silence = silence;
            }
            let state = self.state_age(ix, silence);
            self.tell_agent(ix, Event::LeaderContact { elapsed: silence, state });
        }
    }

    /// Whether a machine's state may lack what was decided about its replicas: from a lapse of contact on until it has
    /// what was committed when there was contact again.
    fn state_age(&mut self, ix: MachineIx, silence: Millis) -> StateAge {
        let machine = &mut self.machines[ix.0];
        let Some(daemon) = &mut machine.daemon else { return StateAge::Outdated };
        if silence >= CONTACT_LAPSE {
            daemon.state_age = StateAge::Outdated;
        } else if daemon.applied >= machine.committed_at_contact {
            daemon.state_age = StateAge::Current;
        }
        daemon.state_age
    }

    /// Tells the agent that the state which it gets next may be outdated.
    pub(super) fn warn_of_outdated(&mut self, ix: MachineIx) {
        let elapsed = self.machine(ix).silence(self.now);
        let state = self.state_age(ix, elapsed);
        if state == StateAge::Outdated && self.sabotage != Some(Sabotage::NeverIsolated) {
            if let Some(daemon) = &mut self.machines[ix.0].daemon {
                daemon.silence = elapsed;
            }
            self.tell_agent(ix, Event::LeaderContact { elapsed, state });
        }
    }

    /// Sends what waits in the outbox.
    pub(super) fn report(&mut self, ix: MachineIx, life: u64) {
        if !self.is_alive(ix, life) {
            return;
        }
        let machine = &mut self.machines[ix.0];
        let node = machine.node;
        let command = machine.daemon.as_mut().and_then(|daemon| daemon.outbox.send(node));
        let Some(command) = command else { return };
        let origin = Origin::Reporter { machine: ix, life };
        let by = Identity::Node { id: node };
        self.propose(ix, Proposal { origin, by, request: None, command });
    }

    pub(super) fn is_alive(&self, ix: MachineIx, life: u64) -> bool {
        self.machine(ix).daemon.as_ref().is_some_and(|daemon| daemon.life == life)
    }
}
