//! The edge as a process of its own: it takes plans over a unix socket, carries them out, and says what is applied.
//!
//! Plans, certificates and keys are in memory only: a process that begins has none until its daemon connects. One whose
//! daemon is gone serves on by the plan that it has ([`Edge::is_stale`]).
//!
//! ```text
//! socket          the socket, and who may connect; former: that of a process whose place another takes
//! keeper          the plan that is held: orders in
//! report          what is said back; explained: what a request would meet
//! message         what is said over the socket; change_message: plans and their changes
//! access_log      lines about requests, to a file
//! spans           spans of requests, to the daemon
//! client          the other end
//! ```

mod access_log;
mod change_message;
mod client;
mod explained;
mod former;
mod keeper;
mod message;
#[cfg(test)]
mod random;
mod report;
mod socket;
mod spans;

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use client::EdgeClient;
pub use former::{FormerSocket, formers, remove_abandoned};
pub use report::{EdgeCounters, EdgeReport};
pub use spans::EdgeSpans;
use tokio::task::JoinHandle;

use crate::edge::Edge;

/// What the process of an edge is started with.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The folder of its socket, on a file system that ends with the machine's run, such as `/run/jaco/edge`.
    pub runtime_dir: PathBuf,
}

impl ServiceOptions {
    /// Makes the folder, for this user alone; where [`serve`] should listen.
    ///
    /// # Errors
    /// If it cannot be made, or is another user's.
    pub fn prepare(&self) -> io::Result<PathBuf> {
        let dir = &self.runtime_dir;
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        Ok(socket_path(dir))
    }
}

/// An edge with the plan that it was told, at whichever socket.
#[derive(Debug, Clone)]
pub struct Control {
    keeper: Arc<keeper::Keeper>,
}

impl Control {
    /// Of an edge that has no plan yet.
    pub fn new(edge: Arc<Edge>) -> Self {
        Self { keeper: Arc::new(keeper::Keeper::new(edge)) }
    }

    /// Lets a daemon of this user or of root tell the edge what to do, until `shutdown` completes. A socket that another
    /// process left there is replaced: the successor of a process that is being replaced takes over its name. When this
    /// returns, daemons can connect.
    ///
    /// # Errors
    /// If nobody can listen there.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn serve(
        &self,
        socket: &Path,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let listener = socket::listen(socket)?;
        tracing::info!(?socket, "edge takes plans");
        let keeper = Arc::clone(&self.keeper);
        Ok(tokio::spawn(socket::accept(listener, keeper, socket::own_and_root(), shutdown)))
    }
}

/// Where the process listens.
pub fn socket_path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("socket")
}
