//! The routers as endpoint consumers: attached in the log, and their acknowledgements to the leader.

use jaco_types::{Identity, Millis, StateIndex};

use super::{Happening, World};
use crate::consensus::{Origin, Proposal};
use crate::consumer::{Acknowledgement, Renewing};
use crate::network::MachineIx;

/// How often a lease is renewed.
const RENEWAL: Millis = Millis(1000);

impl World {
    /// A daemon with networks speaks for its router from now on.
    pub(super) fn begin_renewals(&mut self, ix: MachineIx) {
        let Some(daemon) = &mut self.machines[ix.0].daemon else { return };
        if daemon.consumer.renewing == Renewing::No {
            daemon.consumer.renewing = Renewing::Yes;
            let life = daemon.life;
            self.plan_in(Millis(0), Happening::Renew { machine: ix, life });
        }
    }

    /// It is time to renew the lease.
    pub(super) fn renew(&mut self, ix: MachineIx, life: u64) {
        if !self.is_alive(ix, life) {
            return;
        }
        self.plan_in(RENEWAL, Happening::Renew { machine: ix, life });
        let Some(released) = self.released(ix) else { return };
        let machine = &mut self.machines[ix.0];
        let Some(daemon) = &mut machine.daemon else { return };
        let command = daemon.consumer.attach(&machine.hostname, machine.node, &daemon.state);
        if let Some(command) = command {
            let origin = Origin::Consumer { machine: ix, life };
            let by = Identity::Node { id: machine.node };
            return self.propose(ix, Proposal { origin, by, request: None, command });
        }
        if let Some(renewal) = daemon.consumer.renewal(&machine.hostname, released) {
            self.send_acknowledgement(ix, renewal);
        }
    }

    pub(super) fn answer_consumer(&mut self, ix: MachineIx, life: u64) {
        if self.is_alive(ix, life)
            && let Some(daemon) = &mut self.machines[ix.0].daemon
        {
            daemon.consumer.answered();
        }
    }

    /// What its router leads to may have changed: the leader hears of it at once where something waits for that.
    pub(super) fn tell_released(&mut self, ix: MachineIx) {
        if let Some(at) = self.machines[ix.0].router.forgets_at().filter(|at| *at > self.now) {
            self.plan_in(at.since(self.now), Happening::Forget { machine: ix });
        }
        let Some(released) = self.released(ix) else { return };
        let machine = &mut self.machines[ix.0];
        let Some(daemon) = &mut machine.daemon else { return };
        if daemon.consumer.is_awaited(&daemon.state, released)
            && let Some(news) = daemon.consumer.renewal(&machine.hostname, released)
        {
            self.send_acknowledgement(ix, news);
        }
    }

    fn released(&mut self, ix: MachineIx) -> Option<StateIndex> {
        let (now, sabotage) = (self.now, self.sabotage);
        self.machines[ix.0].router.released(sabotage, now)
    }

    fn send_acknowledgement(&mut self, ix: MachineIx, news: Acknowledgement) {
        let Some(to) = self.leader_seen_by(ix) else { return };
        if let Some(daemon) = &mut self.machines[ix.0].daemon {
            daemon.consumer.delivered(news.index);
        }
        self.send(ix, to, Happening::Acknowledge { to, news });
    }

    /// A leader hears of it.
    pub(super) fn hear_of_endpoints(&mut self, to: MachineIx, news: Acknowledgement) {
        let machine = &mut self.machines[to.0];
        let clock = machine.cluster_time(self.now);
        if let Some(leading) = machine.daemon.as_mut().and_then(|it| it.leading.as_mut()) {
            let Acknowledgement { name, session, index } = news;
            leading.hear_of_endpoints(name, (session, index), clock);
        }
    }
}
