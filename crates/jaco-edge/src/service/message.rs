//! What is said over the socket of an edge: JSON, each message with its length before it.
//!
//! Both ends are of one program on one machine. A daemon may be newer than the edge that it finds, for the time of an
//! upgrade: what cannot be read is reported and not guessed.

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::change_message::ChangeMessage;
use super::explained::ExplainedMessage;
use super::report::{CountersMessage, ReportMessage};
use super::spans::SpansMessage;

/// The longest message: ten thousand routes, each with a few kilobytes of header rules and passwords.
const LENGTH_MAX: usize = 128 << 20;

/// Memory for a message of which nothing has arrived yet.
const RESERVED_MAX: usize = 64 << 10;

/// What an edge is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// A daemon is there, and will tell its plans. Until the connection ends, no plan is out of date.
    Attend,
    /// Hold what this makes of the plan that it is based on.
    Hold(Box<ChangeMessage>),
    /// Say what was counted. Answered by [`Said::Counted`].
    Count,
    /// Say what a request would meet. Answered by [`Said::Explained`]; known by the edges that know [`Order::Log`].
    Explain { host: String, path: String },
    /// Write lines about requests to a file, or to none. Edges know this that say so in their report.
    Log(Option<LogMessage>),
    /// Trace requests, and say their spans over this connection, or do not: [`Traces::below`](crate::Traces::below). Edges
    /// know this that say so in their report.
    Trace(Option<u64>),
}

/// Where lines about requests go, and of how many requests one has a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogMessage {
    pub(super) one_in: NonZeroU32,
    pub(super) path: PathBuf,
}

/// What an edge says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// What it holds; said first, and whenever it changes.
    Report(ReportMessage),
    /// What was counted.
    Counted(Box<CountersMessage>),
    /// What a request would meet.
    Explained(Box<ExplainedMessage>),
    /// Spans of requests.
    Spans(SpansMessage),
}

/// Writes a message.
pub(super) async fn send<M: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= LENGTH_MAX);
    let length = length.ok_or_else(|| too_long(body.len()))?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&body).await
}

/// Reads the bytes of a message; `None` at the end of the connection.
pub(super) async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > LENGTH_MAX {
        return Err(too_long(length));
    }
    let body = read_body(stream, length).await?;
    Ok(Some(body))
}

fn too_long(length: usize) -> io::Error {
    io::Error::other(format!("a message of {length} bytes is longer than {LENGTH_MAX}"))
}

/// Reads `length` bytes into memory that grows as they come: a length alone costs its sender nothing.
async fn read_body(stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(length.min(RESERVED_MAX));
    stream.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        let message = format!("{} of {length} bytes came", body.len());
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    #[tokio::test]
    async fn what_is_too_long_is_not_read() {
        let mut too_long: &[u8] = &[0xff; 8];
        assert!(receive(&mut too_long).await.is_err());
        let mut cut: &[u8] = &[0, 0, 0, 9, b'{'];
        assert!(receive(&mut cut).await.is_err());
        assert_eq!(receive(&mut [].as_slice()).await.unwrap(), None);
    }

    /// What is offered to a stream to be filled, at most.
    struct Slow {
        bytes: &'static [u8],
        offered: usize,
    }

    impl AsyncRead for Slow {
        fn poll_read(
            mut self: Pin<&mut Self>,
            ctx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.offered = self.offered.max(buffer.remaining());
            Pin::new(&mut self.bytes).poll_read(ctx, buffer)
        }
    }

    /// R-FAULT-3: memory is taken for bytes that are there, not for those that are announced.
    #[tokio::test]
    async fn an_announced_length_takes_no_memory() {
        let announced: &[u8] = &[0x07, 0, 0, 0, b'{', b'}'];
        let mut slow = Slow { bytes: announced, offered: 0 };
        let cut = receive(&mut slow).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert!(slow.offered <= 2 * RESERVED_MAX, "{} bytes", slow.offered);
    }
}
