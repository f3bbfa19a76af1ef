//! A connection to a process of the edge.

use std::sync::Arc;
use std::time::Duration;

use jaco_edge::Succession;
use jaco_edge::service::{EdgeClient, EdgeReport};
use jaco_server::Member;
use jaco_store::Store;
use jaco_trace::Tracer;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::certificates::{CertificateBook, Keys};
use super::planner::{Order, Orders, speaker};
use super::problem::problem;
use super::sessions::{Said, Sessions, Speaker, Stage};
use super::spans;
use crate::config::AccessLogSettings;
use crate::router::RouterView;

/// The least time between a plan and the next: one deployment's replicas become ready within few entries. The first of
/// them is told at once.
const PLAN_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until another plan may follow the last one.
async fn pace(planned_at: Option<Instant>) {
    if let Some(planned_at) = planned_at {
        sleep_until(planned_at + PLAN_INTERVAL).await;
    }
}

/// How often a node that has just started looks whether it has caught up.
const CATCH_UP: Duration = Duration::from_millis(100);

/// The connection with what it was told.
pub(super) struct Session {
    member: Arc<Member>,
    orders: Orders,
    access_log: Option<AccessLogSettings>,
    tracer: Option<Tracer>,
    /// Which listeners it does not give to the process, and why.
    router: watch::Receiver<RouterView>,
}

impl Session {
    pub(super) fn new(
        member: Arc<Member>,
        keys: Arc<dyn Keys>,
        access_log: Option<AccessLogSettings>,
        tracer: Option<Tracer>,
        router: watch::Receiver<RouterView>,
    ) -> Self {
        let orders = Orders::new(member.id, CertificateBook::new(keys));
        Self { member, orders, access_log, tracer, router }
    }

    /// Tells the process what to do and what it says, until the connection has ended.
    pub(super) async fn run(mut self, client: EdgeClient, id: u64, sessions: Arc<Sessions>) {
        self.follow(client, id, &sessions).await;
        sessions.end(id);
        warn!("connection to the edge ended");
    }

    async fn follow(&mut self, mut client: EdgeClient, id: u64, sessions: &Sessions) {
        let (mut status, mut index) = (client.status(), self.member.store.watch_index());
        let mut router = self.router.clone();
        let mut planned_at = None::<Instant>;
        let mut knows_log = false;
        loop {
            let report = status.borrow_and_update().clone();
            // Before the plan: its first requests have lines, too.
            if !knows_log && report.takes_log && speaker(&self.member) == Speaker::Own {
                let log = self.access_log.as_ref().map(|log| (&*log.path, log.sample));
                if let Err(error) = client.log(log).await {
                    warn!(%error, "the edge could not be told where its access log is");
                    return;
                }
                if report.takes_traces
                    && let Err(error) = self.trace(&mut client).await
                {
                    warn!(%error, "the edge could not be told whether to trace requests");
                    return;
                }
                knows_log = true;
            }
            index.borrow_and_update();
            router.borrow_and_update();
            let is_current = self.member.has_caught_up();
            match self.tell(&mut client, &report, is_current).await {
                Ok(true) => planned_at = Some(Instant::now()),
                Ok(false) => {}
                Err(error) => {
                    warn!(%error, "the edge could not be told its plan");
                    return;
                }
            }
            sessions.say(id, self.said(client.pid(), &report));
            tokio::select! {
                changed = status.changed() => if changed.is_err() { return },
                Ok(()) = router.changed() => pace(planned_at).await,
                changed = index.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    pace(planned_at).await;
                }
                () = sleep(CATCH_UP), if !is_current => {}
            }
        }
    }

    /// Has requests traced, or not.
    async fn trace(&self, client: &mut EdgeClient) -> std::io::Result<()> {
        if let Some(tracer) = &self.tracer
            && let Some(said) = client.take_spans()
        {
            // Ends with the connection.
            tokio::spawn(spans::record(said, tracer.clone()));
        }
        client.trace(self.tracer.as_ref().map(|tracer| tracer.sampling().below())).await
    }

    /// Tells the process what it should do now; whether there was something to tell. Until this node has caught up, it
    /// may know less than what the process already does.
    async fn tell(
        &mut self,
        client: &mut EdgeClient,
        report: &EdgeReport,
        is_current: bool,
    ) -> std::io::Result<bool> {
        let state = self.member.store.snapshot();
        if !is_current && report.applied > Some(state.index) {
            return Ok(false);
        }
        match self.orders.next(&state, report) {
            None => return Ok(false),
            Some(Order::Whole(plan, certificates)) => {
                client.hold(state.index, plan, certificates).await?;
            }
            Some(Order::Change(base, change)) => {
                client.change(base, state.index, &change).await?;
            }
        }
        Ok(true)
    }

    fn said(&self, pid: Option<u32>, report: &EdgeReport) -> Said {
        Said {
            acknowledgement: self.orders.acknowledgement(report),
            speaker: self.orders.speaker(),
            pid,
            stage: match report.succession {
                Succession::None => Stage::Serving,
                Succession::Begun => Stage::Handing,
                Succession::Done => Stage::Draining,
            },
            problem: problem(&report.problems, self.router.borrow().status()),
        }
    }
}
