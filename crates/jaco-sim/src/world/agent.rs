//! The nodes' side: daemons start and die, agents are told what happens and act on their engines.

use jaco_agent::engine::{ContainerSeen, EngineEvent};
use jaco_agent::{Effect, Event};
use jaco_state::view::Role;
use jaco_types::{Hostname, Identity, Millis, NodeId};

use super::{AGENT_TICK, HEARTBEAT, Happening, World};
use crate::check::Starter;
use crate::consensus::{Origin, Proposal};
use crate::daemon::{Daemon, View};
use crate::machine::Machine;
use crate::network::MachineIx;
use crate::sabotage::Sabotage;

impl World {
    /// A new machine with a running daemon.
    pub(super) fn add_machine(&mut self, hostname: Hostname, node: NodeId) -> MachineIx {
        let ix = MachineIx(self.machines.len());
        self.machines.push(Machine::new(hostname, node));
        self.script_machine(ix);
        self.boot(ix);
        ix
    }

    /// Starts the daemon. It has what was stored of the log, and waits for a leader before it acts.
    pub(super) fn boot(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        if machine.daemon.is_some() {
            return;
        }
        machine.lives += 1;
        // What happened while nobody listened is told to nobody.
        let _missed = machine.driver.poll(self.now);
        let life = machine.lives;
        let mut daemon = Daemon::new(machine.owner(), life);
        let stored = self.consensus.stored(ix);
        for entry in self.consensus.entries(daemon.applied, stored) {
            daemon.apply(entry);
            self.checker.applied(&self.machines[ix.0].hostname, &daemon.state);
        }
        daemon.applied = stored;
        self.machines[ix.0].daemon = Some(daemon);
        self.checker.restarted(ix);
        self.plan_in(Millis(0), Happening::Heartbeat { machine: ix, life });
        self.plan_in(AGENT_TICK, Happening::Tick { machine: ix, life });
        self.topology_changed();
    }

    /// The daemon dies. Its containers go on.
    pub(super) fn crash(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        machine.daemon = None;
        machine.driver.forget_work();
        self.checker.unattended(ix);
        self.topology_changed();
    }

    /// The agent begins to act: it knows what should run.
    pub(super) fn agent_begins(&mut self, ix: MachineIx) {
        let now = self.now;
        let machine = &mut self.machines[ix.0];
        let foreign = machine.foreign(now);
        let Some(daemon) = machine.daemon.as_mut().filter(|daemon| daemon.view == View::Old) else {
            return;
        };
        let first = daemon.first_desired();
        // Its leader has not heard of it yet, and may just be giving up what is here: only its answer
        // to a sign of life says that somebody looks after this machine again.
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
            let ContainerSeen { instance, container, .. } = seen;
            self.carry_out(ix, Effect::Remove { instance, container });
        }
    }

    /// Tells the agent something, and carries out what it wants.
    pub(super) fn tell_agent(&mut self, ix: MachineIx, event: Event) {
        let event = self.forget_retiring(self.mix_in_foreign(ix, event));
        let machine = &mut self.machines[ix.0];
        let clock = machine.clock(self.now);
        let Some(daemon) = machine.daemon.as_mut().filter(|daemon| daemon.view == View::Current)
        else {
            return;
        };
        if let Event::Started { instance, result: Ok(seen) } = &event {
            let by = Starter { machine: ix, life: daemon.life };
            self.checker.started(instance, &seen.container, by, &daemon.state);
        }
        daemon.note_engine(&event);
        let effects = daemon.core.handle(event, clock);
        let images = daemon.core.prepared();
        let is_news = daemon.images != images;
        daemon.images = images;
        for effect in effects {
            self.carry_out(ix, effect);
        }
        if is_news {
            // A rollout waits for this: it is told at once.
            self.give_sign(ix);
        }
    }

    fn carry_out(&mut self, ix: MachineIx, effect: Effect) {
        let effect = self.follow_names(ix, effect);
        let machine = &mut self.machines[ix.0];
        if let Some(daemon) = &machine.daemon {
            // An agent that has contact again acts on what it knows until it is told.
            let silence = daemon.silence;
            self.checker.effect(&effect, &daemon.state, machine.node, silence, self.now);
        }
        if let Effect::Report { observed, gone } = effect {
            let Some(daemon) = &mut machine.daemon else { return };
            let life = daemon.life;
            if let Some(after) = daemon.outbox.take(observed, gone) {
                self.plan_in(after, Happening::Report { machine: ix, life });
            }
        } else {
            machine.driver.execute(effect, self.now);
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

    /// An engine that others use too lists everything; the agent has to tell its own apart.
    fn mix_in_foreign(&self, ix: MachineIx, event: Event) -> Event {
        let machine = self.machine(ix);
        let own = machine.owner();
        let mut foreign = machine.foreign(self.now);
        if self.sabotage == Some(Sabotage::IgnoreOwner) {
            foreign.iter_mut().for_each(|seen| seen.owner = own.clone());
        }
        if let Event::Listed(Ok(listed)) = event {
            return Event::Listed(Ok(foreign.into_iter().chain(listed).collect()));
        }
        event
    }

    /// What happened on a machine's engine reaches its agent, if there is one.
    pub(super) fn poll_engine(&mut self, ix: MachineIx) {
        let events = self.machines[ix.0].driver.poll(self.now);
        if !events.iter().all(|event| matches!(event, Event::Listed(_))) {
            self.look_at(ix);
        }
        for event in events {
            self.tell_agent(ix, event);
        }
    }

    /// Lets the checker see a machine's containers as they are.
    pub(super) fn look_at(&mut self, ix: MachineIx) {
        let containers = self.machines[ix.0].driver.host.list(self.now);
        self.checker.containers(ix, containers, self.now);
    }

    pub(super) fn tick(&mut self, ix: MachineIx, life: u64) {
        if !self.is_alive(ix, life) {
            return;
        }
        self.tell_agent(ix, Event::Tick);
        self.plan_in(AGENT_TICK, Happening::Tick { machine: ix, life });
    }

    pub(super) fn heartbeat(&mut self, ix: MachineIx, life: u64) {
        if !self.is_alive(ix, life) {
            return;
        }
        self.give_sign(ix);
        self.tell_of_contact(ix);
        self.plan_in(HEARTBEAT, Happening::Heartbeat { machine: ix, life });
    }

    /// Tells the leader how this node is.
    fn give_sign(&mut self, ix: MachineIx) {
        let machine = self.machine(ix);
        let Some(daemon) = &machine.daemon else { return };
        let (engine, images, node) = (daemon.engine.clone(), daemon.images.clone(), machine.node);
        if let (Some(engine), Some(to)) = (engine, self.leader_seen_by(ix)) {
            let sent_at = self.now;
            self.send(ix, to, Happening::Signal { to, node, engine, images, sent_at });
        }
    }

    /// The agent learns for how long nobody answered, where anything depends on it.
    fn tell_of_contact(&mut self, ix: MachineIx) {
        let machine = self.machine(ix);
        let silence = machine.silence(self.now);
        let minds = machine.daemon.as_ref().is_some_and(|daemon| daemon.core.minds_contact());
        if minds && self.sabotage != Some(Sabotage::NeverIsolated) {
            if let Some(daemon) = &mut self.machines[ix.0].daemon {
                daemon.silence = silence;
            }
            self.tell_agent(ix, Event::Contact { silence });
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
