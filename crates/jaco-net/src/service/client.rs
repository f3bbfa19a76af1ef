//! The end of the socket that makes plans.

use std::io;
use std::path::Path;

use jaco_dataplane::SitePlan;
use jaco_types::StateIndex;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::message::{Order, PlanMessage, RouterStatus, receive, send};
use super::socket_path;

/// A connection to the process of a router. It ends when this is dropped.
#[derive(Debug)]
pub struct RouterClient {
    output: OwnedWriteHalf,
    status: watch::Receiver<RouterStatus>,
    reader: JoinHandle<()>,
}

impl Drop for RouterClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl RouterClient {
    /// Connects to the router of this folder, and hears what it holds.
    ///
    /// # Errors
    /// If none listens there, or one of another user.
    pub async fn connect(runtime_dir: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket_path(runtime_dir)).await?;
        let own = rustix::process::geteuid().as_raw();
        if ![0, own].contains(&stream.peer_cred()?.uid()) {
            return Err(io::Error::other("the router there is another user's"));
        }
        let (mut input, output) = stream.into_split();
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let first: RouterStatus = receive(&mut input).await?.ok_or_else(ended)?;
        let (sender, status) = watch::channel(first);
        let reader = tokio::spawn(async move {
            while let Ok(Some(status)) = receive(&mut input).await {
                if sender.send(status).is_err() {
                    return;
                }
            }
        });
        Ok(Self { output, status, reader })
    }

    /// What the router holds. The sender is gone once the connection has ended.
    pub fn status(&self) -> watch::Receiver<RouterStatus> {
        self.status.clone()
    }

    /// Tells the router to hold the plan of a state.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn hold(&mut self, index: StateIndex, plan: &SitePlan) -> io::Result<()> {
        send(&mut self.output, &Order::Plan(Box::new(PlanMessage::new(index, plan)))).await
    }

    /// Tells the router that bridges may be there now that were missing.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn retry(&mut self) -> io::Result<()> {
        send(&mut self.output, &Order::Retry).await
    }
}
