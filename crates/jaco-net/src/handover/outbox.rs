//! The router's end: it connects to the edge, whenever there is one, and sees to it that the edge has the listeners
//! that the router has.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use jaco_dataplane::edge::ListenerKey;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::listeners::Listeners;
use super::record::{Channel, Record};

/// How long after the edge was lost the first try to reach it follows; twice as long after each, up to the second of
/// these.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How often is looked whether another edge listens at the path.
const LOOK: Duration = Duration::from_millis(200);

/// An edge that is slower than this to hand back what it has, or to take a record, is as good as gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of each socket that the edge has.
type Held = BTreeMap<ListenerKey, Option<u64>>;

/// Hands over to the edge that listens at a path, for ever. `first` hears when an edge has handed back what it had, or
/// there is none.
pub(crate) async fn hand_over(path: &Path, listeners: &Listeners, first: oneshot::Sender<()>) {
    let (mut first, mut pause) = (Some(first), RETRY.0);
    loop {
        let identity = identity(path);
        if let Ok(edge) = Channel::connect(path) {
            info!(socket = ?path, "edge connected");
            match speak(&edge, (path, identity), listeners, &mut first).await {
                Ok(()) => info!("edge is gone"),
                Err(error) => warn!(%error, "connection to the edge ended"),
            }
            pause = RETRY.0;
        }
        say(&mut first);
        sleep(pause).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

fn say(first: &mut Option<oneshot::Sender<()>>) {
    if let Some(first) = first.take() {
        // Who has asked may wait no more.
        let _is_heard = first.send(()).is_ok();
    }
}

/// Until the edge is gone, or another one listens in its place.
async fn speak(
    edge: &Channel,
    (path, identity): (&Path, Option<(u64, u64)>),
    listeners: &Listeners,
    first: &mut Option<oneshot::Sender<()>>,
) -> io::Result<()> {
    let mut changes = listeners.changes();
    let Some(mut held) = take_back(edge, listeners).await? else { return Ok(()) };
    say(first);
    loop {
        // What changes from here on is told in the next round.
        changes.mark_unchanged();
        tell(edge, listeners, &mut held).await?;
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return Ok(()) },
            heard = edge.receive() => return match heard? {
                None => Ok(()),
                Some((record, _)) => Err(unexpected(record)),
            },
            () = replaced(path, identity) => {
                info!(socket = ?path, "another edge has taken the place of this one");
                return Ok(());
            }
        }
    }
}

/// What the edge hands back; `None` if it ends before that.
async fn take_back(edge: &Channel, listeners: &Listeners) -> io::Result<Option<Held>> {
    let mut held = Held::new();
    loop {
        let Some((record, socket)) = patiently(edge.receive()).await? else { return Ok(None) };
        match (record, socket) {
            (Record::HandBack(key), Some(socket)) => {
                held.insert(key, listeners.adopt(key, socket));
            }
            (Record::End, None) => return Ok(Some(held)),
            (other, _) => return Err(unexpected(other)),
        }
    }
}

/// Tells the edge what it has and the router has not, then what the router has and it has not.
async fn tell(edge: &Channel, listeners: &Listeners, held: &mut Held) -> io::Result<()> {
    let open = listeners.sockets();
    let is_same = |key: &ListenerKey, number: &Option<u64>| {
        open.get(key).is_some_and(|open| Some(open.number) == *number)
    };
    let gone: Vec<ListenerKey> =
        held.iter().filter(|(key, number)| !is_same(key, number)).map(|(key, _)| *key).collect();
    for key in gone {
        patiently(edge.send(Record::Drop(key), None)).await?;
        held.remove(&key);
    }
    for (key, open) in &open {
        if !held.contains_key(key) {
            patiently(edge.send(Record::Take(*key), Some(open.socket.as_fd()))).await?;
            held.insert(*key, Some(open.number));
        }
    }
    Ok(())
}

async fn patiently<T>(task: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, task).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn unexpected(record: Record) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the edge said {record:?} out of turn"))
}

/// Ends once another edge listens at the path.
async fn replaced(path: &Path, before: Option<(u64, u64)>) {
    loop {
        sleep(LOOK).await;
        let now = identity(path);
        if now.is_some() && now != before {
            return;
        }
    }
}

/// Which file is at the path; `None` if there is none.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}
