//! Keeps the router as the last plan says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jaco_dataplane::{InterfaceName, SitePlan};
use jaco_types::{NetworkId, StateIndex};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{info, warn};

use super::message::{Order, PlanMessage, RouterStatus};
use crate::error::{NetError, chain};
use crate::resolver::Resolver;
use crate::router::{Applied, Router};

/// How often the router is compared with its plan while nobody asks for anything: what others changed in it
/// stays for so long at most.
const OBSERVE: Duration = Duration::from_secs(30);

/// How long after a failure the first try follows; twice as long after each, up to the second of these.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// The router with its plan.
#[derive(Debug)]
pub(super) struct Keeper {
    router: Router,
    /// Where the last plan is kept for the next process.
    file: PathBuf,
    status: watch::Sender<RouterStatus>,
    plan: Option<(StateIndex, SitePlan)>,
    resolver: Option<Resolver>,
}

/// Whether others may have changed what is there since it was seen last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Seen,
    Nothing,
}

impl Keeper {
    pub(super) fn new(router: Router, file: PathBuf, status: watch::Sender<RouterStatus>) -> Self {
        Self { router, file, status, plan: None, resolver: None }
    }

    /// Runs until nobody can send orders any more.
    ///
    /// # Errors
    /// If the router's own thread has ended: a new process is needed.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) -> Result<(), NetError> {
        self.take_up().await?;
        let mut pause = RETRY.0;
        loop {
            let failing = self.status.borrow().has_failures();
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { return Ok(()) };
                    let newest = newest(order, &mut orders);
                    pause = RETRY.0;
                    match newest {
                        Order::Plan(message) => self.take(&message).await?,
                        Order::Retry if failing => self.apply(Trust::Seen).await?,
                        Order::Retry => {}
                    }
                }
                () = sleep(pause), if failing => {
                    pause = (pause * 2).min(RETRY.1);
                    self.apply(Trust::Seen).await?;
                }
                () = sleep(OBSERVE), if !failing => self.apply(Trust::Nothing).await?,
            }
        }
    }

    /// Goes on with the plan of the process before.
    async fn take_up(&mut self) -> Result<(), NetError> {
        let Ok(bytes) = std::fs::read(&self.file) else { return Ok(()) };
        match serde_json::from_slice::<PlanMessage>(&bytes) {
            Ok(message) => self.hold(&message).await,
            Err(error) => {
                warn!(%error, "last plan not readable, waiting for a new one");
                Ok(())
            }
        }
    }

    async fn take(&mut self, message: &PlanMessage) -> Result<(), NetError> {
        // Written first: a process that is killed on the way leaves the next one what to go on with.
        let bytes = serde_json::to_vec(message).unwrap_or_default();
        let new = self.file.with_extension("new");
        let kept = std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, &self.file));
        if let Err(error) = kept {
            warn!(%error, "plan not kept for the next process");
        }
        self.hold(message).await
    }

    async fn hold(&mut self, message: &PlanMessage) -> Result<(), NetError> {
        let Some(plan) = message.plan() else {
            let error =
                Some("the plan is not readable: both processes need one version".to_owned());
            self.status.send_modify(|status| status.error = error);
            return Ok(());
        };
        self.plan = Some((StateIndex(message.index), plan));
        self.apply(Trust::Seen).await
    }

    async fn apply(&mut self, trust: Trust) -> Result<(), NetError> {
        let Some((index, plan)) = &self.plan else { return Ok(()) };
        let result = match trust {
            Trust::Seen => self.router.apply(plan).await,
            Trust::Nothing => repair(&mut self.router, plan).await,
        };
        let result = match (result, &self.resolver) {
            (Ok(applied), None) => match self.router.serve_names().await {
                Ok(resolver) => {
                    self.resolver = Some(resolver);
                    Ok(applied)
                }
                Err(error) => Err(error),
            },
            (result, _) => result,
        };
        let mut status = self.status.borrow().clone();
        match result {
            Ok(applied) => status.hold(*index, failures(plan, applied)),
            Err(NetError::Ended) => return Err(NetError::Ended),
            Err(error) => status.error = Some(chain(&error)),
        }
        self.status.send_if_modified(|known| {
            let changed = *known != status;
            if changed {
                log(&status);
                *known = status;
            }
            changed
        });
        Ok(())
    }
}

fn log(status: &RouterStatus) {
    match &status.error {
        Some(error) => warn!(%error, "plan not carried out"),
        None => info!(raft_index = ?status.applied(), failed = status.has_failures(), "plan holds"),
    }
}

async fn repair(router: &mut Router, plan: &SitePlan) -> Result<Applied, NetError> {
    router.observe().await?;
    let applied = router.apply(plan).await?;
    if applied.steps > 0 {
        warn!(steps = applied.steps, "others had changed the router; it is as planned again");
    }
    Ok(applied)
}

/// The last plan of those that wait, else a request to try again.
fn newest(first: Order, orders: &mut mpsc::Receiver<Order>) -> Order {
    let mut newest = first;
    while let Ok(next) = orders.try_recv() {
        if matches!(next, Order::Plan(_)) || matches!(newest, Order::Retry) {
            newest = next;
        }
    }
    newest
}

fn failures(plan: &SitePlan, applied: Applied) -> BTreeMap<NetworkId, String> {
    let reasons: BTreeMap<InterfaceName, String> =
        applied.failed_ports.iter().map(|(port, error)| (port.clone(), chain(error))).collect();
    let failed = plan.ports.iter();
    failed.filter_map(|(id, port)| Some((*id, reasons.get(&port.interface)?.clone()))).collect()
}
