//! How long after an entry of the log all routers hold its plan and answer its names, or all edges send requests by it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_edge::service::EdgeClient;
use jaco_net::RouterClient;
use jaco_proto::v1;
use tokio::task::JoinHandle;

use super::{LIMIT, Nodes};
use crate::swarm::LOOK;

/// When something was at which index of the log, in the order in which it was heard.
type Heard = Arc<Mutex<Vec<(Instant, u64)>>>;

/// Which processes are followed, one on each node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Followed {
    Routers,
    Edges,
}

/// Hears of changes of endpoints from the leader, and of what holds from the processes that are followed. It asks nobody:
/// each says so at once.
pub(super) struct Follow {
    leader: Heard,
    followers: Vec<Heard>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Follow {
    pub(super) async fn start(nodes: &Nodes, deployment: &str, followed: Followed) -> Result<Self> {
        let leader = nodes.ours.cluster.leader().await;
        // Without a name: nothing waits for it.
        let deployment = deployment.to_owned();
        let attach = v1::RoutingAttach { deployment, ..v1::RoutingAttach::default() };
        let mut routes = nodes.ours.cluster.nodes[leader].client().routes(attach).await?;
        // What holds already is no change.
        routes.next().await?.context("the leader tells its endpoints")?;
        let mut follow =
            Self { leader: Heard::default(), followers: Vec::new(), tasks: Vec::new() };
        let heard = Arc::clone(&follow.leader);
        follow.tasks.push(tokio::spawn(async move {
            while let Some(version) = routes.next().await? {
                note(&heard, version.version);
            }
            Ok(())
        }));
        for folder in &nodes.routers.0 {
            let heard = Heard::default();
            follow.followers.push(Arc::clone(&heard));
            follow.tasks.push(match followed {
                Followed::Routers => {
                    let client = RouterClient::connect(folder).await?;
                    tokio::spawn(follow_router(client, heard))
                }
                Followed::Edges => {
                    let client = EdgeClient::connect(&edge_folder(folder)).await?;
                    tokio::spawn(follow_edge(client, heard))
                }
            });
        }
        Ok(follow)
    }

    /// How long after it was heard of first each change was applied by the last of them.
    ///
    /// # Errors
    /// If one of them does not come to the newest change.
    pub(super) async fn end(self) -> Result<Vec<Duration>> {
        let newest = last(&self.leader).context("the leader has told no change")?;
        let begun = Instant::now();
        while self.followers.iter().any(|heard| last(heard) < Some(newest)) {
            ensure!(begun.elapsed() < LIMIT, "not all have applied {newest}");
            tokio::time::sleep(LOOK).await;
        }
        self.tasks.iter().for_each(JoinHandle::abort);
        let followers: Vec<_> = self.followers.iter().map(taken).collect();
        let changes = taken(&self.leader).into_iter();
        let changes = changes.filter(|(_, version)| *version <= newest).map(|(told, version)| {
            let applied = followers
                .iter()
                .map(|heard| heard.iter().find(|(_, index)| *index >= version).map(|(at, _)| *at));
            let applied = applied.collect::<Option<Vec<Instant>>>()?;
            let last = applied.iter().max()?;
            // What the leader says may arrive after what another one says.
            let first = applied.iter().min()?.min(&told);
            Some(*last - *first)
        });
        changes.collect::<Option<_>>().context("a change was not applied")
    }
}

/// The folder of the edge beside the router of this folder.
pub(super) fn edge_folder(router: &Path) -> PathBuf {
    let mut folder = router.as_os_str().to_owned();
    folder.push("-edge");
    folder.into()
}

async fn follow_router(client: RouterClient, heard: Heard) -> Result<()> {
    let mut status = client.status();
    loop {
        status.changed().await.context("the router has ended")?;
        if let Some(index) = status.borrow_and_update().applied() {
            note(&heard, index.0);
        }
    }
}

async fn follow_edge(client: EdgeClient, heard: Heard) -> Result<()> {
    let mut status = client.status();
    loop {
        status.changed().await.context("the edge has ended")?;
        if let Some(index) = status.borrow_and_update().applied {
            note(&heard, index.0);
        }
    }
}

fn note(heard: &Heard, index: u64) {
    heard.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), index));
}

fn last(heard: &Heard) -> Option<u64> {
    heard.lock().unwrap_or_else(PoisonError::into_inner).last().map(|(_, index)| *index)
}

fn taken(heard: &Heard) -> Vec<(Instant, u64)> {
    std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner))
}
