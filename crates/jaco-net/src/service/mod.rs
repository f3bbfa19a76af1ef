//! The router as a process of its own: it takes plans over a unix socket, carries them out, watches what it
//! made, and says what holds.
//!
//! What is in the router's namespace stays when the process ends; the last plan is kept beside the socket, so
//! that the next process goes on with it before anybody speaks to it. After a whole plan, changes of it are told.
//!
//! ```text
//! socket    the socket, and who may connect
//! keeper    the router itself: plans in, status out
//! key       the private keys, which never leave the node
//! message   what is said over the socket; plan_message and change_message: plans and their changes
//! journal   the plan on disk
//! remembered  until when names are remembered that a plan no longer has
//! client    the other end
//! ```

mod change_message;
mod client;
mod journal;
mod keeper;
mod key;
mod message;
mod plan_message;
mod remembered;
mod socket;

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::error::NetError;
use crate::handover::hand_over;
use crate::router::{Options, Router};
use crate::tunnel::Backend;
pub use client::RouterClient;
pub use message::{NetworkFailure, RouterStatus};

/// What the process is started with.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The folder of socket, key and namespace, on a file system that ends with the machine's run, such as
    /// `/run/jaco/net`. Members that share a container engine share it.
    pub runtime_dir: PathBuf,
    /// The UDP port of the tunnel.
    pub port: u16,
    /// Where the tunnel runs. `None`: in the kernel if it can.
    pub backend: Option<Backend>,
    /// Where the process of the edge listens for its sockets, if there is one ([`handover`](crate::handover)).
    pub edge_socket: PathBuf,
}

/// How long an edge that listens is waited for to hand back its sockets, before the first plan is carried out: they cannot
/// be opened a second time. Later it can do so too, after some failures.
const HAND_BACK: Duration = Duration::from_secs(1);

/// Runs the router until `shutdown` completes, and calls `ready` once its namespace and its socket are there. What it made
/// stays.
///
/// # Errors
/// If another process keeps this router, or it cannot be made.
pub async fn serve(
    options: ServiceOptions,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()>,
) -> Result<(), NetError> {
    let dir = options.runtime_dir.as_path();
    prepare(dir)?;
    let _lock = lock(dir)?;
    let keys = key::Keys::load_or_make(&dir.join("key"))?;
    let router = Options {
        runtime_dir: dir.to_owned(),
        key: keys.current.clone(),
        next_key: keys.next.clone(),
        port: options.port,
        backend: options.backend,
        resolvers: resolvers(Path::new("/etc/resolv.conf")),
    };
    let router = Router::open(router).await?;
    let (tasks, inbox) = mpsc::channel(16);
    let first = RouterStatus::new(&keys, options.port, router.backend());
    let (status, seen) = watch::channel(first);
    let listeners = Arc::clone(router.listeners());
    let (first, spoken) = oneshot::channel();
    let keeper = keeper::Keeper::new(router, keys, dir.join("plan"), status);
    let keep = async {
        // Without an answer the plan is carried out without it.
        drop(timeout(HAND_BACK, spoken).await);
        keeper.run(inbox).await
    };
    let listener = socket::listen(&socket_path(dir))?;
    tracing::info!(socket = ?socket_path(dir), "router started");
    ready();
    tokio::select! {
        result = keep => result,
        () = hand_over(&options.edge_socket, &listeners, first) => Ok(()),
        () = socket::accept(listener, tasks, seen) => Ok(()),
        () = shutdown => Ok(()),
    }
}

/// Where the process listens.
pub(crate) fn socket_path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("socket")
}

/// Makes the folder, for this user alone.
fn prepare(dir: &Path) -> Result<(), NetError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let made = made.and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o700)));
    made.map_err(|source| file_error(dir, source))
}

/// Held as long as the process runs: two of them would undo each other's work.
fn lock(dir: &Path) -> Result<File, NetError> {
    let path = dir.join("lock");
    let file = File::options().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|source| file_error(&path, source))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // For whoever looks for the process.
            let written = fs::write(&path, format!("{}\n", std::process::id()));
            written.map_err(|source| file_error(&path, source))?;
            Ok(file)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Err(NetError::Kept { path }),
        Err(error) => Err(file_error(&path, error.into())),
    }
}

/// The resolvers of the node, in their order.
fn resolvers(file: &Path) -> Vec<SocketAddr> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        address.parse::<IpAddr>().ok()
    });
    addresses.map(|address| SocketAddr::new(address, 53)).collect()
}

pub(crate) fn file_error(path: &Path, source: io::Error) -> NetError {
    NetError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_those_of_the_node() {
        let folder = std::env::temp_dir().join(format!("jaco-resolv-{}", std::process::id()));
        fs::write(&folder, "# a\nsearch lan\nnameserver 192.0.2.1\nnameserver ::1\nnameserver x\n")
            .unwrap();
        let found: Vec<String> = resolvers(&folder).iter().map(ToString::to_string).collect();
        fs::remove_file(&folder).unwrap();
        assert_eq!(found, ["192.0.2.1:53", "[::1]:53"]);
        assert_eq!(resolvers(Path::new("/nowhere")), []);
    }
}
