//! How long after an entry of the log all routers hold its plan and answer its names.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jaco_net::RouterClient;
use jaco_proto::v1;
use tokio::task::JoinHandle;

use super::Nodes;

/// When something was at which index of the log, in the order in which it was heard.
type Heard = Arc<Mutex<Vec<(Instant, u64)>>>;

/// Hears of changes of endpoints from the leader, and of what holds from the routers. It asks nobody: each says so at
/// once.
pub(super) struct Follow {
    leader: Heard,
    routers: Vec<Heard>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Follow {
    pub(super) async fn start(nodes: &Nodes, deployment: &str) -> Result<Self> {
        let leader = nodes.ours.cluster.leader().await;
        // Without a name: nothing waits for it.
        let deployment = deployment.to_owned();
        let attach = v1::RoutingAttach { deployment, ..v1::RoutingAttach::default() };
        let mut routes = nodes.ours.cluster.nodes[leader].client().routes(attach).await?;
        // What holds already is no change.
        routes.next().await?.context("the leader tells its endpoints")?;
        let mut follow = Self { leader: Heard::default(), routers: Vec::new(), tasks: Vec::new() };
        let heard = Arc::clone(&follow.leader);
        follow.tasks.push(tokio::spawn(async move {
            while let Some(version) = routes.next().await? {
                note(&heard, version.version);
            }
            Ok(())
        }));
        for folder in &nodes.routers.0 {
            let client = RouterClient::connect(folder).await?;
            let heard = Heard::default();
            follow.routers.push(Arc::clone(&heard));
            follow.tasks.push(tokio::spawn(async move {
                let mut status = client.status();
                loop {
                    status.changed().await.context("the router has ended")?;
                    if let Some(index) = status.borrow_and_update().applied() {
                        note(&heard, index.0);
                    }
                }
            }));
        }
        Ok(follow)
    }

    /// How long after it was heard of first each change was applied by the last router. Changes that have not been by then
    /// are not among them.
    pub(super) fn end(self) -> Vec<Duration> {
        self.tasks.iter().for_each(JoinHandle::abort);
        let routers: Vec<_> = self.routers.iter().map(taken).collect();
        let changes = taken(&self.leader).into_iter().filter_map(|(told, version)| {
            let applied = routers
                .iter()
                .map(|heard| heard.iter().find(|(_, index)| *index >= version).map(|(at, _)| *at));
            let applied = applied.collect::<Option<Vec<Instant>>>()?;
            let last = applied.iter().max()?;
            // What the leader says may arrive after what a router says.
            let first = applied.iter().min()?.min(&told);
            Some(*last - *first)
        });
        changes.collect()
    }
}

fn note(heard: &Heard, index: u64) {
    heard.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), index));
}

fn taken(heard: &Heard) -> Vec<(Instant, u64)> {
    std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner))
}
