//! Nodes that are removed, and what becomes of them.

use std::collections::BTreeMap;

use jaco_agent::Event;
use jaco_agent::engine::EngineEvent;
use jaco_state::{Command, Entry};
use jaco_types::NodeId;

use super::World;
use crate::daemon::View;
use crate::machine::Membership;
use crate::network::MachineIx;
use crate::sabotage::Sabotage;

impl World {
    /// The machine of a member.
    pub(super) fn machine_of(&self, node: NodeId) -> Option<MachineIx> {
        self.all().find(|ix| self.machine(*ix).node == node)
    }

    /// Machines whose join was agreed on and never answered: their daemons ask again.
    pub(crate) fn finish_joins(&mut self) {
        let nodes = self.checker.reference().nodes.values();
        let known: Vec<_> = nodes.map(|node| (node.hostname.clone(), node.id)).collect();
        for (hostname, node) in known {
            if self.machine_of(node).is_none() {
                self.add_machine(hostname, node);
            }
        }
    }

    /// Another member leads, as a leader cannot remove itself: that one, unless nobody else can.
    pub(crate) fn hand_over(&mut self, leader: MachineIx) -> Option<MachineIx> {
        let can_follow = |ix: &MachineIx| *ix != leader && self.is_candidate(*ix);
        let successor = self.all().find(can_follow)?;
        self.win(successor);
        Some(successor)
    }

    /// An entry was agreed on that may have removed a node: it votes no more, and is told nothing more.
    pub(super) fn note_removal(&mut self, entry: &Entry) {
        let Command::NodeRemove(removal) = &entry.command else { return };
        let Some(ix) = self.machine_of(removal.node) else { return };
        let is_member = self.checker.reference().nodes.contains(&removal.node);
        if is_member || self.machine(ix).membership != Membership::Member {
            return;
        }
        self.machines[ix.0].membership = Membership::Removed(entry.index);
        self.consensus.remove_member(ix);
    }

    /// A node that was removed asks a member, which refuses it and says why. Then it stops and removes all that it has.
    pub(super) fn learn_of_removal(&mut self, ix: MachineIx) {
        let Membership::Removed(at) = self.machine(ix).membership else { return };
        let knows = |peer: MachineIx| {
            let daemon = self.machine(peer).daemon.as_ref();
            self.network.is_connected(ix, peer)
                && self.consensus.is_member(peer)
                && daemon.is_some_and(|daemon| daemon.applied >= at)
        };
        if !self.all().any(knows) {
            return;
        }
        let machine = &mut self.machines[ix.0];
        let node = machine.node;
        machine.membership = Membership::Dismissed;
        let Some(daemon) = &mut machine.daemon else { return };
        daemon.leading = None;
        daemon.view = View::Current;
        if self.sabotage == Some(Sabotage::StayWhenRemoved) {
            return;
        }
        let own = daemon.state.observed.iter().filter(|(_, seen)| seen.node == node);
        let observed = own.map(|(id, seen)| (id.clone(), seen.clone())).collect();
        let (index, desired) = (daemon.state.index, BTreeMap::new());
        self.tell_agent(ix, Event::Desired { index, desired, observed });
        self.tell_agent(ix, Event::EventsLost);
        for seen in self.machine(ix).foreign(self.now) {
            self.tell_agent(ix, Event::Engine(EngineEvent::Changed(seen)));
        }
    }

    /// The daemon of a node that was removed ends once nothing of it is left on the engine.
    pub(super) fn end_if_removed(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        let is_over = machine.membership == Membership::Dismissed
            && machine.driver.host.answer().is_ok()
            && machine.driver.host.list(self.now).is_empty();
        if is_over {
            self.crash(ix);
            self.lose_router(ix);
        }
    }
}
