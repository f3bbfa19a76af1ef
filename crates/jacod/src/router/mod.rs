//! This daemon's side of the router: it plans what the router of this node should hold, tells the process
//! that keeps it, and knows what holds. It needs no privilege for that, and has none.
//!
//! Nothing happens before the cluster has networks of its own. Members that share a container engine share
//! its router: all of them know what it holds, the lowest that is not down makes its plans.

mod counts;
mod key;
mod planner;
mod probe;
mod trial;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jaco_agent::NetworkGate;
use jaco_net::{RouterClient, RouterStatus};
use jaco_server::Member;
use jaco_store::Store;
use jaco_types::{
    Acknowledgement, InstanceId, Millis, NetworkId, NodeRouter, RouterLink, StateIndex,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until, timeout_at};
use tracing::{info, warn};

use crate::consumer::{self, Absence, Part, Released};
use crate::process::{Process, Program};
use planner::{Order, SitePlanner};
pub(crate) use trial::try_router;

/// The router as an endpoint consumer. Its lease is longer than a restart of its process, shorter than what a node is
/// waited for; one that is away still leads where it led.
const CONSUMER: Part = Part { name: "jacod-net", lease: Millis(5000), absence: Absence::Unknown };

/// The least time between a plan and the next: one deployment's replicas become ready within few entries. The first of
/// them is told at once.
const PLAN_INTERVAL: Duration = Duration::from_millis(5);

/// How long the router may be away or failing before the node counts as one without: a restart of its process
/// moves no replica.
const GRACE: Duration = Duration::from_secs(10);

/// Pauses between attempts to reach the process.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How often a node that has just started looks whether it has caught up.
const CATCH_UP: Duration = Duration::from_millis(100);

/// How long the start of an instance waits before it is reported why.
const WAIT: Duration = Duration::from_secs(3);

/// The router's process, of the configuration that this daemon has, too.
pub(crate) fn program(config: &Path) -> Program {
    let arguments = [OsStr::new("net"), OsStr::new("--config"), config.as_os_str()];
    let arguments = arguments.map(OsStr::to_owned).into();
    Program { name: "router", unit: "jacod-net", arguments }
}

/// What is known of the router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouterView {
    /// What this node reports of it; absent before there is anything to say.
    pub(crate) report: Option<NodeRouter>,
    /// What it holds; absent while it is away.
    status: Option<RouterStatus>,
    /// Why it is away.
    away: Option<String>,
    /// The state of the newest plan that this node has made for it.
    planned: Option<StateIndex>,
}

/// What others see of the router.
#[derive(Debug, Clone)]
pub(crate) struct RouterHandle {
    runtime_dir: PathBuf,
    view: watch::Receiver<RouterView>,
    retry: mpsc::Sender<()>,
}

/// The loop around the connection to the process.
pub(crate) struct RouterLoop {
    runtime_dir: PathBuf,
    process: Process,
    view: watch::Sender<RouterView>,
    retry: mpsc::Receiver<()>,
    /// What replicas that leave wait for.
    released: watch::Sender<Released>,
    /// Since when it does not work.
    failing_since: Option<Instant>,
    /// The state of the newest plan.
    planned: Option<StateIndex>,
}

impl RouterLoop {
    pub(crate) fn new(runtime_dir: PathBuf, process: Process) -> (Self, RouterHandle) {
        let (sender, view) = watch::channel(RouterView::default());
        let (retry, requests) = mpsc::channel(1);
        let released = watch::Sender::new(None);
        let handle = RouterHandle { runtime_dir: runtime_dir.clone(), view, retry };
        let this = Self {
            runtime_dir,
            process,
            view: sender,
            retry: requests,
            released,
            failing_since: None,
            planned: None,
        };
        (this, handle)
    }

    /// Runs until it is dropped. The router goes on without it.
    pub(crate) async fn run(self, member: Arc<Member>) {
        let (released, attached) = (self.released.subscribe(), watch::Sender::default());
        let consumer = consumer::run(Arc::clone(&member), CONSUMER, released, attached);
        tokio::join!(self.keep_plans(&member), consumer);
    }

    async fn keep_plans(mut self, member: &Member) {
        let mut index = member.store.watch_index();
        while member.store.read(|state| state.networks.pool.is_none()) {
            if index.changed().await.is_err() {
                return;
            }
        }
        let mut pause = RECONNECT.0;
        loop {
            match RouterClient::connect(&self.runtime_dir).await {
                Ok(client) => {
                    info!(dir = %self.runtime_dir.display(), "router connected");
                    pause = RECONNECT.0;
                    self.follow(client, member).await;
                    self.released.send_replace(None);
                    warn!("connection to the router lost");
                    self.note_away("its process has ended".to_owned());
                }
                Err(error) => {
                    let why = self.process.ensure(&self.runtime_dir);
                    self.note_away(why.unwrap_or_else(|| error.to_string()));
                    sleep(pause).await;
                    pause = (pause * 2).min(RECONNECT.1);
                }
            }
        }
    }

    /// Makes plans and takes notes, until the connection has ended.
    async fn follow(&mut self, mut client: RouterClient, member: &Member) {
        let (mut status, mut index) = (client.status(), member.store.watch_index());
        let (mut planner, mut planned_at) = (SitePlanner::new(member.id), None::<Instant>);
        loop {
            let current = status.borrow_and_update().clone();
            index.borrow_and_update();
            let state = member.store.snapshot();
            let is_current = member.has_caught_up();
            // Until it has caught up, this node may know less than what the router already holds.
            if (is_current || current.applied() <= Some(state.index))
                && let Some(order) = planner.next(&state, &current)
            {
                self.planned = Some(state.index);
                let told = match order {
                    Order::Whole(plan) => client.hold(state.index, plan).await,
                    Order::Change(base, change) => client.change(base, state.index, &change).await,
                };
                if told.is_err() {
                    return;
                }
                planned_at = Some(Instant::now());
            }
            self.released.send_if_modified(|known| {
                let said = planner.released(&current).map(Acknowledgement::of);
                let is_news = *known != said;
                *known = said;
                is_news
            });
            self.note(current);
            let grace = self.failing_since.map(|since| since + GRACE);
            tokio::select! {
                changed = status.changed() => if changed.is_err() { return },
                changed = index.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if let Some(planned_at) = planned_at {
                        sleep_until((planned_at + PLAN_INTERVAL).into()).await;
                    }
                }
                Some(()) = self.retry.recv() => if client.retry().await.is_err() { return },
                () = until(grace) => {}
                () = sleep(CATCH_UP), if !is_current => {}
            }
        }
    }

    fn note(&mut self, status: RouterStatus) {
        let problem = self.problem_to_report(status.error.clone());
        // The key that it will have counts, once there is one: it takes it when the others know it.
        let key = status.next_key().unwrap_or_else(|| status.key());
        let link = RouterLink { key: key.0, port: status.port, backend: status.backend() };
        let report = Some(NodeRouter { link: Some(link), problem });
        let planned = self.planned;
        self.publish(RouterView { report, status: Some(status), away: None, planned });
    }

    fn note_away(&mut self, why: String) {
        let problem = self.problem_to_report(Some(why.clone()));
        let before = self.view.borrow().report.clone();
        let report = match problem {
            None => before,
            Some(_) => Some(NodeRouter { link: before.and_then(|one| one.link), problem }),
        };
        let planned = self.planned;
        self.publish(RouterView { report, status: None, away: Some(why), planned });
    }

    /// A failure, once it has lasted.
    fn problem_to_report(&mut self, failure: Option<String>) -> Option<String> {
        if failure.is_none() {
            self.failing_since = None;
        }
        let failure = failure?;
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        // What changes from try to try would be written each time.
        let reported = self.view.borrow().report.as_ref().and_then(|one| one.problem.clone());
        (since.elapsed() >= GRACE).then(|| reported.unwrap_or(failure))
    }

    fn publish(&self, view: RouterView) {
        self.view.send_if_modified(|known| {
            let changed = *known != view;
            *known = view;
            changed
        });
    }
}

/// Ends once a failure has lasted long enough to be reported; never without one, or after that.
async fn until(deadline: Option<Instant>) {
    match deadline.filter(|deadline| *deadline > Instant::now()) {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

impl RouterView {
    /// What it says itself; absent while it is away.
    pub(crate) const fn status(&self) -> Option<&RouterStatus> {
        self.status.as_ref()
    }
}

impl RouterHandle {
    /// What is known of the router, as it changes.
    pub(crate) fn view(&self) -> watch::Receiver<RouterView> {
        self.view.clone()
    }
}

#[async_trait]
impl NetworkGate for RouterHandle {
    async fn ready(&self, instance: &InstanceId, networks: &[NetworkId]) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + WAIT;
        let mut view = self.view.clone();
        // The bridges may have been made only now. One request is enough, so a full channel is as well.
        let _requested = self.retry.try_send(()).is_ok();
        loop {
            let missing = missing(&view.borrow_and_update(), instance, networks);
            let Some(missing) = missing else { return Ok(()) };
            match timeout_at(deadline, view.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(missing),
            }
        }
    }
}

/// Why an instance cannot start yet, if that is so.
fn missing(view: &RouterView, instance: &InstanceId, networks: &[NetworkId]) -> Option<String> {
    let Some(status) = &view.status else {
        let why = view.away.as_deref().unwrap_or("it is being started");
        return Some(format!("the router of this node does not run: {why}"));
    };
    if let Some(error) = &status.error {
        return Some(format!("the router of this node failed: {error}"));
    }
    if status.applied() < Some(instance.raft_index) {
        return Some(format!("the router does not hold index {} yet", instance.raft_index));
    }
    let failure = status.failure(networks)?;
    Some(format!("the router has no port in network {}: {}", failure.network, failure.reason))
}
