//! The process that takes requests from outside.

use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jaco_dataplane::edge::{ListenerKey, Transport};
use jaco_edge::service::{Control, FormerSocket, remove_abandoned, socket_path};
use jaco_edge::{AccessLog, Edge, Options, Socket, Succession};
use jaco_net::handover::{Event, Inbox, listeners_socket};
use jaco_process::{EdgeArgs, error_file, notify_ready};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::stop::Stop;
use crate::upgrade::Outcome;
use crate::{privileges, upgrade};

/// How long requests in flight may take when the process is stopped.
const STOP_LIMIT: Duration = Duration::from_secs(25);

/// How long a process that is to be replaced waits for the router to have copies of its listeners.
const IN_STEP_LIMIT: Duration = Duration::from_secs(5);

/// How often a successor is started that does not come to serve.
const ATTEMPTS: u32 = 2;

/// Pause between looks at that.
const POLL: Duration = Duration::from_millis(10);

/// Gives up what it does not need, and serves until it is told to stop.
pub(crate) fn run(args: &EdgeArgs) -> anyhow::Result<()> {
    // That of the daemon that starts it is closed to the readers of the access log.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let is_root = rustix::process::geteuid().is_root();
    let user = is_root.then(|| privileges::user(args.user.as_deref())).transpose()?;
    privileges::raise_descriptors()?;
    if let Some(namespace) = &args.namespace {
        privileges::enter_namespace(namespace)?;
    }
    privileges::enter_folder(&args.runtime_dir, user.as_ref())?;
    let served = serve_as(user.as_ref(), args);
    if let Err(error) = &served {
        // Where not even this can be written, the log has it.
        drop(std::fs::write(error_file(Path::new(".")), format!("{error:#}")));
    }
    served
}

fn serve_as(user: Option<&nix::unistd::User>, args: &EdgeArgs) -> anyhow::Result<()> {
    if let Some(user) = user {
        privileges::become_user(user)?;
    }
    // Nothing is there to remove but for what an earlier process left.
    drop(std::fs::remove_file(error_file(Path::new("."))));
    jaco_process::init(&args.log_level, args.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

/// Serves until a signal: `SIGTERM` and `SIGINT` stop it, `SIGHUP` has the program that is installed now take its place.
async fn serve(args: &EdgeArgs) -> anyhow::Result<()> {
    let mut stop = Stop::new()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let options = Options { access_log: args.access_log.map(access_log), ..Options::default() };
    let edge = Arc::new(Edge::new(options).context("TLS cannot be set up")?);
    let control = Control::new(Arc::clone(&edge));
    let mut open = Open::new(&edge, &control, Path::new("."))?;
    if let Err(error) = remove_abandoned(Path::new(".")) {
        warn!(%error, "sockets of edges that have ended cannot be removed");
    }
    notify_ready();
    info!(dir = %args.runtime_dir.display(), "edge started");
    let (mut waiting, mut attempts) = (None::<Instant>, 0);
    let mut former = None::<FormerSocket>;
    loop {
        tokio::select! {
            // The router first: if its connection has ended, nobody has copies of the listeners for a successor.
            biased;
            event = open.inbox.next() => take(&edge, event),
            ended = &mut open.control => return ended.context("the edge's socket has failed"),
            () = stop.wanted() => break,
            _ = hangup.recv() => (waiting, attempts) = (Some(Instant::now()), ATTEMPTS),
            () = sleep(POLL), if waiting.is_some() => {}
        }
        // A router that was started again has no copies of the listeners for a successor before it is handed them back.
        let is_due = |since: Instant| open.inbox.is_in_step() || since.elapsed() >= IN_STEP_LIMIT;
        if waiting.is_some_and(is_due) {
            // The daemon looks for the successor once it hears this, and goes on speaking to this process.
            edge.note_succession(Succession::Begun);
            // One that is started from now on finds it by its number.
            match FormerSocket::listen(&control, Path::new(".")) {
                Ok(socket) => drop(former.replace(socket)),
                Err(error) => warn!(%error, "a daemon that starts will not know of this process"),
            }
            open.close().await;
            match upgrade::replace(&edge, args, &mut stop).await {
                Outcome::Replaced => return Ok(()),
                Outcome::Stopped => break,
                Outcome::NotReplaced => {}
            }
            edge.note_succession(Succession::None);
            open = Open::new(&edge, &control, Path::new("."))?;
            drop(former.take());
            // A router that ended meanwhile came back without listeners, and is handed those of this process first.
            attempts -= 1;
            waiting = (attempts > 0).then(Instant::now);
        }
    }
    info!("stopping");
    let drained = tokio::select! {
        drained = edge.drain(STOP_LIMIT) => drained,
        () = stop.wanted() => return Ok(()),
    };
    if drained.cut > 0 {
        warn!(connections = drained.cut, "connections were cut");
    }
    drop(former);
    Ok(())
}

/// The sockets on which the router and the daemon speak to this process. Who is connected to it stays so when it is
/// dropped.
struct Open {
    inbox: Inbox,
    control: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
}

impl Open {
    fn new(edge: &Arc<Edge>, control: &Control, dir: &Path) -> anyhow::Result<Self> {
        let inbox = Inbox::listen(&listeners_socket(dir))
            .context("cannot listen for the router's listeners")?;
        let used = edge.clone_listeners().context("listeners cannot be copied")?;
        let inbox = inbox.holding(used.into_iter().map(|(key, socket)| (key, descriptor(socket))));
        let stop = CancellationToken::new();
        let control = control
            .serve(&socket_path(dir), stop.clone().cancelled_owned())
            .context("cannot listen for daemons")?;
        Ok(Self { inbox, control, stop })
    }

    /// When this returns, nobody reaches this process over its sockets any more. Before that it would itself: it looks for
    /// its successor there, and would take itself for it.
    async fn close(self) {
        drop(self.inbox);
        self.stop.cancel();
        if let Err(error) = self.control.await {
            warn!(%error, "the edge's socket has failed");
        }
    }
}

fn take(edge: &Edge, event: Event) {
    match event {
        Event::Take(key, socket) => match edge.add_listener(key, bound(key, socket)) {
            Ok(()) => info!(listener = %key, "listening"),
            Err(error) => error!(listener = %key, %error, "a listener cannot be used"),
        },
        Event::Drop(key) => {
            edge.remove_listener(&key);
            info!(listener = %key, "no longer listening");
        }
    }
}

fn bound(key: ListenerKey, socket: OwnedFd) -> Socket {
    match key.transport {
        Transport::Tcp => Socket::Tcp(socket.into()),
        Transport::Udp => Socket::Udp(socket.into()),
    }
}

fn descriptor(socket: Socket) -> OwnedFd {
    match socket {
        Socket::Tcp(socket) => socket.into(),
        Socket::Udp(socket) => socket.into(),
    }
}

/// Lines go to standard output; where nobody takes them they are lost, and requests go on.
fn access_log(one_in: NonZeroU32) -> AccessLog {
    let (sender, lines) = std::sync::mpsc::sync_channel::<String>(LINES);
    std::thread::spawn(move || {
        use std::io::Write;
        let mut output = std::io::BufWriter::new(std::io::stdout());
        while let Ok(line) = lines.recv() {
            let mut next = Some(line);
            while let Some(line) = next {
                if writeln!(output, "{line}").is_err() {
                    return;
                }
                next = lines.try_recv().ok();
            }
            if output.flush().is_err() {
                return;
            }
        }
    });
    AccessLog { one_in, sink: Arc::new(move |line| drop(sender.try_send(line))) }
}

/// How many lines may wait to be written.
const LINES: usize = 4096;

#[cfg(test)]
mod tests {
    use jaco_edge::service::EdgeClient;

    use super::*;

    /// R-EDGE-1: an edge that gives its place up does not reach itself over its socket, where it would take itself for its
    /// successor and stop accepting before that has begun.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_is_reached_once_the_sockets_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let edge = Arc::new(Edge::new(Options::default()).unwrap());
        let control = Control::new(Arc::clone(&edge));
        for _ in 0..100 {
            let open = Open::new(&edge, &control, folder.path()).unwrap();
            let served = async {
                while EdgeClient::connect(folder.path()).await.is_err() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(IN_STEP_LIMIT, served).await.unwrap();
            open.close().await;
            assert!(EdgeClient::connect(folder.path()).await.is_err());
        }
    }
}
