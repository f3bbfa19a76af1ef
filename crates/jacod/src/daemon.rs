//! Lifecycle of the daemon: it waits for `init` or `join`, then runs as a member, also after
//! restarts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jaco_process::notify_ready;
use jaco_raft::Quorum;
use jaco_server::{LogTail, serve};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::bootstrap::Bootstrap;
use crate::config::Config;
use crate::context::NodeContext;
use crate::heap;

/// Time limit for open requests at shutdown. Apart from the agent no loop is waited for: the next
/// daemon or the next leader continues its work.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for the agent to finish pending engine calls at shutdown; it starts no new ones.
const AGENT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The daemon.
pub(crate) struct Daemon {
    node: Arc<NodeContext>,
}

/// Why a daemon ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was asked to stop, or could not clean up in time after a removal: it may start again.
    Stopped,
    /// Its node was removed, and nothing of the cluster is left here.
    Removed,
}

impl Daemon {
    /// Runs until `stop`, or until this node is removed from its cluster.
    pub(crate) async fn run(
        config: Config,
        log: LogTail,
        raft: Handle,
        stop: CancellationToken,
    ) -> anyhow::Result<Ended> {
        let node = Arc::new(NodeContext::new(config, log, raft)?);
        let bootstrap = Bootstrap::new(Arc::clone(&node));
        let daemon = Self { node };
        bootstrap.resume().await?;
        let socket = daemon.bind_socket()?;
        // Who connects from now on is answered.
        notify_ready();
        let node = &daemon.node;
        let socket_path = node.config.socket.display();
        match node.config.check_engine() {
            Ok(()) => info!(node = %node.hostname, socket = %socket_path, "ready"),
            // It may be installed or started later: the node is `engine_down` until then.
            Err(error) => {
                warn!(node = %node.hostname, socket = %socket_path, %error, "started without a container engine");
            }
        }
        let (stage, shutdown) = (Arc::clone(&node.stage), node.shutdown.clone());
        let tallies = Arc::clone(&node.tallies);
        let serving = serve::serve_unix(socket, stage, Arc::new(bootstrap), tallies, shutdown);
        let serving = tokio::spawn(serving);
        daemon.listen_for_scrapers().await?;
        node.run_until_shutdown(heap::give_back());
        tokio::select! {
            () = stop.cancelled() => daemon.transfer_leadership().await,
            () = node.shutdown.cancelled() => {}
        }
        let failure = daemon.failure();
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        daemon.stop(deadline).await;
        // A client that watches or follows logs would keep its connection open forever.
        if let Ok(served) = tokio::time::timeout_at(deadline, serving).await {
            served??;
        }
        if let Some(reason) = failure {
            anyhow::bail!("consensus has failed, {}: {reason}", advice(&reason));
        }
        if !daemon.node.left.is_cancelled() {
            return Ok(Ended::Stopped);
        }
        daemon.node.delete_membership().context("cannot delete the data of the removed node")?;
        info!("removed from the cluster; start this daemon to join again with `jaco cluster join`");
        Ok(Ended::Removed)
    }

    /// Serves the metrics on the machine itself, where the configuration asks for it.
    async fn listen_for_scrapers(&self) -> anyhow::Result<()> {
        let node = &self.node;
        let Some(address) = node.config.metrics_address()? else { return Ok(()) };
        let listener = TcpListener::bind(address).await;
        let listener =
            listener.with_context(|| format!("cannot listen on {address} (metrics.listen)"))?;
        let serving =
            serve::serve_loopback(listener, Arc::clone(&node.stage), node.shutdown.clone());
        node.tasks.spawn(async move {
            if let Err(error) = serving.await {
                warn!(%error, "the metrics are not served on {address} any more");
            }
        });
        Ok(())
    }

    /// Why consensus stopped because of an error, if it did.
    fn failure(&self) -> Option<String> {
        self.node.stage.load().as_ref()?.store.raft().status().failure
    }

    fn bind_socket(&self) -> anyhow::Result<UnixListener> {
        use std::os::unix::fs::PermissionsExt;
        let path = &self.node.config.socket;
        if let Some(folder) = path.parent() {
            let exists = folder.is_dir();
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            if !exists {
                // The group that may use the socket has to get there.
                std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
            }
        }
        refuse_other_than_socket(path)?;
        // Replaces the socket that a killed daemon left behind. The lock on the data directory, not
        // this socket, keeps a second daemon out.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        if let Some(group) = self.node.config.socket_group {
            std::os::unix::fs::chown(path, None, Some(group))?;
        }
        Ok(listener)
    }

    /// Transfers leadership before anything stops: the successor has to reach this node.
    async fn transfer_leadership(&self) {
        let Some(member) = self.node.stage.load_full().filter(|member| member.store.leads()) else {
            return;
        };
        if member.store.raft().status().quorum == Quorum::Lost {
            info!("leadership not transferred: quorum lost");
            return;
        }
        if let Err(error) = member.store.raft().transfer_leader().await {
            // The other voters elect a leader after the election timeout.
            info!(%error, "leadership not transferred");
        }
    }

    async fn stop(&self, deadline: Instant) {
        self.node.shutdown.cancel();
        self.node.tasks.close();
        self.node.agent.close();
        if tokio::time::timeout_at(deadline, self.node.tasks.wait()).await.is_err() {
            info!("open requests aborted");
        }
        if tokio::time::timeout(AGENT_SHUTDOWN_TIMEOUT, self.node.agent.wait()).await.is_err() {
            info!("agent did not finish in time");
        }
        if let Some(member) = self.node.stage.load_full()
            && let Err(error) = member.store.raft().shutdown().await
        {
            warn!(%error, "consensus did not shut down cleanly");
        }
        info!("stopped");
    }
}

/// What to do once consensus has stopped, by the error of the disk that is in its reason (`ErrorKind` and Linux' own words).
fn advice(reason: &str) -> &'static str {
    let is_full = ["StorageFull", "No space left on device"];
    match is_full.iter().any(|words| reason.contains(words)) {
        true => {
            "because the disk of its data_dir is full: free space on it, then start this daemon"
        }
        false => "restart this daemon",
    }
}

/// What is at the socket's path and is no socket is not this daemon's.
fn refuse_other_than_socket(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => anyhow::bail!(
            "{} is not a socket and is not replaced: move it away, or set `socket` to another path",
            path.display()
        ),
        // What cannot be looked at cannot be replaced either, which says why.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-1: a full disk is named as that, as a restart alone does not help.
    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let full = "when Write Log(LogId {..}): std::io::error::Error: Os { code: 28, kind: StorageFull, \
                    message: \"No space left on device\" }";
        assert!(advice(full).contains("free space"));
        assert_eq!(
            advice("Os { code: 5, message: \"Input/output error\" }"),
            "restart this daemon"
        );
    }

    /// R-FAULT-3: a file that is named as the socket by mistake is not lost.
    #[test]
    fn only_a_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jaco.sock");
        assert!(refuse_other_than_socket(&path).is_ok(), "nothing is there");
        std::fs::write(&path, "precious").unwrap();
        let refused = refuse_other_than_socket(&path).unwrap_err().to_string();
        assert!(refused.contains("not a socket") && refused.contains("jaco.sock"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(refuse_other_than_socket(&path).is_ok(), "a killed daemon left it");
    }
}
