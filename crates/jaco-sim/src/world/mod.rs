//! The simulated cluster and its event queue.

mod agent;
mod agreement;
mod consumers;
mod disks;
mod faults;
mod jobs;
mod logins;
mod machines;
mod membership;
mod rebalance;
mod requests;
mod routers;

use std::collections::BTreeMap;

use jaco_agent::fake::{Behaviour, ImageScript};
use jaco_agent::{Event, RegistryCredentials};
use jaco_scheduler::input::EngineSignal;
use jaco_state::Outcome;
use jaco_store::ProposeError;
use jaco_types::{
    Hostname, ImageDigest, ImageNeed, ImageReadiness, Millis, NodeId, RegistryName, StateIndex,
    Timestamp,
};

use crate::consensus::{Consensus, Origin, Proposal};
use crate::consumer::Acknowledgement;
use crate::invariants::{Checker, Violation};
use crate::machine::Machine;
use crate::network::{MachineIx, Network};
use crate::rng::{Rng, Stream};
use crate::sabotage::Sabotage;
use crate::world::machines::{Machines, Timer};

pub(crate) use faults::{Harm, Registry, usual_behaviour};
pub(crate) use logins::login;
pub(crate) use requests::{Request, RequestState};

/// When the simulated time begins.
const BEGINNING: Timestamp = Timestamp(1_000_000);
/// How often a node sends a heartbeat.
const HEARTBEAT: Millis = Millis(1000);
/// How often an agent looks at everything without an event.
const AGENT_TICK: Millis = Millis(2000);
/// After how many events of one moment SIM-14 is checked.
const AT_ONCE_LOOK: u32 = 1_000;

/// A simulated cluster.
#[derive(Debug)]
pub struct World {
    pub(crate) now: Timestamp,
    pub(crate) machines: Machines,
    pub(crate) network: Network,
    pub(crate) consensus: Consensus,
    pub(crate) checker: Checker,
    pub(crate) requests: Vec<Request>,
    queue: BTreeMap<(Timestamp, u64), Happening>,
    sequence: u64,
    /// How long routers take.
    routing: Rng,
    images: BTreeMap<String, ImageScript>,
    /// The digests of the registry's tags.
    tags: BTreeMap<String, ImageDigest>,
    /// What registries want to be told; the others need no login.
    wanted_logins: BTreeMap<RegistryName, RegistryCredentials>,
    behaviours: BTreeMap<String, Behaviour>,
    election: Election,
    sabotage: Option<Sabotage>,
    last_commit_at: Timestamp,
    /// How many things happened at the present moment.
    at_once: u32,
}

/// Whether an election is about to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Election {
    None,
    Coming,
}

/// Something that is going to happen.
#[derive(Debug)]
enum Happening {
    /// A proposal reaches the presumed leader.
    Arrive { to: MachineIx, term: u64, proposal: Box<Proposal> },
    /// A majority may have acknowledged an entry.
    Agree { term: u64 },
    /// The outcome of a proposal reaches its proposer, if this machine can still tell.
    Answer { from: MachineIx, origin: Origin, result: Result<Outcome, ProposeError> },
    /// Entries reach a machine that lags behind.
    Deliver { from: MachineIx, to: MachineIx, upto: StateIndex },
    /// The election timeout of a voter expires.
    Election,
    /// The lease of a leader without a quorum expires.
    StepDown { machine: MachineIx, term: u64 },
    /// A heartbeat reaches the leader.
    Signal { to: MachineIx, sent_at: Timestamp, status: Box<NodeSignalSent> },
    /// It is time to look for hot nodes.
    Rebalance { machine: MachineIx, term: u64 },
    /// It is time to look which runs of jobs are due.
    LookAtJobs { machine: MachineIx, term: u64 },
    /// It is time for a heartbeat.
    Heartbeat { machine: MachineIx, life: u64 },
    /// It is time to look at everything.
    Tick { machine: MachineIx, life: u64 },
    /// It is time to send observations.
    Report { machine: MachineIx, life: u64 },
    /// A client tries (again).
    Try { request: usize },
    /// A daemon looks at what its router should hold.
    PlanRouter { machine: MachineIx },
    /// A router takes its next step.
    Route { machine: MachineIx },
    /// A process that keeps a router starts in the place of another.
    StartRouter { machine: MachineIx },
    /// Names that a router has removed are forgotten.
    Forget { machine: MachineIx },
    /// It is time to renew the lease of a router as an endpoint consumer.
    Renew { machine: MachineIx, life: u64 },
    /// The acknowledgement of a router reaches the leader.
    Acknowledge { to: MachineIx, news: Acknowledgement },
}

/// The content of a heartbeat.
#[derive(Debug)]
struct NodeSignalSent {
    node: NodeId,
    engine: EngineSignal,
    images: BTreeMap<ImageNeed, ImageReadiness>,
    load_percent: Option<u64>,
}

impl World {
    /// A cluster of one node, which created it.
    #[must_use]
    pub fn new(seed: u64, first: Hostname) -> Self {
        let mut world = Self {
            now: BEGINNING,
            machines: Machines::default(),
            network: Network::new(Rng::new(seed, Stream::Network)),
            consensus: Consensus::default(),
            checker: Checker::new(),
            requests: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            routing: Rng::new(seed, Stream::Routers),
            images: BTreeMap::new(),
            tags: BTreeMap::new(),
            wanted_logins: BTreeMap::new(),
            behaviours: BTreeMap::new(),
            election: Election::None,
            sabotage: None,
            last_commit_at: BEGINNING,
            at_once: 0,
        };
        world.create(first);
        world
    }

    /// Puts a defect in.
    pub fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = Some(sabotage);
        self.checker.sabotage(sabotage);
    }

    /// How long the cluster has lived.
    #[must_use]
    pub fn age(&self) -> Millis {
        self.now.since(BEGINNING)
    }

    /// What was found broken so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        self.checker.violations()
    }

    /// Lets this much time pass.
    pub fn advance(&mut self, length: Millis) {
        let end = self.now.after(length);
        while self.step(end) == Step::Happened && self.violations().is_empty() {}
        self.now = end;
    }

    /// Lets time pass until `done`, for at most `limit`.
    pub(crate) fn run_until(&mut self, limit: Millis, done: impl Fn(&Self) -> bool) -> Reached {
        let end = self.now.after(limit);
        while self.violations().is_empty() {
            if done(self) {
                return Reached::Yes;
            }
            if self.step(end) == Step::Nothing {
                self.now = end;
                break;
            }
        }
        if done(self) { Reached::Yes } else { Reached::No }
    }

    /// How long nothing was agreed on.
    pub(crate) fn quiet_for(&self) -> Millis {
        self.now.since(self.last_commit_at)
    }

    fn plan_in(&mut self, after: Millis, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((self.now.after(after), self.sequence), happening);
    }

    /// Sends something over the network: it is lost if the link is closed.
    fn send(&mut self, from: MachineIx, to: MachineIx, happening: Happening) {
        let latency = if from == to { Millis(0) } else { self.network.latency() };
        if self.network.is_open(from, to) {
            self.plan_in(latency, happening);
        }
    }

    /// The next thing happens, if it does so by `end`. Timers go before messages of the same
    /// moment.
    fn step(&mut self, end: Timestamp) -> Step {
        let timer = match self.sabotage {
            Some(Sabotage::WakeInCircles) => Some((self.now, Timer::Agent(MachineIx(0)))),
            _ => self.machines.next_timer(),
        };
        let message = self.queue.keys().next().map(|(at, _)| *at);
        let timer_first = timer.filter(|(at, _)| message.is_none_or(|message| *at <= message));
        let Some(at) = timer_first.map(|(at, _)| at).or(message).filter(|at| *at <= end) else {
            return Step::Nothing;
        };
        self.at_once = if at > self.now { 0 } else { self.at_once + 1 };
        self.now = at.max(self.now);
        if self.at_once > 0 && self.at_once.is_multiple_of(AT_ONCE_LOOK) {
            let next = format!("{timer:?} and {:?}", self.queue.values().next());
            self.checker.at_once(self.at_once, &next);
        }
        if let Some((_, timer)) = timer_first {
            self.ring(timer);
        } else if let Some((_, happening)) = self.queue.pop_first() {
            self.happen(happening);
        }
        Step::Happened
    }

    fn ring(&mut self, timer: Timer) {
        match timer {
            Timer::Engine(ix) => self.poll_engine(ix),
            Timer::Agent(ix) => self.tell_agent(ix, Event::Wake),
            Timer::Pass(ix) => self.pass(ix),
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive { to, term, proposal } => self.arrive(to, term, *proposal),
            Happening::Agree { term } => self.agree(term),
            Happening::Answer { from, origin, result } => self.answer(from, origin, result),
            Happening::Deliver { from, to, upto } => self.deliver(from, to, upto),
            Happening::Election => self.hold_election(),
            Happening::StepDown { machine, term } => self.step_down(machine, term),
            Happening::Signal { to, sent_at, status } => self.signal(to, sent_at, *status),
            Happening::Rebalance { machine, term } => self.rebalance(machine, term),
            Happening::LookAtJobs { machine, term } => self.look_at_jobs(machine, term),
            Happening::Heartbeat { machine, life } => self.heartbeat(machine, life),
            Happening::Tick { machine, life } => self.tick(machine, life),
            Happening::Report { machine, life } => self.report(machine, life),
            Happening::Try { request } => self.try_request(request),
            Happening::PlanRouter { machine } => self.plan_router(machine),
            Happening::Route { machine } => self.route(machine),
            Happening::StartRouter { machine } => self.start_router(machine),
            Happening::Forget { machine } => self.tell_released(machine),
            Happening::Renew { machine, life } => self.renew(machine, life),
            Happening::Acknowledge { to, news } => self.hear_of_endpoints(to, news),
        }
    }

    pub(crate) fn machine(&self, ix: MachineIx) -> &Machine {
        &self.machines[ix.0]
    }

    pub(crate) fn find(&self, host: &str) -> Option<MachineIx> {
        let is_named = |ix: &MachineIx| self.machine(*ix).hostname.as_str() == host;
        // One that was removed may have joined again, as another node.
        self.all().filter(is_named).last()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = MachineIx> + use<> {
        (0..self.machines.len()).map(MachineIx)
    }
}

/// Whether anything was left to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Happened,
    Nothing,
}

/// Whether a state was reached in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    Yes,
    No,
}
