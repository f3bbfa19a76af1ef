//! When the loop plans, and whose silence it may judge, by tokio's paused clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jaco_controller::{Controller, Options, SignalBook};
use jaco_scheduler::input::EngineSignal;
use jaco_state::command::NodeReport;
use jaco_state::{ClusterState, Command};
use jaco_store::{Applied, Clock, Leadership, MemStore, Proposal, ProposeError, RaftRole, Store};
use jaco_types::{Identity, NodeFacts, NodeId, NodeStatus, StateIndex, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use crate::world::{NOW, deploy, init};

const NODE: NodeId = NodeId(1);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Time as tokio has it: wall clock and steady clock go together.
#[derive(Debug, Clone, Copy)]
struct Paused(Instant);

impl Paused {
    fn millis(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
}

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp(NOW.0 + self.millis())
    }
}

/// A store in memory that records when the loop looks at the state, which is once in a pass, and when it
/// proposes.
struct Recorder {
    store: MemStore,
    clock: Paused,
    passes: Mutex<Vec<u64>>,
    proposals: Mutex<Vec<u64>>,
    /// How long the next proposal takes.
    delay_ms: AtomicU64,
}

#[async_trait]
impl Store for Recorder {
    async fn propose(&self, proposal: Proposal) -> Result<Applied, ProposeError> {
        self.proposals.lock().unwrap().push(self.clock.millis());
        sleep(Duration::from_millis(self.delay_ms.swap(0, Ordering::Relaxed))).await;
        self.store.propose(proposal).await
    }

    async fn catch_up(&self) -> Result<StateIndex, ProposeError> {
        self.store.catch_up().await
    }

    fn snapshot(&self) -> ClusterState {
        self.passes.lock().unwrap().push(self.clock.millis());
        self.store.snapshot()
    }

    fn watch_index(&self) -> watch::Receiver<StateIndex> {
        self.store.watch_index()
    }

    fn watch_leadership(&self) -> watch::Receiver<Leadership> {
        self.store.watch_leadership()
    }
}

/// The loop, running.
struct Rig {
    log: Arc<Recorder>,
    signals: Arc<SignalBook>,
    clock: Paused,
    stop: CancellationToken,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Rig {
    /// Runs the loop over a store that was prepared, at time zero.
    async fn run(store: MemStore) -> Self {
        let clock = Paused(Instant::now());
        let (passes, proposals, delay_ms) = Default::default();
        let log = Arc::new(Recorder { store, clock, passes, proposals, delay_ms });
        let (signals, stop) = (Arc::new(SignalBook::default()), CancellationToken::new());
        let store = Arc::clone(&log) as Arc<dyn Store>;
        let controller =
            Controller::new(store, Arc::clone(&signals), Arc::new(clock), Options::default());
        tokio::spawn(controller.run(stop.clone()));
        sleep(MS).await;
        Self { log, signals, clock, stop }
    }

    /// One node that is ready and one service; what the loop does is recorded.
    async fn at_rest() -> Self {
        let rig = Self::run(prepared(&[init()]).await).await;
        rig.live(2).await;
        assert_eq!(rig.status(), NodeStatus::Ready);
        rig
    }

    /// The node is heard of once a second.
    async fn live(&self, seconds: u64) {
        for _ in 0..seconds {
            self.signals.record(NODE, EngineSignal::Up, self.clock.now());
            sleep(SECOND).await;
        }
    }

    /// An entry that nothing follows from.
    async fn event(&self) {
        write(&self.log.store, report()).await;
    }

    fn status(&self) -> NodeStatus {
        self.log.store.snapshot().nodes.get(&NODE).unwrap().status
    }

    /// When the passes ran since this was asked last.
    fn passes(&self) -> Vec<u64> {
        std::mem::take(&mut self.log.passes.lock().unwrap())
    }

    fn proposals(&self) -> Vec<u64> {
        std::mem::take(&mut self.log.proposals.lock().unwrap())
    }
}

async fn write(store: &MemStore, command: Command) {
    let proposal = Proposal { by: Identity::Local { uid: 0 }, request: None, command };
    store.propose(proposal).await.expect("the store leads");
}

fn report() -> Command {
    NodeReport::new(NODE, "127.0.0.1:1".to_owned(), NodeFacts::default()).into()
}

async fn prepared(commands: &[Command]) -> MemStore {
    let store = MemStore::new(NODE);
    store.set_now(NOW);
    for command in commands {
        write(&store, command.clone()).await;
    }
    store
}

fn leads(term: u64) -> Leadership {
    Leadership { leader: Some(NODE), term, role: RaftRole::Leader }
}

fn follows(term: u64) -> Leadership {
    Leadership { leader: Some(NodeId(2)), term, role: RaftRole::Follower }
}

/// R-LOOP-1: a follower looks at nothing and proposes nothing, whatever there is to do, and whatever it
/// hears. Once it leads, it plans at once.
#[tokio::test(start_paused = true)]
async fn follower_never_plans() {
    let store = prepared(&[init(), deploy(3, 1)]).await;
    store.set_leadership(follows(1));
    let rig = Rig::run(store).await;
    rig.live(300).await;
    assert_eq!((rig.passes(), rig.proposals()), (vec![], vec![]));
    rig.log.store.set_leadership(leads(2));
    sleep(MS).await;
    assert_eq!(rig.passes().len(), 1);
    assert_eq!(rig.proposals().len(), 1);
}

/// R-LOOP-1: who loses the lead while a plan is in progress makes no other.
#[tokio::test(start_paused = true)]
async fn lost_leadership_ends_planning() {
    let rig = Rig::at_rest().await;
    rig.passes();
    rig.proposals();
    rig.log.delay_ms.store(1_000, Ordering::Relaxed);
    write(&rig.log.store, deploy(3, 1)).await;
    sleep(500 * MS).await;
    assert_eq!((rig.passes().len(), rig.proposals().len()), (1, 1), "a plan is in progress");
    rig.log.store.set_leadership(follows(2));
    rig.live(300).await;
    assert_eq!((rig.passes(), rig.proposals()), (vec![], vec![]));
    assert_eq!(rig.log.store.snapshot().slots.len(), 0);
}

/// R-LOOP-2: without any event a pass runs every 30 s.
#[tokio::test(start_paused = true)]
async fn pass_runs_every_thirty_seconds() {
    let rig = Rig::run(prepared(&[]).await).await;
    sleep(100 * SECOND).await;
    assert_eq!(rig.passes(), [0, 30_000, 60_000, 90_000]);
}

/// R-LOOP-2: an event after a quiet time is planned at once, and a burst once, 50 ms after its last event.
#[tokio::test(start_paused = true)]
async fn burst_is_one_pass_once_it_is_quiet() {
    let rig = Rig::run(prepared(&[]).await).await;
    sleep(999 * MS).await;
    assert_eq!(rig.passes(), [0]);
    rig.event().await;
    for _ in 0..3 {
        sleep(20 * MS).await;
        rig.event().await;
    }
    sleep(SECOND).await;
    assert_eq!(rig.passes(), [1_000, 1_110]);
}

/// R-LOOP-2: a stream of events that never pauses delays a pass by 250 ms at most.
#[tokio::test(start_paused = true)]
async fn steady_events_do_not_starve_the_pass() {
    let rig = Rig::run(prepared(&[]).await).await;
    sleep(999 * MS).await;
    rig.passes();
    for _ in 0..200 {
        rig.event().await;
        sleep(10 * MS).await;
    }
    let expected: Vec<u64> = (0..8).map(|pass| 1_000 + 260 * pass).collect();
    assert_eq!(rig.passes(), expected, "250 ms after the first event that follows a pass");
}

/// R-NODE-1, A10: a leader that did not run for a minute received no heartbeats, not even its own: no node
/// counts as down because of that.
#[tokio::test(start_paused = true)]
async fn frozen_leader_declares_nobody_down() {
    let rig = Rig::at_rest().await;
    rig.proposals();
    advance(60 * SECOND).await;
    sleep(SECOND).await;
    rig.live(60).await;
    assert_eq!(rig.proposals(), [0; 0]);
    assert_eq!(rig.status(), NodeStatus::Ready);
}

/// R-NODE-1: the time after a freeze counts: who stays silent then is down 8 s after the leader woke.
#[tokio::test(start_paused = true)]
async fn silence_after_a_freeze_counts() {
    let rig = Rig::at_rest().await;
    advance(60 * SECOND).await;
    let woke = rig.clock.millis();
    sleep(7 * SECOND).await;
    assert_eq!(rig.status(), NodeStatus::Ready);
    sleep(2 * SECOND).await;
    assert_eq!(rig.status(), NodeStatus::Down);
    assert!(rig.proposals().last().unwrap() - woke < 8_100);
}

/// R-NODE-1: a leader that waits for a proposal runs, and a node that is silent meanwhile is down in time.
#[tokio::test(start_paused = true)]
async fn slow_proposal_is_no_freeze() {
    let rig = Rig::at_rest().await;
    rig.log.delay_ms.store(20_000, Ordering::Relaxed);
    write(&rig.log.store, deploy(3, 1)).await;
    sleep(19 * SECOND).await;
    assert_eq!(rig.status(), NodeStatus::Ready, "no pass runs meanwhile");
    sleep(2 * SECOND).await;
    assert_eq!(rig.status(), NodeStatus::Down);
}
