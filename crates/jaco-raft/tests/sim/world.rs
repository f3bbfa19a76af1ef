//! One simulated cluster: chaos with clients writing, then calm, then the checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use jaco_raft::testing::{self, Journal, Random, Sabotage, SimStorage, Syncing};
use jaco_raft::{
    MembershipError, Options, ProposalLimits, ProposeError, Raft, Reconciler, SnapshotLimits,
};
use turmoil::Sim;

use crate::net;
use crate::oracle::Oracle;

/// Simulated time with faults. Long enough for dozens of crashes; a run takes a second or so.
const CHAOS: Duration = Duration::from_secs(8);
/// Simulated time without faults but with clients, before the power cut that ends every run.
const CALM_WRITES: Duration = Duration::from_secs(1);
/// Resolution of the simulated clock. Each tick costs real time on every host.
const TICK: Duration = Duration::from_millis(2);
/// Simulated time in which everything must have healed.
const CALM: Duration = Duration::from_secs(30);
/// Clients per node; only those at the leader get anywhere.
const CLIENTS: u64 = 2;

/// What every incarnation of every node shares.
#[derive(Clone)]
pub(crate) struct Shared {
    seed: u64,
    nodes: u64,
    sabotage: Sabotage,
    pub(crate) oracle: Oracle,
    pub(crate) handles: Arc<Mutex<BTreeMap<u64, Raft<Journal>>>>,
    /// Writes that a scenario wants made by one node: node, serial number, payload.
    pub(crate) orders: Arc<Mutex<Vec<(u64, u64, Bytes)>>>,
    incarnations: Arc<AtomicU64>,
    /// Set when chaos ends: clients stop.
    calm: Arc<AtomicBool>,
}

impl Shared {
    pub(crate) fn new(seed: u64, nodes: u64, sabotage: Sabotage) -> Self {
        Self {
            seed,
            nodes,
            sabotage,
            oracle: Oracle::default(),
            handles: Arc::default(),
            orders: Arc::default(),
            incarnations: Arc::default(),
            calm: Arc::default(),
        }
    }

    /// The cluster without clients: writes come from `orders` alone.
    pub(crate) fn without_clients(self) -> Self {
        self.calm.store(true, Ordering::Relaxed);
        self
    }
}

/// What happened in a run that found nothing.
pub(crate) struct Report {
    crashes: u64,
    cuts: u64,
    summary: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} crashes, {} cuts, {}", self.crashes, self.cuts, self.summary)
    }
}

/// Runs one seed to its end; `Err` says which promise was broken.
pub(crate) fn run(seed: u64, syncing: Syncing) -> Result<Report, String> {
    let mut random = Random::new(seed);
    let nodes = if random.chance(250) { 5 } else { 3 };
    let shared = Shared::new(seed, nodes, Sabotage::None);
    let storages: BTreeMap<u64, SimStorage> =
        (1..=nodes).map(|id| (id, SimStorage::new(random.number(), syncing))).collect();
    let mut sim = turmoil::Builder::new()
        .rng_seed(random.number())
        .tick_duration(TICK)
        .simulation_duration(CHAOS + CALM_WRITES + CALM + Duration::from_secs(60))
        .min_message_latency(Duration::from_micros(200))
        .max_message_latency(Duration::from_millis(2 + random.below(30)))
        .fail_rate(0.0)
        .udp_capacity(4096)
        .build();
    start_nodes(&mut sim, &shared, &storages);
    let rates =
        Rates { crash: 2 + random.below(12), cut: random.below(10), repair: 1 + random.below(8) };
    let down = BTreeMap::new();
    let mut chaos = Chaos { random, nodes, storages, down, rates, crashes: 0, cuts: 0 };
    while sim.elapsed() < CHAOS {
        step(&mut sim)?;
        shared.oracle.check_now()?;
        chaos.strike(&mut sim, &shared);
    }
    chaos.heal(&mut sim);
    let until = sim.elapsed() + CALM_WRITES;
    while sim.elapsed() < until {
        step(&mut sim)?;
        shared.oracle.check_now()?;
    }
    // The lights go out while clients are writing, for all nodes at once.
    shared.calm.store(true, Ordering::Relaxed);
    chaos.crash(&mut sim, &shared, Victims::All);
    chaos.heal(&mut sim);
    settle(&mut sim, &shared)?;
    let handles = shared.handles.lock().unwrap().clone();
    shared.oracle.check_end(&handles)?;
    Ok(Report { crashes: chaos.crashes, cuts: chaos.cuts, summary: shared.oracle.summary() })
}

pub(crate) fn start_nodes(
    sim: &mut Sim<'_>,
    shared: &Shared,
    storages: &BTreeMap<u64, SimStorage>,
) {
    for (&id, storage) in storages {
        let (shared, storage) = (shared.clone(), storage.clone());
        sim.host(name(id), move || node(id, shared.clone(), storage.clone()));
    }
}

pub(crate) fn step(sim: &mut Sim<'_>) -> Result<(), String> {
    sim.step().map(|_| ()).map_err(|error| format!("a node ended: {error}"))
}

/// Runs until all nodes agree on one last write, made after the faults have ended.
pub(crate) fn settle(sim: &mut Sim<'_>, shared: &Shared) -> Result<(), String> {
    let end = sim.elapsed() + CALM;
    while sim.elapsed() < end {
        step(sim)?;
        shared.oracle.check_now()?;
        if settled(shared) {
            return Ok(());
        }
    }
    let handles = shared.handles.lock().unwrap();
    let statuses: Vec<_> = handles.values().map(|node| format!("{:?}", node.status())).collect();
    Err(format!("did not heal in {CALM:?}: {}", statuses.join("\n")))
}

fn settled(shared: &Shared) -> bool {
    let handles = shared.handles.lock().unwrap();
    if handles.len() as u64 != shared.nodes {
        return false;
    }
    let statuses: Vec<_> = handles.values().map(Raft::status).collect();
    let Some(leader) = statuses.iter().find(|status| status.is_leader()) else { return false };
    statuses.iter().all(|status| {
        status.term == leader.term
            && status.applied == leader.last_log
            && status.last_log == leader.last_log
            && status.voters.len() as u64 == shared.nodes
            && !status.joint
    })
}

/// The faults.
struct Chaos {
    random: Random,
    nodes: u64,
    storages: BTreeMap<u64, SimStorage>,
    /// Crashed nodes and when they return.
    down: BTreeMap<u64, Duration>,
    rates: Rates,
    crashes: u64,
    cuts: u64,
}

/// Chances per tick, in a thousand. Each seed draws its own: long quiet cuts find other things than storms.
struct Rates {
    crash: u64,
    cut: u64,
    repair: u64,
}

/// Whom a crash hits.
#[derive(Clone, Copy)]
enum Victims {
    One(u64),
    All,
}

impl Victims {
    fn include(self, id: u64) -> bool {
        match self {
            Self::One(one) => one == id,
            Self::All => true,
        }
    }
}

impl Chaos {
    /// Called once per tick.
    fn strike(&mut self, sim: &mut Sim<'_>, shared: &Shared) {
        let now = sim.elapsed();
        let due: Vec<u64> =
            self.down.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for id in due {
            self.down.remove(&id);
            sim.bounce(name(id));
        }
        if self.random.chance(self.rates.crash) {
            let all = self.random.chance(80);
            let one = Victims::One(1 + self.random.below(self.nodes));
            self.crash(sim, shared, if all { Victims::All } else { one });
        }
        if self.random.chance(self.rates.cut) {
            self.cut(sim);
        }
        if self.random.chance(self.rates.repair) {
            repair_all(sim, self.nodes);
        }
    }

    fn crash(&mut self, sim: &mut Sim<'_>, shared: &Shared, victims: Victims) {
        let back = sim.elapsed() + Duration::from_millis(1 + self.random.below(1500));
        for id in (1..=self.nodes).filter(|id| victims.include(*id)) {
            if self.down.contains_key(&id) {
                continue;
            }
            sim.crash(name(id));
            shared.handles.lock().unwrap().remove(&id);
            self.storages[&id].crash();
            self.down.insert(id, back);
            self.crashes += 1;
        }
    }

    /// Cuts a link in one or both directions, or a node off from all others.
    fn cut(&mut self, sim: &Sim<'_>) {
        self.cuts += 1;
        let a = 1 + self.random.below(self.nodes);
        let b = 1 + (a + self.random.below(self.nodes - 1)) % self.nodes;
        match self.random.below(3) {
            0 => sim.partition_oneway(name(a), name(b)),
            1 => sim.partition(name(a), name(b)),
            _ => {
                for other in (1..=self.nodes).filter(|other| *other != a) {
                    sim.partition(name(a), name(other));
                }
            }
        }
    }

    fn heal(&mut self, sim: &mut Sim<'_>) {
        repair_all(sim, self.nodes);
        for id in std::mem::take(&mut self.down).into_keys() {
            sim.bounce(name(id));
        }
    }
}

pub(crate) fn repair_all(sim: &Sim<'_>, nodes: u64) {
    for a in 1..=nodes {
        for b in (a + 1)..=nodes {
            sim.repair(name(a), name(b));
        }
    }
}

pub(crate) fn name(id: u64) -> String {
    format!("n{id}")
}

/// One life of a node, from start to crash.
async fn node(
    id: u64,
    shared: Shared,
    storage: SimStorage,
) -> Result<(), Box<dyn std::error::Error>> {
    let life = shared.incarnations.fetch_add(1, Ordering::Relaxed);
    let mut options = Options::new(id, "sim", "unused");
    options.seed = Some(shared.seed ^ (life << 16) ^ id);
    options.snapshots =
        SnapshotLimits { entries_between: 100, entries_kept: 30, ..SnapshotLimits::default() };
    options.proposals = ProposalLimits { deadline: Duration::from_secs(2), ..options.proposals };
    let (transport, socket) = net::bind(Arc::clone(&shared.handles)).await?;
    let machine = Journal::default();
    let raft = testing::open(options, machine, transport, &storage, shared.sabotage).await?;
    shared.handles.lock().unwrap().insert(id, raft.clone());
    for client in 0..CLIENTS {
        let random = Random::new(shared.seed ^ (life << 32) ^ (id << 8) ^ client);
        drop(tokio::spawn(write_and_read(raft.clone(), shared.clone(), random)));
    }
    drop(tokio::spawn(obey(raft.clone(), shared.clone())));
    drop(tokio::spawn(manage(raft.clone(), shared.clone())));
    net::serve(socket, raft, shared.oracle.clone()).await?;
    Ok(())
}

/// A client of its own node: writes when that leads, and sometimes reads.
async fn write_and_read(raft: Raft<Journal>, shared: Shared, mut random: Random) {
    while !shared.calm.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(5 + random.below(50))).await;
        if random.chance(200) {
            let must_see = shared.oracle.must_see();
            if raft.linearizable_here().await.is_ok() {
                shared.oracle.read(raft.id(), must_see, raft.with_state(Journal::applied));
            }
            continue;
        }
        let filler = usize::try_from(random.below(64)).unwrap();
        let (serial, payload) = shared.oracle.payload(filler);
        match raft.propose(payload.clone()).await {
            Ok(applied) => shared.oracle.acknowledge(serial, applied.index, payload),
            Err(ProposeError::Unknown) => shared.oracle.unknown(),
            Err(_) => {}
        }
    }
}

/// Makes the writes that a scenario orders from this node.
async fn obey(raft: Raft<Journal>, shared: Shared) {
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mine = {
            let mut orders = shared.orders.lock().unwrap();
            let at = orders.iter().position(|(node, ..)| *node == raft.id());
            at.map(|at| orders.remove(at))
        };
        let Some((node, serial, payload)) = mine else { continue };
        match raft.propose(payload.clone()).await {
            Ok(applied) => shared.oracle.acknowledge(serial, applied.index, payload),
            // Nothing was written, so the order stands.
            Err(ProposeError::NotLeader { .. } | ProposeError::QuorumLost) => {
                shared.orders.lock().unwrap().push((node, serial, payload));
            }
            Err(_) => {}
        }
    }
}

/// What a daemon does about membership: founds the cluster, adds the others, keeps the policy.
async fn manage(raft: Raft<Journal>, shared: Shared) {
    let mut reconciler = Reconciler::new(raft.clone(), Duration::from_millis(200));
    if raft.id() == 1 && !raft.status().is_initialized() {
        drop(raft.initialize(name(1)).await);
    }
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let status = raft.status();
        if !status.is_leader() {
            continue;
        }
        for id in (1..=shared.nodes).filter(|id| !status.members.contains_key(id)) {
            match raft.add_learner(id, name(id)).await {
                Ok(()) | Err(MembershipError::Busy | MembershipError::Unknown) => {}
                Err(_) => break,
            }
        }
        // A step that is refused or interrupted is decided anew at the next tick.
        drop(reconciler.tick(&BTreeSet::new()).await);
    }
}
