//! What happens to a machine: processes that end or stand still, rules that are gone, packets that are lost or late, a
//! disk that is full, a clock that is set; and to a registry, which ends.

use std::time::{Duration, Instant};

use jaco_testkit::engines::Lost;
use jaco_testkit::{eventually_within, ran, router};
use rustix::process::Signal;

use super::disk::Disks;
use super::pulled::Pulled;
use super::relay::Relay;
use crate::ends::{self, hang_up, kill_router, router_is_back};
use crate::load::{Failure, Kind, PATIENCE as ANSWERED};
use crate::outside::Outside;

/// As in the test of a machine that is lost: until then requests go there that are not repeated.
const UNNOTICED: Duration = Duration::from_secs(3);

/// How soon clients outside reach a machine again whose packets are lost no more: TCP repeats with a growing pause.
const RECONNECTED: Duration = Duration::from_secs(20);

/// How soon a router has its rules again, which the kernel tells it of.
const RULES_BACK: Duration = Duration::from_secs(2);

/// How far a clock is set, in seconds: those of two machines differ by less than they may.
const CLOCK: i64 = 120;

/// What faults are made with.
pub(crate) struct Equipment {
    pub(crate) disks: Disks,
    pub(crate) pulled: Pulled,
}

/// What happens to a machine, and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// `kill -9`; another daemon is started when it ends.
    DaemonKilled,
    /// SIGSTOP, until it ends.
    DaemonFrozen,
    /// Nothing more can be written where the daemon has its data, until it ends.
    DiskFull,
    /// `kill -9`; the daemon starts another one.
    RouterKilled,
    /// SIGSTOP, until it ends: nothing passes the tunnel.
    RouterFrozen,
    /// `nft flush ruleset` where the router has its rules.
    RulesFlushed,
    /// `kill -9`; the daemon starts another one.
    EdgeKilled,
    /// SIGSTOP, until it ends: requests wait.
    EdgeFrozen,
    /// Another process takes its place.
    EdgeReplaced,
    /// Its containers go on.
    EngineStopped,
    /// `kill -9`; its containers go on.
    EngineKilled,
    /// Packets are lost until it ends.
    Lost(Lost),
    /// Packets are late until it ends, in another order at times, and some come twice.
    Late,
    /// It is set ahead or back, and to the true time when it ends.
    ClockSet,
    /// `kill -9` of the registry, which all machines have in common; it is started when it ends.
    RegistryKilled,
}

/// What of a machine a fault is one of: two faults of one part are not told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Daemon,
    Router,
    Edge,
    Engine,
    Wire,
    Clock,
    Registry,
}

impl Fault {
    pub(crate) const ALL: [Self; 17] = [
        Self::DaemonKilled,
        Self::DaemonFrozen,
        Self::DiskFull,
        Self::RouterKilled,
        Self::RouterFrozen,
        Self::RulesFlushed,
        Self::EdgeKilled,
        Self::EdgeFrozen,
        Self::EdgeReplaced,
        Self::EngineStopped,
        Self::EngineKilled,
        Self::Lost(Lost::Sent),
        Self::Lost(Lost::Received),
        Self::Lost(Lost::Everything),
        Self::Late,
        Self::ClockSet,
        Self::RegistryKilled,
    ];

    /// The longest that it lasts: packets are lost for longer than a node may be silent until others take its place.
    pub(crate) fn longest(self) -> Duration {
        Duration::from_secs(if self.part() == Part::Wire { 20 } else { 6 })
    }

    fn part(self) -> Part {
        match self {
            Self::DaemonKilled | Self::DaemonFrozen | Self::DiskFull => Part::Daemon,
            Self::RouterKilled | Self::RouterFrozen | Self::RulesFlushed => Part::Router,
            Self::EdgeKilled | Self::EdgeFrozen | Self::EdgeReplaced => Part::Edge,
            Self::EngineStopped | Self::EngineKilled => Part::Engine,
            Self::Lost(_) | Self::Late => Part::Wire,
            Self::ClockSet => Part::Clock,
            Self::RegistryKilled => Part::Registry,
        }
    }

    /// Whether the machine's daemon takes no part in the cluster meanwhile.
    pub(crate) fn takes_the_vote(self) -> bool {
        matches!(self.part(), Part::Daemon | Part::Wire)
    }

    /// Whether the machine has no daemon meanwhile that works.
    pub(crate) fn is_of_the_daemon(self) -> bool {
        self.part() == Part::Daemon
    }
}

/// A fault of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) fault: Fault,
    pub(crate) at: usize,
}

impl Place {
    /// Whether both can happen at once, and leave the cluster a quorum.
    pub(crate) fn is_compatible_with(self, other: Self) -> bool {
        let registry = |place: Self| place.fault.part() == Part::Registry;
        match self.at == other.at {
            _ if registry(self) && registry(other) => false,
            true => self.fault.part() != other.fault.part(),
            false => !(self.fault.takes_the_vote() && other.fault.takes_the_vote()),
        }
    }

    pub(crate) async fn begin(self, outside: &mut Outside, equipment: &Equipment) -> Begun {
        let (at, begun) = (self.at, Instant::now());
        let edge = (self.fault.part() == Part::Edge).then(|| outside.edge(at));
        let mut relay = None;
        match self.fault {
            Fault::DaemonKilled => outside.machines.cluster.nodes[at].kill(),
            Fault::DaemonFrozen => outside.machines.cluster.nodes[at].pause(),
            Fault::DiskFull => equipment.disks.fill(at),
            Fault::RouterKilled => kill_router(outside, at),
            Fault::RouterFrozen => signal_router(outside, at, Signal::STOP),
            Fault::RulesFlushed => {
                ran(outside.machines.at_router(at).args(["nft", "flush", "ruleset"]));
            }
            Fault::EdgeKilled => edge.into_iter().for_each(router::end),
            Fault::EdgeFrozen => edge.into_iter().for_each(|edge| ends::signal(edge, Signal::STOP)),
            Fault::EdgeReplaced => edge.into_iter().for_each(hang_up),
            Fault::EngineStopped => outside.machines.engines[at].end(Signal::TERM),
            Fault::EngineKilled => outside.machines.engines[at].end(Signal::KILL),
            Fault::Lost(lost) => outside.machines.lose(at, lost),
            Fault::Late => relay = Some(Relay::start(outside, at)),
            Fault::ClockSet => {
                outside.machines.set_clock(at, if at == 1 { -CLOCK } else { CLOCK });
            }
            Fault::RegistryKilled => equipment.pulled.kill(),
        }
        Begun { place: self, begun, edge, relay }
    }
}

/// A fault that has begun.
pub(crate) struct Begun {
    pub(crate) place: Place,
    pub(crate) begun: Instant,
    /// The process that was the machine's edge, where that is what it is about.
    edge: Option<u32>,
    /// What carries packets late, until it ends.
    relay: Option<Relay>,
}

impl Begun {
    /// Does what ends it.
    pub(crate) async fn end(&mut self, outside: &mut Outside, equipment: &Equipment) {
        let at = self.place.at;
        match self.place.fault {
            Fault::DaemonKilled => outside.machines.restart(at).await,
            Fault::DaemonFrozen => outside.machines.cluster.nodes[at].resume(),
            Fault::DiskFull => equipment.disks.empty(at),
            Fault::RouterFrozen => signal_router(outside, at, Signal::CONT),
            Fault::EdgeFrozen => {
                self.edge.into_iter().for_each(|edge| ends::signal(edge, Signal::CONT));
            }
            Fault::EngineStopped => outside.machines.engines[at].boot().await,
            Fault::EngineKilled => {
                outside.machines.engines[at].is_over().await;
                outside.machines.engines[at].boot().await;
            }
            Fault::Lost(_) => outside.machines.lose_nothing(),
            Fault::Late => self.relay.take().into_iter().for_each(|it| it.end(outside, at)),
            Fault::ClockSet => outside.machines.set_clock(at, 0),
            Fault::RegistryKilled => equipment.pulled.begin(&outside.machines),
            Fault::RouterKilled | Fault::RulesFlushed | Fault::EdgeKilled | Fault::EdgeReplaced => {
            }
        }
    }

    /// Waits until what it ended is there again, once all faults of the machine are over.
    pub(crate) async fn has_recovered(&self, outside: &Outside) {
        let at = self.place.at;
        match self.place.fault {
            Fault::RouterKilled => router_is_back(outside, at).await,
            Fault::RulesFlushed => rules_are_back(outside, at).await,
            Fault::EdgeKilled | Fault::EdgeReplaced => {
                outside.has_another_edge(at, self.edge.expect("its process is known")).await;
            }
            Fault::DaemonKilled
            | Fault::DaemonFrozen
            | Fault::DiskFull
            | Fault::RouterFrozen
            | Fault::EdgeFrozen
            | Fault::EngineStopped
            | Fault::EngineKilled
            | Fault::Lost(_)
            | Fault::Late
            | Fault::ClockSet
            | Fault::RegistryKilled => {}
        }
    }
}

fn signal_router(outside: &Outside, at: usize, signal: Signal) {
    ends::signal(router::pid(&outside.machines.router(at)).expect("there is a router"), signal);
}

async fn rules_are_back(outside: &Outside, at: usize) {
    eventually_within(RULES_BACK, "the router has its rules again", || async {
        let listed = ran(outside.machines.at_router(at).args(["nft", "list", "ruleset"]));
        if listed.contains("chain") { Ok(()) } else { Err(listed) }
    })
    .await;
}

/// Who starts another process on a machine when one has ended there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemon {
    There,
    /// Nobody, until the other fault of the machine is over.
    Out,
}

/// A fault of a machine, with its times.
#[derive(Debug)]
pub(crate) struct Spell {
    pub(crate) place: Place,
    pub(crate) daemon: Daemon,
    pub(crate) begun: Instant,
    /// When all was there again.
    pub(crate) ended: Instant,
}

impl Spell {
    /// Whether a request could not be answered because of it; most faults fail no request at all.
    pub(crate) fn excuses(&self, failure: &Failure) -> bool {
        let is_own = failure.edge == Outside::address(self.place.at);
        let is_open = failure.asked + ANSWERED >= self.begun;
        let until = |pause: Duration| is_open && failure.asked <= self.ended + pause;
        // What is in flight to an instance is lost with it, unless it can be repeated.
        let in_flight =
            is_open && failure.kind != Kind::Get && failure.asked <= self.begun + UNNOTICED;
        match (self.place.fault, self.daemon) {
            (Fault::Lost(_), _) => in_flight || is_own && until(RECONNECTED),
            (Fault::RouterFrozen, _) | (Fault::RouterKilled, Daemon::Out) => in_flight,
            (Fault::EdgeKilled, Daemon::There) => {
                is_own && failure.connected.is_some_and(|at| at <= self.begun)
            }
            (Fault::EdgeKilled, Daemon::Out) => is_own && until(Duration::ZERO),
            (
                Fault::DaemonKilled
                | Fault::DaemonFrozen
                | Fault::DiskFull
                | Fault::RouterKilled
                | Fault::RulesFlushed
                | Fault::EdgeFrozen
                | Fault::EdgeReplaced
                | Fault::EngineStopped
                | Fault::EngineKilled
                | Fault::Late
                | Fault::ClockSet
                | Fault::RegistryKilled,
                _,
            ) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every fault has another one beside it, on the same machine and on another, and no two of them take the quorum.
    #[test]
    fn two_faults_leave_a_quorum() {
        for fault in Fault::ALL {
            let place = Place { fault, at: 0 };
            for at in [0, 1] {
                let others = Fault::ALL.map(|fault| Place { fault, at });
                let beside: Vec<_> =
                    others.into_iter().filter(|it| place.is_compatible_with(*it)).collect();
                assert!(beside.len() >= 8, "{place:?} with {beside:?}");
                let votes = |it: &Place| it.fault.takes_the_vote() && fault.takes_the_vote();
                assert!(at == 0 || !beside.iter().any(votes), "{place:?} with {beside:?}");
            }
        }
    }
}
