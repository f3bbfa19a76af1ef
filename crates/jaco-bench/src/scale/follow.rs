//! Streams of daemons that are held open, and what was heard over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use jaco_client::Client;
use jaco_proto::v1;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::PATIENCE;
use crate::heard::{Heard, by_all};

/// Streams, one to each client. They end with this.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// What was heard over each.
    pub(super) heard: Vec<Heard>,
    tasks: JoinSet<Result<()>>,
}

impl Followers {
    /// Follows the audit log of each daemon: a message for each change, of that change alone.
    pub(super) async fn of_audit(clients: Vec<Client>) -> Result<Self> {
        let mut followers = Self::default();
        for client in clients {
            let heard = Heard::default();
            followers.heard.push(heard.clone());
            followers.tasks.spawn(async move {
                let mut events = client.events(newest());
                while let Some(event) = events.next().await? {
                    heard.note(event.index);
                }
                Ok(())
            });
        }
        followers.begun().await
    }

    /// Watches the status of each daemon: a message for each change, with all nodes and deployments.
    pub(super) async fn of_status(clients: Vec<Client>) -> Result<Self> {
        let mut followers = Self::default();
        for client in clients {
            let heard = Heard::default();
            followers.heard.push(heard.clone());
            let request = v1::StatusRequest {
                scope: v1::StatusScope::Deployments.into(),
                ..v1::StatusRequest::default()
            };
            let mut statuses = client.watch_status(request).await?;
            followers.tasks.spawn(async move {
                while let Some(status) = statuses.next().await? {
                    heard.note(status.raft_index);
                }
                Ok(())
            });
        }
        followers.begun().await
    }

    async fn begun(self) -> Result<Self> {
        by_all(&self.heard, 1, PATIENCE).await.context("a stream has not begun")?;
        Ok(self)
    }
}

/// The index of each request, as the audit log of one daemon says.
pub(super) struct Indices {
    known: watch::Receiver<Arc<BTreeMap<String, u64>>>,
    _task: JoinSet<Result<()>>,
}

impl Indices {
    pub(super) fn follow(client: &Client) -> Self {
        let (sender, known) = watch::channel(Arc::default());
        let mut events = client.events(newest());
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some(event) = events.next().await? {
                sender.send_modify(|known: &mut Arc<BTreeMap<String, u64>>| {
                    Arc::make_mut(known).insert(event.request_id, event.index);
                });
            }
            Ok(())
        });
        Self { known, _task: task }
    }

    /// The index of a request, once it is known.
    pub(super) async fn of(&self, request: &str) -> Result<u64> {
        let mut known = self.known.clone();
        let known = known.wait_for(|known| known.contains_key(request));
        let known = tokio::time::timeout(PATIENCE, known).await??;
        known.get(request).copied().context("it was there")
    }
}

/// From the newest event on.
fn newest() -> v1::AuditRequest {
    v1::AuditRequest { follow: true, last: 1, ..v1::AuditRequest::default() }
}
