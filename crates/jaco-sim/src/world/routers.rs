//! The routers: daemons plan what they hold, and they carry it out step by step.

use jaco_agent::{Effect, Event};
use jaco_types::Millis;

use super::{Happening, World};
use crate::daemon::View;
use crate::invariants::RouterHolds;
use crate::network::MachineIx;
use crate::router::Due;
use crate::sabotage::Sabotage;

impl World {
    /// The state of a daemon grew: a moment later it looks at what its router should hold.
    pub(super) fn look_at_router(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        let has_networks = machine.daemon.as_ref().is_some_and(|daemon| {
            daemon.view == View::Current && daemon.state.networks.pool.is_some()
        });
        if has_networks && machine.router.look == Due::No {
            machine.router.look = Due::Yes;
            let after = Millis(self.routing.between(1, 5));
            self.plan_in(after, Happening::PlanRouter { machine: ix });
        }
        if has_networks {
            self.begin_renewals(ix);
        }
    }

    pub(super) fn plan_router(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        machine.router.look = Due::No;
        let Some(daemon) = machine.daemon.as_mut().filter(|it| it.view == View::Current) else {
            return;
        };
        daemon.site.next(&daemon.state);
        let taken = machine.router.take(daemon.state.index, daemon.site.plan());
        if taken == Due::Yes && machine.router.work == Due::No {
            machine.router.work = Due::Yes;
            self.plan_in(Millis(0), Happening::Route { machine: ix });
        }
        self.tell_released(ix);
        self.start_ready(ix);
    }

    /// A router takes a step. Its plan may be another one than when it took the last.
    pub(super) fn route(&mut self, ix: MachineIx) {
        let router = &mut self.machines[ix.0].router;
        if router.step(self.sabotage, self.now).is_none() {
            router.work = Due::No;
            self.tell_released(ix);
            return self.start_ready(ix);
        }
        self.tell_checker(ix);
        let after = Millis(self.routing.between(1, 3));
        self.plan_in(after, Happening::Route { machine: ix });
    }

    /// The process of a router dies; another one takes its place.
    pub(crate) fn kill_router(&mut self, ix: MachineIx) {
        self.machines[ix.0].router.process_died();
        self.tell_checker(ix);
        let after = Millis(self.routing.between(50, 2000));
        self.plan_in(after, Happening::StartRouter { machine: ix });
    }

    pub(super) fn start_router(&mut self, ix: MachineIx) {
        let router = &mut self.machines[ix.0].router;
        router.process_started(self.now);
        if router.work == Due::No {
            router.work = Due::Yes;
            self.plan_in(Millis(0), Happening::Route { machine: ix });
        }
    }

    /// The machine lost its power, and its router with it.
    pub(super) fn lose_router(&mut self, ix: MachineIx) {
        self.machines[ix.0].router.lose_power();
        self.tell_checker(ix);
    }

    /// Asks the engine for something. Containers of networks start once the router holds their addresses.
    pub(super) fn ask_engine(&mut self, ix: MachineIx, effect: Effect) {
        if let Effect::Pull(pull) = effect {
            return self.pull(ix, pull);
        }
        let machine = &mut self.machines[ix.0];
        if let Effect::Start(request) = &effect
            && !request.networks.is_empty()
        {
            machine.router.wait(request.clone());
            return self.start_ready(ix);
        }
        if let Effect::Join { request, container } = effect {
            if self.sabotage == Some(Sabotage::FeignJoins) {
                let joined = Event::Joined { instance: request.instance, result: Ok(()) };
                return self.tell_agent(ix, joined);
            }
            machine.router.wait_to_join(request, container);
            return self.start_ready(ix);
        }
        // A start that waits begins, so that its cancellation is answered like any other.
        if let Effect::CancelStart(instance) = &effect
            && let Some(request) = machine.router.give_up(instance)
        {
            machine.driver.execute(Effect::Start(request), self.now);
        }
        machine.driver.execute(effect, self.now);
    }

    fn start_ready(&mut self, ix: MachineIx) {
        let machine = &mut self.machines[ix.0];
        for request in machine.router.ready() {
            machine.driver.execute(Effect::Start(request), self.now);
        }
        for (request, container) in machine.router.ready_to_join() {
            machine.driver.execute(Effect::Join { request, container }, self.now);
        }
    }

    fn tell_checker(&mut self, ix: MachineIx) {
        let machine = &self.machines[ix.0];
        let plan = machine.router.held_by(self.sabotage);
        let holds = RouterHolds { node: machine.node, seen: machine.router.seen.clone(), plan };
        self.checker.routed(ix, holds, self.now);
    }
}
