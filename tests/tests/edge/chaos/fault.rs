//! What happens to a machine: processes that end or stand still, rules that are gone, packets that are lost.

use std::time::{Duration, Instant};

use jaco_testkit::engines::Lost;
use jaco_testkit::{eventually_within, ran, router};
use rustix::process::Signal;

use crate::ends::{self, hang_up, kill_router, router_is_back};
use crate::load::{Failure, Kind, PATIENCE as ANSWERED};
use crate::outside::Outside;

/// As in the test of a machine that is lost: until then requests go there that are not repeated.
const UNNOTICED: Duration = Duration::from_secs(3);

/// How soon clients outside reach a machine again whose packets are lost no more: TCP repeats with a growing pause.
const RECONNECTED: Duration = Duration::from_secs(20);

/// How soon a router has its rules again, which the kernel tells it of.
const RULES_BACK: Duration = Duration::from_secs(2);

/// What happens to a machine, and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// `kill -9`; another daemon is started when it ends.
    DaemonKilled,
    /// SIGSTOP, until it ends.
    DaemonFrozen,
    /// `kill -9`; the daemon starts another one.
    RouterKilled,
    /// SIGSTOP, until it ends: nothing passes the tunnel.
    RouterFrozen,
    /// `kill -9`; the daemon starts another one.
    EdgeKilled,
    /// Another process takes its place.
    EdgeReplaced,
    /// Its containers go on.
    EngineStopped,
    /// `nft flush ruleset` where the router has its rules.
    RulesFlushed,
    /// Packets are lost until it ends.
    Lost(Lost),
}

impl Fault {
    pub(crate) const ALL: [Self; 11] = [
        Self::DaemonKilled,
        Self::DaemonFrozen,
        Self::RouterKilled,
        Self::RouterFrozen,
        Self::EdgeKilled,
        Self::EdgeReplaced,
        Self::EngineStopped,
        Self::RulesFlushed,
        Self::Lost(Lost::Sent),
        Self::Lost(Lost::Received),
        Self::Lost(Lost::Everything),
    ];

    /// The longest that it lasts: packets are lost for longer than a node may be silent until others take its place.
    pub(crate) fn longest(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::Lost(_)) { 20 } else { 6 })
    }

    pub(crate) async fn begin(self, outside: &mut Outside, at: usize) {
        match self {
            Self::DaemonKilled => outside.machines.cluster.nodes[at].kill(),
            Self::DaemonFrozen => outside.machines.cluster.nodes[at].pause(),
            Self::RouterKilled => {
                kill_router(outside, at);
                router_is_back(outside, at).await;
            }
            Self::RouterFrozen => signal_router(outside, at, Signal::STOP),
            Self::EdgeKilled => {
                let edge = outside.edge(at);
                router::end(edge);
                outside.has_another_edge(at, edge).await;
            }
            Self::EdgeReplaced => {
                let edge = outside.edge(at);
                hang_up(edge);
                outside.has_another_edge(at, edge).await;
            }
            Self::EngineStopped => outside.machines.engines[at].end(Signal::TERM),
            Self::RulesFlushed => {
                ran(outside.machines.at_router(at).args(["nft", "flush", "ruleset"]));
            }
            Self::Lost(lost) => outside.machines.lose(at, lost),
        }
    }

    pub(crate) async fn end(self, outside: &mut Outside, at: usize) {
        match self {
            Self::DaemonKilled => outside.machines.restart(at).await,
            Self::DaemonFrozen => outside.machines.cluster.nodes[at].resume(),
            Self::RouterFrozen => signal_router(outside, at, Signal::CONT),
            Self::RouterKilled | Self::EdgeKilled | Self::EdgeReplaced => {}
            Self::EngineStopped => outside.machines.engines[at].boot().await,
            Self::RulesFlushed => rules_are_back(outside, at).await,
            Self::Lost(_) => outside.machines.lose_nothing(),
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

/// A fault of a machine, with its times.
#[derive(Debug)]
pub(crate) struct Spell {
    pub(crate) fault: Fault,
    pub(crate) at: usize,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

impl Spell {
    /// Whether a request could not be answered because of it; most faults fail no request at all.
    pub(crate) fn excuses(&self, failure: &Failure) -> bool {
        let is_own = failure.edge == Outside::address(self.at);
        let is_open = failure.asked + ANSWERED >= self.begun;
        // What is in flight to an instance is lost with it, unless it can be repeated.
        let in_flight =
            is_open && failure.kind != Kind::Get && failure.asked <= self.begun + UNNOTICED;
        match self.fault {
            Fault::Lost(_) => {
                in_flight || is_own && is_open && failure.asked <= self.ended + RECONNECTED
            }
            Fault::RouterFrozen => in_flight,
            Fault::EdgeKilled => is_own && failure.connected.is_some_and(|at| at <= self.begun),
            Fault::DaemonKilled
            | Fault::DaemonFrozen
            | Fault::RouterKilled
            | Fault::EdgeReplaced
            | Fault::EngineStopped
            | Fault::RulesFlushed => false,
        }
    }
}
