//! Connections to ports of containers.

use std::sync::Arc;
use std::time::Instant;

use futures::{Stream, StreamExt, stream};
use jaco_agent::transfer::BoxConnection;
use jaco_proto::v1;
use jaco_proto::v1::forward_input::Input;
use jaco_proto::v1::forward_output::Output;
use jaco_state::audit::AuditKind;
use jaco_types::{Author, ErrorCode, Identity, Rejection};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tonic::{Request, Status, Streaming};

use super::announced::{Announced, Announcement};
use super::target::{Place, moved};
use super::{Answers, joined, status};
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;

/// Bytes that are read from a container at a time.
const PIECE_BYTES: usize = 32 << 10;

/// Maximum size of the name of a command's connections.
const SESSION_BYTES_MAX: usize = 32;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Connect,
    Announce,
}

/// A connection that is about to be opened.
pub(super) struct Forward {
    start: v1::ForwardStart,
    purpose: Purpose,
    port: u16,
    place: Place,
}

impl Forward {
    /// Validates the request, finds the instance, and audits the connection unless it is one more of a command.
    pub(super) async fn begin(
        member: &Member,
        by: Author,
        start: v1::ForwardStart,
        announced: &Announced,
    ) -> Result<Self, Rejection> {
        let purpose = match start.purpose.as_str() {
            "connect" => Purpose::Connect,
            "announce" => Purpose::Announce,
            other => return Err(invalid(format!("{other:?} is no purpose of a connection"))),
        };
        let port = u16::try_from(start.port).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| invalid(format!("{} is no TCP port", start.port)))?;
        if start.session.len() > SESSION_BYTES_MAX {
            return Err(invalid(format!("a session has at most {SESSION_BYTES_MAX} bytes")));
        }
        let place = Place::of(member, &by, &start.replica).await?;
        let forward = Self { start, purpose, port, place };
        forward.announce(member, by, announced).await?;
        Ok(forward)
    }

    async fn announce(
        &self,
        member: &Member,
        by: Author,
        announced: &Announced,
    ) -> Result<(), Rejection> {
        if matches!(by.by, Identity::Node { .. }) {
            return Ok(());
        }
        let announcement = Announcement {
            by: format!("{} {:?}", by.by, by.origin),
            session: self.start.session.to_vec(),
            instance: self.place.instance.to_string(),
            port: self.port,
        };
        let is_one_more = !announcement.session.is_empty();
        if is_one_more && announced.includes(&announcement, Instant::now()) {
            return Ok(());
        }
        member.store.read(upgraded::copies_may_be_audited)?;
        let port = self.port.to_string();
        let facts = [("port", port.as_str())];
        self.place.audit(member, by, AuditKind::ForwardStarted, &facts).await?;
        announced.note(announcement, Instant::now());
        Ok(())
    }

    pub(super) async fn carry(
        self,
        member: &Arc<Member>,
        inputs: Streaming<v1::ForwardInput>,
    ) -> Result<Answers<v1::ForwardOutput>, Status> {
        if !self.place.is_here(member) {
            return self.there(member, inputs).await;
        }
        let replica = self.start.replica.clone();
        let first = output(Output::Started(v1::ForwardStarted {
            replica: replica.clone(),
            node: member.hostname.to_string(),
        }));
        if self.purpose == Purpose::Announce {
            return Ok(Box::pin(stream::iter([Ok(first)])));
        }
        let connected = member.agent.connect(&self.place.instance, self.port).await;
        let connected = connected.map_err(|error| {
            let message =
                format!("no connection to port {} of replica {replica}: {error}", self.port);
            status(Rejection::new(ErrorCode::PortUnreachable, message))
        })?;
        let connected = connected.ok_or_else(|| status(moved(&replica)))?;
        Ok(Box::pin(stream::iter([Ok(first)]).chain(both_ways(connected, inputs))))
    }

    /// Has the node do it that has the container.
    async fn there(
        self,
        member: &Member,
        inputs: Streaming<v1::ForwardInput>,
    ) -> Result<Answers<v1::ForwardOutput>, Status> {
        let mut client = self.place.exec_client(member)?;
        let first = v1::ForwardInput { input: Some(Input::Start(self.start)) };
        let answer = client.forward(Request::new(joined(first, inputs))).await;
        let answer = answer.map_err(|status| self.place.unreachable(member, &status))?;
        Ok(Box::pin(answer.into_inner()))
    }
}

/// Carries bytes both ways until both have ended. What is not read by one side is not read from the other: a piece waits
/// here, and the rest in the connections. The connection is closed with the stream.
fn both_ways(
    connection: BoxConnection,
    inputs: Streaming<v1::ForwardInput>,
) -> impl Stream<Item = Result<v1::ForwardOutput, Status>> + Send {
    let (reading, writing) = tokio::io::split(connection);
    let written = stream::once(write(writing, inputs))
        .filter_map(|written| std::future::ready(written.err().map(Err)));
    stream::select(read(reading), written)
}

/// What the container sends, and its end.
fn read(
    reading: ReadHalf<BoxConnection>,
) -> impl Stream<Item = Result<v1::ForwardOutput, Status>> + Send {
    let start = Some((reading, vec![0; PIECE_BYTES]));
    stream::unfold(start, |state| async {
        let (mut reading, mut piece) = state?;
        match reading.read(&mut piece).await {
            Ok(0) => Some((Ok(output(Output::End(v1::ForwardEnd {}))), None)),
            Ok(length) => {
                let data = piece[..length].to_vec().into();
                Some((Ok(output(Output::Data(data))), Some((reading, piece))))
            }
            Err(error) => Some((Err(lost(&error)), None)),
        }
    })
}

/// Sends the container what the user sends, until the end of that.
async fn write(
    mut writing: WriteHalf<BoxConnection>,
    mut inputs: Streaming<v1::ForwardInput>,
) -> Result<(), Status> {
    loop {
        match inputs.message().await?.and_then(|input| input.input) {
            Some(Input::Data(data)) => {
                writing.write_all(&data).await.map_err(|error| lost(&error))?;
                writing.flush().await.map_err(|error| lost(&error))?;
            }
            Some(Input::End(v1::ForwardEnd {})) => {
                return writing.shutdown().await.map_err(|error| lost(&error));
            }
            Some(Input::Start(_)) => {
                return Err(status(invalid("only the first message starts a connection")));
            }
            // The user is gone, in the middle of it.
            None => return Err(Status::cancelled("the sender is gone")),
        }
    }
}

fn lost(error: &std::io::Error) -> Status {
    let message = format!("the connection to the container was lost: {error}");
    status(Rejection::new(ErrorCode::EngineError, message))
}

fn output(output: Output) -> v1::ForwardOutput {
    v1::ForwardOutput { output: Some(output) }
}
