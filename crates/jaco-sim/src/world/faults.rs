//! Faults. Each is a verb of the scripts and a choice of the nemesis.

use jaco_agent::engine::{Health, PullRequest};
use jaco_agent::fake::{Behaviour, ImageScript, Reachability};
use jaco_types::{Exit, ImageDigest, InstanceId, Millis, ReplicaId};

use super::World;
use crate::network::MachineIx;

/// How long the engine waits for a registry that says nothing.
const PULL_STALL: Millis = Millis::from_secs(60);
/// How long a pull, a start and a stop take unless a script says otherwise.
const PULL_TAKES: Millis = Millis(400);
const START_TAKES: Millis = Millis(150);
const STOP_TAKES: Millis = Millis(100);

/// How a registry answers for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Registry {
    /// At once.
    Works,
    /// After some time.
    Takes(Millis),
    /// With a refusal.
    Fails(String),
    /// Not at all: the engine gives up after a minute.
    Hangs,
}

/// What is done to a container from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// Its process ends with this code.
    Kill { code: i64 },
    /// It is removed.
    Remove,
    /// Its healthcheck fails from now on.
    Sicken,
    /// Its healthcheck passes from now on.
    Cure,
}

impl World {
    /// The daemon dies at once; its containers go on.
    pub(crate) fn kill(&mut self, ix: MachineIx) {
        self.crash(ix);
    }

    /// The daemon starts.
    pub(crate) fn start(&mut self, ix: MachineIx) {
        self.boot(ix);
    }

    /// The machine loses power: the daemon dies and so does every process.
    pub(crate) fn power_off(&mut self, ix: MachineIx) {
        self.machines[ix.0].driver.host.power_cycle(self.now);
        self.crash(ix);
        self.look_at(ix);
        self.lose_router(ix);
    }

    /// Machines of different groups cannot talk. One that is in no group talks to all.
    pub(crate) fn partition(&mut self, groups: &[Vec<MachineIx>]) {
        self.network.partition(groups);
        self.topology_changed();
    }

    /// Cuts the link in one direction; the other stays open.
    pub(crate) fn cut(&mut self, from: MachineIx, to: MachineIx) {
        self.network.cut(from, to);
        self.topology_changed();
    }

    /// All links work.
    pub(crate) fn heal(&mut self) {
        self.network.heal();
        self.topology_changed();
    }

    /// How the registry answers from now on, on one machine or on all. What a machine has it keeps.
    pub(crate) fn set_registry(
        &mut self,
        image: &str,
        registry: Registry,
        only: Option<MachineIx>,
    ) {
        self.know_image(image);
        let script = match registry {
            Registry::Works => ImageScript::Pullable { takes: PULL_TAKES },
            Registry::Takes(takes) => ImageScript::Pullable { takes },
            Registry::Fails(reason) => ImageScript::Failing { takes: PULL_TAKES, reason },
            Registry::Hangs => {
                let reason = format!("nothing received for {PULL_STALL}");
                ImageScript::Failing { takes: PULL_STALL, reason }
            }
        };
        if only.is_none() {
            self.images.insert(image.to_owned(), script.clone());
        }
        for ix in self.all().filter(|ix| only.is_none_or(|only| only == *ix)) {
            let host = &mut self.machines[ix.0].driver.host;
            let pull = PullRequest { image: image.into(), platform: None };
            if host.find_image(&pull).is_none() {
                host.set_image(image, script.clone());
            }
        }
    }

    /// Another image is pushed under this name: pulls from now on get that one.
    pub(crate) fn move_tag(&mut self, image: &str, digest: &ImageDigest) {
        self.know_image(image);
        self.tags.insert(image.to_owned(), digest.clone());
        for machine in self.machines.iter_mut() {
            machine.driver.host.move_tag(image, digest);
        }
    }

    /// What containers of an image do that are started from now on.
    pub(crate) fn set_behaviour(&mut self, image: &str, behaviour: Behaviour) {
        self.behaviours.insert(image.to_owned(), behaviour.clone());
        for machine in self.machines.iter_mut() {
            machine.driver.host.set_behaviour(image, behaviour.clone());
        }
    }

    /// Takes time to fetch, to start and to stop, as real images do.
    pub(crate) fn know_image(&mut self, image: &str) {
        if !self.images.contains_key(image) {
            let script = ImageScript::Pullable { takes: PULL_TAKES };
            self.images.insert(image.to_owned(), script.clone());
            for machine in self.machines.iter_mut() {
                machine.driver.host.set_image(image, script.clone());
            }
        }
        if !self.behaviours.contains_key(image) {
            self.set_behaviour(image, usual_behaviour());
        }
    }

    /// A machine that joins finds the same registry.
    pub(super) fn script_machine(&mut self, ix: MachineIx) {
        let host = &mut self.machines[ix.0].driver.host;
        for (image, script) in &self.images {
            host.set_image(image, script.clone());
        }
        for (image, digest) in &self.tags {
            host.move_tag(image, digest);
        }
        for (image, behaviour) in &self.behaviours {
            host.set_behaviour(image, behaviour.clone());
        }
        for wanted in self.wanted_logins.values() {
            host.require_credentials(wanted.clone());
        }
    }

    /// Does something to the containers of a replica, wherever they are, behind the back of the daemon.
    pub(crate) fn harm(&mut self, replica: &ReplicaId, harm: Harm) -> usize {
        let mut harmed = 0;
        for ix in self.all() {
            let host = &mut self.machines[ix.0].driver.host;
            let of_replica = host.list(self.now).into_iter().map(|seen| seen.instance);
            let victims: Vec<InstanceId> =
                of_replica.filter(|instance| instance.replica == *replica).collect();
            for instance in &victims {
                match harm {
                    Harm::Kill { code } => {
                        host.kill(instance, Exit { code, out_of_memory: false }, self.now);
                    }
                    Harm::Remove => host.remove_by_hand(instance),
                    Harm::Sicken => {
                        let output = "made to fail".to_owned();
                        host.set_health(instance, Health::Unhealthy { output });
                    }
                    Harm::Cure => host.set_health(instance, Health::Healthy),
                }
            }
            if !victims.is_empty() {
                self.look_at(ix);
                self.poll_engine(ix);
            }
            harmed += victims.len();
        }
        harmed
    }

    /// The engine answers, or does not.
    pub(crate) fn set_engine(&mut self, ix: MachineIx, reach: Reachability) {
        self.machines[ix.0].driver.host.set_reachability(reach);
        if reach == Reachability::Down {
            self.checker.unattended(ix);
        }
        self.poll_engine(ix);
    }

    /// The clock of a machine that nobody sets goes too fast by so many thousandths, or too slowly.
    pub(crate) fn drift(&mut self, ix: MachineIx, permille: i64) {
        self.machines[ix.0].drift(permille);
    }

    /// All machines stand still for so long, as guests of a host that is suspended do. Their clocks go on;
    /// what they waited for comes due when they wake, messages arrive after that.
    pub(crate) fn freeze(&mut self, length: Millis) {
        let queue = std::mem::take(&mut self.queue).into_iter();
        let later = queue.map(|((at, number), what)| ((at.after(length), number), what));
        self.queue = later.collect();
        self.now = self.now.after(length);
    }

    /// The clock of a machine is set.
    pub(crate) fn step_clock(&mut self, ix: MachineIx, millis: i64) {
        self.machines[ix.0].step_clock(millis);
    }
}

/// What a container does where nothing else is said.
pub(crate) fn usual_behaviour() -> Behaviour {
    Behaviour { start_takes: START_TAKES, stop_takes: STOP_TAKES, ..Behaviour::default() }
}
