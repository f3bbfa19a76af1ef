//! This daemon's side of the edge: it plans what the edge of this node should do, tells the process that does it,
//! and speaks for it as an endpoint consumer.
//!
//! Nothing is started before there is a route or a published port. Members that share a container engine share its edge: all of them know
//! how it is, the lowest that is not down makes its plans.
//!
//! ```text
//! planner       which plan a process is told
//! certificates  the certificates of the plan, with their keys
//! session       a connection to a process, until it ends
//! problem       what of its plan a process does not carry out
//! access_log    the file for lines about requests; spans: from what it says of requests to what is exported
//! sessions      what all of them say together
//! probe         what other nodes ask of a process; readings: what it had counted lately
//! ```

mod access_log;
mod certificates;
mod planner;
mod probe;
mod problem;
mod readings;
mod session;
mod sessions;
mod spans;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_edge::service::{EdgeClient, formers};
use jaco_server::Member;
use jaco_store::Store;
use jaco_trace::Tracer;
use jaco_types::{Millis, NodeEdge, StateIndex};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::config::{AccessLogSettings, Config};
use crate::consumer::{self, Absence, Part};
use crate::process::{Process, Program, Starter};
use crate::router::RouterView;
pub(crate) use certificates::Keys;
use planner::speaker;
pub(crate) use probe::EdgeHandle;
use session::Session;
use sessions::{Sessions, Speaker};

/// The edge as an endpoint consumer. Its lease is longer than the restart of a daemon and than an election: meanwhile
/// the process goes on with what it knows. One whose process has ended sends nothing to anybody.
const CONSUMER: Part = Part { name: CONSUMER_NAME, lease: Millis(15_000), absence: Absence::Ended };

/// What the names of edges as consumers begin with.
pub(crate) const CONSUMER_NAME: &str = "jacod-edge";

/// How long a failure lasts before it is reported to the cluster: a restart of the process is none.
const GRACE: Duration = Duration::from_secs(3);

/// Pauses between attempts to reach the process.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// How long a process may be away before nothing waits for it.
const AWAY: Duration = Duration::from_secs(1);

/// How long the first plan waits for the attachment as a consumer, which takes a quorum: without one nothing that
/// serves is stopped either.
const ATTACHING: Duration = Duration::from_secs(1);

/// How often a missing edge is looked for where another member starts it.
const LOOK: Duration = Duration::from_secs(1);

/// What is known of the edge, for the report of the node; absent before there is anything to say.
pub(crate) type EdgeView = Option<NodeEdge>;

/// The edge's process. It does not read the configuration: that only tells whose it is.
pub(crate) fn program(config: &Config) -> Program {
    let mut arguments: Vec<OsString> = vec!["edge".into()];
    let mut say = |key: &str, value: &OsStr| arguments.extend([key.into(), value.into()]);
    say("--config", config.file.as_os_str());
    say("--runtime-dir", config.net.edge_dir().as_os_str());
    say("--namespace", config.net.runtime_dir.join("router").as_os_str());
    if let Some(user) = &config.edge.user {
        say("--user", OsStr::new(user));
    }
    Program { name: "edge", unit: "jacod-edge", arguments }
}

/// The loop around the connections to the process.
pub(crate) struct EdgeLoop {
    runtime_dir: PathBuf,
    process: Process,
    keys: Arc<dyn Keys>,
    access_log: Option<AccessLogSettings>,
    tracer: Option<Tracer>,
    router: watch::Receiver<RouterView>,
    sessions: Arc<Sessions>,
    /// A connection each.
    tasks: TaskTracker,
    view: watch::Sender<EdgeView>,
    /// Since when there is no process, or it does not do what it should.
    failing: Option<(Instant, String)>,
}

impl EdgeLoop {
    /// `keys` opens the certificates; lines about requests go where `access_log` says, and spans of them to `tracer`. The
    /// listeners are what `router` gives to the process.
    pub(crate) fn new(
        runtime_dir: PathBuf,
        process: Process,
        keys: Arc<dyn Keys>,
        access_log: Option<AccessLogSettings>,
        tracer: Option<Tracer>,
        router: watch::Receiver<RouterView>,
    ) -> (Self, watch::Receiver<EdgeView>) {
        let (sender, view) = watch::channel(None);
        let sessions = Arc::new(Sessions::default());
        let (tasks, failing) = (TaskTracker::new(), None);
        let edge = Self {
            runtime_dir,
            process,
            keys,
            access_log,
            tracer,
            router,
            sessions,
            tasks,
            view: sender,
            failing,
        };
        (edge, view)
    }

    /// Runs until it is dropped. The edge goes on without it.
    pub(crate) async fn run(self, member: Arc<Member>) {
        let attached = watch::Sender::new(None);
        let (released, seen) = (self.sessions.released(), attached.subscribe());
        let consumer = consumer::run(Arc::clone(&member), CONSUMER, released, attached);
        tokio::join!(self.keep(&member, seen), consumer);
    }

    /// Connects to the process, starts it where there is none, and connects again where it is replaced: the one that
    /// was replaced is told of terminating instances until it has ended.
    async fn keep(mut self, member: &Arc<Member>, attached: watch::Receiver<Option<StateIndex>>) {
        wait_for_routes(member).await;
        let mut pause = RECONNECT.0;
        let mut away_since = None;
        loop {
            self.attend_formers(member, &attached).await;
            if self.sessions.wait_until_needed(LOOK).await {
                self.process.reap();
                self.report(self.sessions.problem());
                continue;
            }
            match EdgeClient::connect(&self.runtime_dir).await {
                Ok(client) => {
                    info!(dir = %self.runtime_dir.display(), "edge connected");
                    (pause, away_since) = (RECONNECT.0, None);
                    self.attend(client, member, attached.clone()).await;
                }
                Err(error) => {
                    let since = *away_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= AWAY && !self.sessions.has_any() {
                        self.sessions.none_left();
                    }
                    let why = match speaker(member) {
                        Speaker::Own if self.sessions.lacks_one() => {
                            self.process.set_aside(&self.sessions.draining());
                            self.process.ensure(&self.runtime_dir)
                        }
                        Speaker::Own | Speaker::Other => None,
                    };
                    self.report(Some(why.unwrap_or_else(|| error.to_string())));
                    sleep(pause).await;
                    pause = (pause * 2).min(RECONNECT.1);
                }
            }
        }
    }

    /// Connects to processes whose place another takes: no third one is started beside them, and what they are busy with
    /// is waited for. This daemon knows them already unless it was started later.
    async fn attend_formers(
        &self,
        member: &Arc<Member>,
        attached: &watch::Receiver<Option<StateIndex>>,
    ) {
        // There is no folder before the first edge.
        for (pid, socket) in formers(&self.runtime_dir).unwrap_or_default() {
            if self.sessions.has(pid) {
                continue;
            }
            // One that refuses has ended, and its socket is removed by the next process.
            if let Ok(client) = EdgeClient::connect_at(&socket).await {
                info!(pid, "former edge connected");
                self.attend(client, member, attached.clone()).await;
            }
        }
    }

    /// Tells a process its plan from now on, and what it says to the cluster.
    async fn attend(
        &self,
        client: EdgeClient,
        member: &Arc<Member>,
        attached: watch::Receiver<Option<StateIndex>>,
    ) {
        let speaker = speaker(member);
        let id = self.sessions.begin(speaker, client.pid());
        if speaker == Speaker::Own {
            wait_for_attachment(member, attached).await;
        }
        self.provide_log(speaker);
        let log = self.access_log.clone();
        let tracer = self.tracer.clone();
        let (keys, router) = (Arc::clone(&self.keys), self.router.clone());
        let session = Session::new(Arc::clone(member), keys, log, tracer, router);
        self.tasks.spawn(session.run(client, id, Arc::clone(&self.sessions)));
    }

    /// Makes the file of the access log where this daemon starts the edge: a service manager does it otherwise.
    fn provide_log(&self, speaker: Speaker) {
        let Some(log) = &self.access_log else { return };
        if speaker == Speaker::Own
            && self.process.starter() == Starter::Daemon
            && let Err(error) = access_log::provide(&log.path, &self.runtime_dir)
        {
            warn!(path = %log.path.display(), %error, "the file of the access log cannot be made");
        }
    }

    /// Notes how the edge is, and lets the cluster know where that lasts.
    fn report(&mut self, problem: Option<String>) {
        let Some(problem) = problem else {
            self.failing = None;
            return self.publish(Some(NodeEdge { problem: None }));
        };
        let (since, first) = self.failing.get_or_insert_with(|| (Instant::now(), problem.clone()));
        // What changes from try to try would be written each time.
        let (lasts, problem) = (since.elapsed() >= GRACE, first.clone());
        if lasts {
            self.publish(Some(NodeEdge { problem: Some(problem) }));
        }
    }

    fn publish(&self, view: EdgeView) {
        self.view.send_if_modified(|known| {
            let is_news = *known != view;
            if is_news && let Some(problem) = view.as_ref().and_then(|edge| edge.problem.as_ref()) {
                warn!(%problem, "the edge does not carry out all routes");
            }
            *known = view;
            is_news
        });
    }
}

/// Nothing is started for a cluster without routes and published ports.
async fn wait_for_routes(member: &Member) {
    let mut index = member.store.watch_index();
    while member.store.read(|state| state.edges.claims.is_empty() && state.edges.ports.is_empty()) {
        if index.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Until the state of this node has the edge as a consumer: what is ready by then is waited for when it leaves.
async fn wait_for_attachment(member: &Member, mut attached: watch::Receiver<Option<StateIndex>>) {
    let mut index = member.store.watch_index();
    let applied = async {
        let Ok(session) = attached.wait_for(Option::is_some).await.map(|at| *at) else { return };
        let is_there = || Some(member.store.read(|state| state.index)) >= session;
        while !is_there() && index.changed().await.is_ok() {}
    };
    if timeout(ATTACHING, applied).await.is_err() {
        warn!("the edge serves before the cluster knows that it does: there may be no quorum");
    }
}
