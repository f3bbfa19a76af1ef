//! A machine: its container engine, its clock, and the daemon that may or may not run on it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use jaco_agent::engine::{ContainerId, ContainerStatus, Health, ObservedContainer};
use jaco_agent::fake::FakeDriver;
use jaco_agent::{FakeHost, Owner};
use jaco_store::ClusterTime;
use jaco_store::cluster_time::Reading;
use jaco_types::{
    ClusterId, Hostname, InstanceId, Millis, NodeId, Ordinal, ReplicaId, ServiceKey, StateIndex,
    Timestamp,
};

use crate::daemon::Daemon;
use crate::router::Router;

/// A machine of the cluster.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) hostname: Hostname,
    pub(crate) node: NodeId,
    pub(crate) driver: FakeDriver,
    pub(crate) daemon: Option<Daemon>,
    pub(crate) membership: Membership,
    /// How many daemons were started here; work of an earlier one has no effect.
    pub(crate) lives: u64,
    clock_offset: i64,
    /// By how many thousandths the clock that nobody sets goes too fast.
    drift_permille: i64,
    /// How much of its processors is in use, in percent, where that is measured.
    pub(crate) load_percent: Option<u64>,
    pub(crate) disk: Disk,
    /// When its daemon was last in contact with a leader, by true time.
    pub(crate) contact_at: Timestamp,
    /// What was committed then.
    pub(crate) committed_at_contact: StateIndex,
    pub(crate) router: Router,
}

/// How full the disk of a machine is, of its daemon and its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Free,
    /// Its daemon says so to the leader. Everything works.
    NearlyFull,
    /// Nothing can be written. The daemon says so, too, as long as it has nothing to write.
    Full,
}

/// Whether a machine is a node of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    Member,
    /// It was removed by this entry, and has not heard of it.
    Removed(StateIndex),
    /// It has, and stops what it runs. Its daemon does not start again.
    Dismissed,
}

/// The cluster that the simulated one is.
pub(crate) fn cluster_id() -> ClusterId {
    ClusterId::new("5111a7ed5111a7ed5111a7ed5111a7ed").expect("32 hex digits")
}

impl Machine {
    pub(crate) fn new(hostname: Hostname, node: NodeId) -> Self {
        let owner = Owner { cluster: cluster_id(), node };
        let driver = FakeDriver::new(FakeHost::new(owner));
        Self {
            hostname,
            node,
            driver,
            membership: Membership::Member,
            daemon: None,
            lives: 0,
            clock_offset: 0,
            drift_permille: 0,
            load_percent: None,
            disk: Disk::Free,
            contact_at: Timestamp(0),
            committed_at_contact: StateIndex(0),
            router: Router::default(),
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner { cluster: cluster_id(), node: self.node }
    }

    /// What its clock shows. Containers live by true time: an engine's stamps are only shown.
    fn wall(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_add_signed(self.clock_offset))
    }

    /// By how much its clock is ahead of the true time, in milliseconds.
    pub(crate) fn clock_offset(&self) -> i64 {
        self.clock_offset
    }

    /// The cluster's time as its daemon knows it.
    pub(crate) fn cluster_time(&self, now: Timestamp) -> Timestamp {
        let reading = self.reading(now);
        let daemon = self.daemon.as_ref();
        daemon.map_or(reading.wall, |daemon| daemon.time.borrow_mut().now(reading))
    }

    /// What its agent waits by.
    pub(crate) fn own_time(&self, now: Timestamp) -> Timestamp {
        let reading = self.reading(now);
        let daemon = self.daemon.as_ref();
        daemon.map_or(reading.wall, |daemon| daemon.own_time.borrow_mut().now(reading))
    }

    /// Its daemon is told the cluster's time by the leader.
    pub(crate) fn follow(&self, now: Timestamp, leader: Timestamp) {
        if let Some(daemon) = &self.daemon {
            daemon.time.borrow_mut().follow(self.reading(now), leader);
            daemon.knows_time.set(true);
        }
    }

    fn reading(&self, now: Timestamp) -> Reading {
        Reading { wall: self.wall(now), steady: Millis(now.0) }
    }

    /// When one of its times will be this, about: it may pass a little faster or slower than the true time.
    pub(crate) fn true_time(&self, shown: Timestamp, time: &RefCell<ClusterTime>) -> Timestamp {
        Timestamp(shown.0.saturating_add_signed(-time.borrow().ahead() - self.clock_offset))
    }

    /// For how long it was without contact, by its own clock.
    pub(crate) fn silence(&self, now: Timestamp) -> Millis {
        let passed = i64::try_from(now.since(self.contact_at).0).unwrap_or(i64::MAX);
        let shown = passed.saturating_mul(1000 + self.drift_permille) / 1000;
        Millis(u64::try_from(shown).unwrap_or_default())
    }

    pub(crate) fn drift(&mut self, permille: i64) {
        self.drift_permille = permille.max(-999);
    }

    pub(crate) fn step_clock(&mut self, millis: i64) {
        self.clock_offset = self.clock_offset.saturating_add(millis);
    }

    /// Containers of other owners on the same engine: another cluster's, and another node's of this
    /// cluster. They carry the name of an instance of ours where there is one, so that only the
    /// owner tells them apart.
    pub(crate) fn foreign(&self, now: Timestamp) -> Vec<ObservedContainer> {
        let own = self.driver.host.any(now);
        let (instance, service) = match own {
            Some(own) => (own.instance, own.service),
            None => invented(),
        };
        let other_cluster = ClusterId::new(&"0".repeat(32)).expect("32 hex digits");
        let other_node = NodeId(self.node.0 + 1_000_000);
        let owners = [
            Owner { cluster: other_cluster, node: self.node },
            Owner { cluster: cluster_id(), node: other_node },
        ];
        let seen = |(number, owner): (usize, Owner)| ObservedContainer {
            instance: instance.clone(),
            service: service.clone(),
            owner,
            container: ContainerId(format!("foreign-{}-{number}", self.node).into()),
            status: ContainerStatus::Up { health: Health::None, started_at: Timestamp(1) },
            ports: BTreeMap::new(),
            spec_hash: None,
        };
        owners.into_iter().enumerate().map(seen).collect()
    }
}

fn invented() -> (InstanceId, ServiceKey) {
    let service = ServiceKey {
        deployment: "theirs".parse().expect("a valid name"),
        service: "db".parse().expect("a valid name"),
    };
    let replica = ReplicaId::new(&service, &Ordinal::Index(0));
    (InstanceId { replica, raft_index: StateIndex(1) }, service)
}
