//! What the service manager that has started this process is told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

/// Tells a service manager that waits for it that this process serves, and is the one to watch.
pub fn notify_ready() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let message = format!("READY=1\nMAINPID={}", std::process::id());
    let path = socket.to_string_lossy().into_owned();
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent =
        UnixDatagram::unbound().and_then(|from| from.send_to_addr(message.as_bytes(), &address?));
    if let Err(error) = sent {
        warn!(%error, "the service manager cannot be notified");
    }
}
