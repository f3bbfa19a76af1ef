//! The socket of the router: who may connect, and what goes in and out.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::file_error;
use super::keeper::{Task, Update};
use super::message::{Order, RouterStatus, Said, receive, send};
use crate::error::NetError;

/// Listens, in the place of a socket that a killed process left.
pub(super) fn listen(path: &Path) -> Result<UnixListener, NetError> {
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    let listener = removed.and_then(|()| {
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(listener)
    });
    listener.map_err(|source| file_error(path, source))
}

/// Takes connections of this user and of root, for ever.
pub(super) async fn accept(
    listener: UnixListener,
    tasks: mpsc::Sender<Task>,
    status: watch::Receiver<RouterStatus>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if may_connect(stream.peer_cred()) => {
                tokio::spawn(speak(stream, tasks.clone(), status.clone()));
            }
            Ok(_) => warn!("connection of another user refused"),
            Err(error) => {
                warn!(%error, "connection not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

fn may_connect(peer: io::Result<UCred>) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer.is_ok_and(|peer| [0, own].contains(&peer.uid()))
}

/// Takes orders and says what holds, until the other end is gone.
async fn speak(
    stream: UnixStream,
    tasks: mpsc::Sender<Task>,
    mut status: watch::Receiver<RouterStatus>,
) {
    let (mut input, mut output) = stream.into_split();
    let (reports, mut answers) = mpsc::channel(1);
    let (keys, mut made) = mpsc::channel(1);
    let (counts, mut counted) = mpsc::channel(1);
    let told = async {
        let first = status.borrow_and_update().clone();
        send(&mut output, &Said::Status(first)).await?;
        loop {
            let said = tokio::select! {
                changed = status.changed() => match changed {
                    Ok(()) => Said::Status(status.borrow_and_update().clone()),
                    Err(_) => return io::Result::Ok(()),
                },
                Some(report) = answers.recv() => Said::Probed(Box::new(report)),
                Some(key) = made.recv() => Said::NextKey(key),
                Some(counted) = counted.recv() => Said::Counted(counted),
            };
            send(&mut output, &said).await?;
        }
    };
    let heard = async {
        while let Some(order) = receive(&mut input).await? {
            let task = match order {
                Order::Plan(plan) => Task::Hold(Update::Plan(plan)),
                Order::Change(change) => Task::Hold(Update::Change(change)),
                Order::Retry => Task::Retry,
                Order::Probe(question) => Task::Probe(question, reports.clone()),
                Order::Count => Task::Count(counts.clone()),
                Order::MakeKey => Task::MakeKey(keys.clone()),
            };
            if tasks.send(task).await.is_err() {
                break;
            }
        }
        io::Result::Ok(())
    };
    let ended = tokio::select! {
        ended = told => ended,
        ended = heard => ended,
    };
    if let Err(error) = ended {
        warn!(%error, "connection ended");
    }
}
