//! The end of the socket that makes plans.

use std::io;
use std::path::Path;

use jaco_dataplane::{PlanChange, PublicKey, SitePlan};
use jaco_types::StateIndex;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::change_message::ChangeMessage;
use super::message::{Order, RouterStatus, Said, receive, send};
use super::plan_message::PlanMessage;
use super::socket_path;
use crate::counts::RouterCounts;
use crate::probe::{ProbeQuestion, ProbeReport};

/// A connection to the process of a router. It ends when this is dropped.
#[derive(Debug)]
pub struct RouterClient {
    output: OwnedWriteHalf,
    status: watch::Receiver<RouterStatus>,
    reader: JoinHandle<()>,
}

impl Drop for RouterClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl RouterClient {
    /// Connects to the router of this folder, and hears what it holds.
    ///
    /// # Errors
    /// If none listens there, or one of another user.
    pub async fn connect(runtime_dir: &Path) -> io::Result<Self> {
        let (mut input, output) = open(runtime_dir).await?.into_split();
        let (sender, status) = watch::channel(next_status(&mut input).await?);
        let reader = tokio::spawn(async move {
            while let Ok(status) = next_status(&mut input).await {
                if sender.send(status).is_err() {
                    return;
                }
            }
        });
        Ok(Self { output, status, reader })
    }

    /// Asks the router of this folder what holds between it and others, over a connection of its own: the answer
    /// takes as long as the question says.
    ///
    /// # Errors
    /// If none listens there, or one of another user, or it ends meanwhile.
    pub async fn probe(runtime_dir: &Path, question: ProbeQuestion) -> io::Result<ProbeReport> {
        let (mut input, mut output) = open(runtime_dir).await?.into_split();
        send(&mut output, &Order::Probe(question)).await?;
        loop {
            match receive(&mut input).await?.ok_or_else(ended)? {
                Said::Status(_) | Said::NextKey(_) | Said::Counted(_) => {}
                Said::Probed(report) => return Ok(*report),
            }
        }
    }

    /// Asks the router of this folder what it has counted, over a connection of its own.
    ///
    /// # Errors
    /// If none listens there, or one of another user or of an earlier version, or its tunnel cannot be asked.
    pub async fn counts(runtime_dir: &Path) -> io::Result<RouterCounts> {
        let (mut input, mut output) = open(runtime_dir).await?.into_split();
        send(&mut output, &Order::Count).await?;
        loop {
            match receive(&mut input).await?.ok_or_else(ended)? {
                Said::Status(_) | Said::NextKey(_) | Said::Probed(_) => {}
                Said::Counted(counted) => {
                    return counted.ok_or_else(|| io::Error::other("its tunnel does not answer"));
                }
            }
        }
    }

    /// Has the router of this folder make another key, and returns its public part; the same one until a plan has named
    /// it. [`RouterStatus::next_key`] says so from then on.
    ///
    /// # Errors
    /// If none listens there, or one of another user, or it cannot keep a key.
    pub async fn make_key(runtime_dir: &Path) -> io::Result<PublicKey> {
        let (mut input, mut output) = open(runtime_dir).await?.into_split();
        send(&mut output, &Order::MakeKey).await?;
        loop {
            match receive(&mut input).await?.ok_or_else(ended)? {
                Said::Status(_) | Said::Probed(_) | Said::Counted(_) => {}
                Said::NextKey(made) => return made.map(PublicKey).map_err(io::Error::other),
            }
        }
    }

    /// What the router holds. The sender is gone once the connection has ended.
    pub fn status(&self) -> watch::Receiver<RouterStatus> {
        self.status.clone()
    }

    /// Tells the router to hold the plan of a state.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn hold(&mut self, index: StateIndex, plan: &SitePlan) -> io::Result<()> {
        send(&mut self.output, &Order::Plan(Box::new(PlanMessage::new(index, plan)))).await
    }

    /// Tells the router to hold what a change makes of the plan of the state `base`. If it does not hold that one, it
    /// says so by [`RouterStatus::refused`], and needs a whole plan.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn change(
        &mut self,
        base: StateIndex,
        index: StateIndex,
        change: &PlanChange,
    ) -> io::Result<()> {
        let message = ChangeMessage::new(base, index, change);
        send(&mut self.output, &Order::Change(Box::new(message))).await
    }

    /// Tells the router that bridges may be there now that were missing.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn retry(&mut self) -> io::Result<()> {
        send(&mut self.output, &Order::Retry).await
    }
}

async fn open(runtime_dir: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket_path(runtime_dir)).await?;
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&stream.peer_cred()?.uid()) {
        return Err(io::Error::other("the router there is another user's"));
    }
    Ok(stream)
}

async fn next_status(input: &mut OwnedReadHalf) -> io::Result<RouterStatus> {
    loop {
        match receive(input).await?.ok_or_else(ended)? {
            Said::Status(status) => return Ok(status),
            Said::Probed(_) | Said::Counted(_) | Said::NextKey(_) => {}
        }
    }
}

fn ended() -> io::Error {
    io::Error::from(io::ErrorKind::UnexpectedEof)
}
