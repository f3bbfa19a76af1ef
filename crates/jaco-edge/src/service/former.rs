//! The socket of a process that starts its successor, or finishes what it has: the successor listens in its place, and a
//! daemon that is started meanwhile has to know what both are busy with.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::sync::oneshot;

use super::Control;

/// What the names begin with; the number of the process follows.
const PREFIX: &str = "former-";

/// A socket beside the one that a successor takes over. It is gone once this is dropped; who is connected to it stays
/// connected.
#[derive(Debug)]
pub struct FormerSocket {
    path: PathBuf,
    /// Whoever waits for it hears that it is dropped.
    _stop: oneshot::Sender<()>,
}

impl FormerSocket {
    /// Lets daemons reach this process from now on by its number, in the folder of its socket.
    ///
    /// # Errors
    /// If nobody can listen there.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn listen(control: &Control, runtime_dir: &Path) -> io::Result<Self> {
        let path = runtime_dir.join(format!("{PREFIX}{}", std::process::id()));
        let (stop, stopped) = oneshot::channel();
        control.serve(&path, async { drop(stopped.await) })?;
        Ok(Self { path, _stop: stop })
    }
}

impl Drop for FormerSocket {
    fn drop(&mut self) {
        // One that is left is found to be abandoned by the next process.
        let _gone = fs::remove_file(&self.path);
    }
}

/// The processes that have such a socket in this folder, and where it is. Some may have ended.
///
/// # Errors
/// If the folder cannot be read.
pub fn formers(runtime_dir: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(runtime_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        found.extend(number.and_then(|pid| pid.parse().ok()).map(|pid| (pid, entry.path())));
    }
    Ok(found)
}

/// Removes the sockets of processes that have ended without doing so themselves.
///
/// # Errors
/// If the folder cannot be read, or one of them cannot be removed.
pub fn remove_abandoned(runtime_dir: &Path) -> io::Result<()> {
    for (_, path) in formers(runtime_dir)? {
        let connected = UnixStream::connect(&path);
        if connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

    use jaco_dataplane::edge::EdgePlan;
    use jaco_types::StateIndex;
    use tokio::time::{Duration, timeout};

    use super::*;
    use crate::edge::Edge;
    use crate::options::Options;
    use crate::service::EdgeClient;
    use crate::tls::Certificates;

    const LIMIT: Duration = Duration::from_secs(10);

    /// R-EDGE-1: a process whose place another has taken is reached by its number until it has ended; a socket that
    /// nobody listens at is removed, and no other.
    #[tokio::test]
    async fn a_process_is_reached_beside_its_successor() {
        let dir = std::env::temp_dir().join(format!("jaco-edge-former-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        drop(UnixListener::bind(dir.join("former-4294967295")).unwrap());
        fs::write(dir.join("former-x"), "").unwrap();
        let control = Control::new(Arc::new(Edge::new(Options::default()).unwrap()));
        let former = FormerSocket::listen(&control, &dir).unwrap();
        assert_eq!(formers(&dir).unwrap().len(), 2);
        remove_abandoned(&dir).unwrap();
        let (own, path) = (std::process::id(), former.path.clone());
        assert_eq!(formers(&dir).unwrap(), [(own, path.clone())]);
        let mut client = EdgeClient::connect_at(&path).await.unwrap();
        assert_eq!(client.pid(), Some(own));
        assert!(EdgeClient::connect(&dir).await.is_err(), "nobody has taken its place yet");
        drop(former);
        assert!(formers(&dir).unwrap().is_empty());
        assert!(EdgeClient::connect_at(&path).await.is_err());
        let plan = (&EdgePlan::default(), &Certificates::default());
        client.hold(StateIndex(7), plan.0, plan.1).await.unwrap();
        let mut status = client.status();
        let applied = status.wait_for(|report| report.applied == Some(StateIndex(7)));
        timeout(LIMIT, applied).await.unwrap().unwrap();
        fs::remove_dir_all(dir).unwrap();
    }
}
