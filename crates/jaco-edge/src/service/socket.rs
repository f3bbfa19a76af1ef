//! The socket of an edge: who may connect, and what goes in and out.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::warn;

use super::keeper::{Done, Keeper};
use super::message::{Said, receive, send};
use super::report::{Answer, ReportMessage};
use super::spans::Waiting;

/// After an error of `accept`: there are too many files, or too little memory.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Users that may connect.
pub(super) type Users = [u32; 2];

/// Listens, in the place of a socket that another process left.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// This user, and root.
pub(super) fn own_and_root() -> Users {
    [rustix::process::geteuid().as_raw(), 0]
}

/// Takes connections of these users until `shutdown` completes. They go on after that: an edge that is replaced is told
/// of terminating instances until it has ended. If this is dropped, they end with it.
pub(super) async fn accept(
    listener: UnixListener,
    keeper: Arc<Keeper>,
    users: Users,
    shutdown: impl Future<Output = ()>,
) {
    let mut speaking = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = speaking.join_next() => continue,
            () = &mut shutdown => return speaking.detach_all(),
        };
        match accepted {
            Ok((stream, _)) if is_of(&stream, users) => {
                speaking.spawn(speak(stream, Arc::clone(&keeper)));
            }
            Ok(_) => warn!("connection of another user refused"),
            Err(error) => {
                warn!(%error, "connection not accepted");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// Whether the other end is a process of these users.
pub(super) fn is_of(stream: &UnixStream, users: Users) -> bool {
    stream.peer_cred().is_ok_and(|peer| users.contains(&peer.uid()))
}

/// Takes orders and says what holds, until the other end is gone.
async fn speak(stream: UnixStream, keeper: Arc<Keeper>) {
    let (mut input, mut output) = stream.into_split();
    let (answers, mut answer) = watch::channel(Answer::default());
    let answers = Arc::new(answers);
    let (asked, mut said) = mpsc::channel::<Box<Said>>(1);
    let mut status = keeper.edge.status();
    let mut spans = Waiting::new();
    let traces = spans.source();
    let told = async {
        loop {
            let report = ReportMessage::new(
                &status.borrow_and_update().clone(),
                &answer.borrow_and_update().clone(),
                keeper.edge.connections(),
            );
            send(&mut output, &Said::Report(report)).await?;
            loop {
                tokio::select! {
                    Ok(()) = status.changed() => break,
                    Ok(()) = answer.changed() => break,
                    Some(said) = said.recv() => send(&mut output, &*said).await?,
                    said = spans.next() => send(&mut output, &Said::Spans(said)).await?,
                    else => return io::Result::Ok(()),
                }
            }
        }
    };
    let heard = async {
        let mut present = None;
        while let Some(frame) = receive(&mut input).await? {
            let (doer, answers) = (Arc::clone(&keeper), Arc::clone(&answers));
            // Beside the loops: clients do not wait while a large plan is read.
            let done = tokio::task::spawn_blocking(move || doer.carry_out(&frame, &answers));
            match done.await.map_err(io::Error::other)? {
                Done::Attended(daemon) => present = Some(daemon),
                Done::Held => {}
                Done::Traced(below) => keeper.edge.trace_to(below.map(&traces)),
                Done::Said(said) => drop(asked.send(said).await),
            }
        }
        drop(present);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::Edge;
    use crate::options::Options;

    /// Whoever may tell the edge its plan has the traffic of all domains.
    #[tokio::test]
    async fn other_users_are_refused() {
        let dir = std::env::temp_dir().join(format!("jaco-edge-users-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(own_and_root(), [own, 0]);
        for (users, is_served) in [([own, own], true), ([own + 1, own + 2], false)] {
            let path = dir.join("socket");
            let listener = listen(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let edge = Arc::new(Edge::new(Options::default()).unwrap());
            let serving = tokio::spawn(accept(
                listener,
                Arc::new(Keeper::new(edge)),
                users,
                std::future::pending(),
            ));
            let mut stream = UnixStream::connect(&path).await.unwrap();
            // The end of the connection, or its break: either way nothing is said.
            let first = receive(&mut stream).await.ok().flatten();
            assert_eq!(first.is_some(), is_served);
            serving.abort();
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
