//! The end of the socket that makes plans.

use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jaco_dataplane::edge::EdgePlan;
use jaco_types::StateIndex;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::change_message::ChangeMessage;
use super::message::{LogMessage, Order, Said, receive, send};
use super::report::{EdgeCounters, EdgeReport};
use super::socket::is_of;
use super::socket_path;
use super::spans::EdgeSpans;
use crate::change::EdgeChange;
use crate::explain::Explained;
use crate::tls::Certificates;

/// Messages of spans that may wait to be taken; what comes then is lost.
const SPANS_MAX: usize = 64;

/// A daemon's connection to the process of an edge. It ends when this is dropped.
#[derive(Debug)]
pub struct EdgeClient {
    output: OwnedWriteHalf,
    pid: Option<u32>,
    status: watch::Receiver<EdgeReport>,
    spans: Option<mpsc::Receiver<EdgeSpans>>,
    reader: JoinHandle<()>,
}

impl Drop for EdgeClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl EdgeClient {
    /// Connects to the edge of this folder, and hears what it holds.
    ///
    /// # Errors
    /// If none listens there, or one of a user who does not own the folder.
    pub async fn connect(runtime_dir: &Path) -> io::Result<Self> {
        Self::connect_at(&socket_path(runtime_dir)).await
    }

    /// Connects to the edge at this socket: [`formers`](super::formers) finds those whose place another takes.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_at(socket: &Path) -> io::Result<Self> {
        let stream = open(socket).await?;
        let pid = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        let (mut input, mut output) = stream.into_split();
        send(&mut output, &Order::Attend).await?;
        let (sender, status) = watch::channel(next_report(&mut input).await?);
        let (traced, spans) = mpsc::channel(SPANS_MAX);
        let reader = tokio::spawn(async move {
            while let Ok(said) = next(&mut input).await {
                match said {
                    Said::Report(report) => {
                        let Some(report) = report.report() else { return };
                        if sender.send(report).is_err() {
                            return;
                        }
                    }
                    // Reports do not wait for whoever takes spans.
                    Said::Spans(spans) => drop(spans.spans().map(|spans| traced.try_send(spans))),
                    Said::Counted(_) | Said::Explained(_) => {}
                }
            }
        });
        Ok(Self { output, pid, status, spans: Some(spans), reader })
    }

    /// The number of the edge's process, where the system tells it.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// What the edge has done. The sender is gone once the connection has ended.
    pub fn status(&self) -> watch::Receiver<EdgeReport> {
        self.status.clone()
    }

    /// Tells the edge to hold the plan of a state. One of an older state than it holds is ignored.
    ///
    /// # Errors
    /// If the connection has ended, or the plan is larger than a message may be.
    pub async fn hold(
        &mut self,
        index: StateIndex,
        plan: &EdgePlan,
        certificates: &Certificates,
    ) -> io::Result<()> {
        let nothing = (&EdgePlan::default(), &Certificates::default());
        let whole = EdgeChange::between(nothing, (plan, certificates));
        self.tell(ChangeMessage::new(None, index, &whole)).await
    }

    /// Tells the edge to hold what a change makes of the plan of the state `base`. If it does not hold that one, it says
    /// so by [`EdgeReport::refused`], and needs a whole plan.
    ///
    /// # Errors
    /// If the connection has ended, or the change is larger than a message may be.
    pub async fn change(
        &mut self,
        base: StateIndex,
        index: StateIndex,
        change: &EdgeChange,
    ) -> io::Result<()> {
        self.tell(ChangeMessage::new(Some(base), index, change)).await
    }

    /// Tells the edge to write a line of JSON for one of so many requests to a file, or to none. It opens the file as its
    /// own user. One whose [`EdgeReport::takes_log`] is false must not be told.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn log(&mut self, to: Option<(&Path, NonZeroU32)>) -> io::Result<()> {
        let message = to.map(|(path, one_in)| LogMessage { one_in, path: path.to_owned() });
        send(&mut self.output, &Order::Log(message)).await
    }

    /// Tells the edge to trace requests, or not to: [`Traces::below`](crate::Traces::below). One whose
    /// [`EdgeReport::takes_traces`] is false must not be told.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn trace(&mut self, below: Option<u64>) -> io::Result<()> {
        send(&mut self.output, &Order::Trace(below)).await
    }

    /// The spans that the edge says, for who takes them first. The sender is gone once the connection has ended.
    pub fn take_spans(&mut self) -> Option<mpsc::Receiver<EdgeSpans>> {
        self.spans.take()
    }

    /// What the edge of this folder has counted, over a connection of its own.
    ///
    /// # Errors
    /// If none listens there, or one of a user who does not own the folder, or it ends meanwhile.
    pub async fn counters(runtime_dir: &Path) -> io::Result<EdgeCounters> {
        let (mut input, mut output) = open(&socket_path(runtime_dir)).await?.into_split();
        send(&mut output, &Order::Count).await?;
        loop {
            match next(&mut input).await? {
                Said::Report(_) => {}
                Said::Counted(counters) => return counters.counters().ok_or_else(strange),
                Said::Explained(_) | Said::Spans(_) => {}
            }
        }
    }

    /// What a request for a host and a path would meet at the edge of this folder, and what that holds; over a connection
    /// of its own.
    ///
    /// # Errors
    /// As [`Self::counters`], and if the edge is of a version without this question.
    pub async fn explain(
        runtime_dir: &Path,
        host: &str,
        path: &str,
    ) -> io::Result<(EdgeReport, Explained)> {
        let (mut input, mut output) = open(&socket_path(runtime_dir)).await?.into_split();
        let mut report = next_report(&mut input).await?;
        if !report.takes_log {
            return Err(strange());
        }
        let (host, path) = (host.to_owned(), path.to_owned());
        send(&mut output, &Order::Explain { host, path }).await?;
        loop {
            match next(&mut input).await? {
                Said::Report(newer) => report = newer.report().ok_or_else(strange)?,
                Said::Counted(_) | Said::Spans(_) => {}
                Said::Explained(said) => {
                    return Ok((report, said.explained().ok_or_else(strange)?));
                }
            }
        }
    }

    async fn tell(&mut self, message: ChangeMessage) -> io::Result<()> {
        send(&mut self.output, &Order::Hold(Box::new(message))).await
    }
}

/// What is said holds private keys: they are for who owns the folder, which nobody else can put a socket into.
async fn open(socket: &Path) -> io::Result<UnixStream> {
    let folder = socket.parent().unwrap_or(Path::new("."));
    let owner = std::fs::metadata(folder)?.uid();
    let stream = UnixStream::connect(socket).await?;
    if !is_of(&stream, [owner, rustix::process::geteuid().as_raw()]) {
        return Err(io::Error::other("the edge there is of a user who does not own its folder"));
    }
    Ok(stream)
}

async fn next_report(input: &mut OwnedReadHalf) -> io::Result<EdgeReport> {
    loop {
        match next(input).await? {
            Said::Report(report) => return report.report().ok_or_else(strange),
            Said::Counted(_) | Said::Explained(_) | Said::Spans(_) => {}
        }
    }
}

async fn next(input: &mut OwnedReadHalf) -> io::Result<Said> {
    let frame = receive(input).await?;
    let frame = frame.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    Ok(serde_json::from_slice(&frame)?)
}

fn strange() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the edge is of another version: restart it")
}
