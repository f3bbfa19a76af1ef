//! An ordered line of frames between two nodes, and its leader's end: appends sent without waiting for
//! the answers of those before them.
//!
//! One connection per peer, without a call around each message: at one write at a time, most of the
//! cost of an append was the call. Must never match an answer with another question: a line on which
//! an answer is still due and nobody waits for it is not used again.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use openraft::raft::AppendEntriesRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::error::TransportError;
use crate::types::{LogId, TypeConfig};

/// Largest frame: an entry of 4 MiB and what is around it. A longer one is an attack or a bug.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// Appends that a leader leaves unanswered. While one is on the follower's disk the next is on its way;
/// with more, what could share a write to the disk comes in pieces: with 32, 64 clients wrote a quarter
/// less than with 4.
pub(crate) const UNANSWERED_MAX: usize = 4;

/// Appends of one line that are worked on; further ones wait in the connection. More than a leader sends.
pub(crate) const UNDERTAKEN_MAX: usize = 32;

/// A two-way line of frames. Frames arrive whole, in order, once, or not at all.
pub trait Pipe:
    Stream<Item = io::Result<BytesMut>> + Sink<Bytes, Error = io::Error> + Send + Sync + Unpin
{
}

impl<T> Pipe for T where
    T: Stream<Item = io::Result<BytesMut>> + Sink<Bytes, Error = io::Error> + Send + Sync + Unpin
{
}

/// A line over a connection: each frame behind its length, four bytes, big-endian.
pub fn framed<S>(connection: S) -> Box<dyn Pipe>
where
    S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
{
    let codec = LengthDelimitedCodec::builder().max_frame_length(FRAME_BYTES_MAX).new_codec();
    Box::new(Framed::new(connection, codec))
}

/// What a sent append was about; its answer does not say.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// The entry before the first that was sent.
    pub(crate) prev: Option<LogId>,
    /// The last entry that was sent, or `prev`.
    pub(crate) last: Option<LogId>,
    /// When an answer is overdue.
    due: Instant,
}

impl Sent {
    pub(crate) fn of(request: &AppendEntriesRequest<TypeConfig>, patience: Duration) -> Self {
        let prev = request.prev_log_id;
        let last = request.entries.last().map(|entry| entry.log_id).or(prev);
        Self { prev, last, due: Instant::now() + patience }
    }
}

/// A line to a follower, and what it has not answered yet.
pub(crate) struct Line {
    pipe: Box<dyn Pipe>,
    address: String,
    unanswered: VecDeque<Sent>,
}

impl Line {
    pub(crate) fn new(pipe: Box<dyn Pipe>, address: String) -> Self {
        Self { pipe, address, unanswered: VecDeque::new() }
    }

    /// Where its other end is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether nothing is due on it: otherwise the next answer would be taken for another's.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Whether one more may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.unanswered.len() < UNANSWERED_MAX
    }

    /// Sends an append; the frame is on its way when this returns.
    pub(crate) async fn send(&mut self, frame: Bytes, sent: Sent) -> Result<(), TransportError> {
        let due = sent.due;
        self.unanswered.push_back(sent);
        match tokio::time::timeout_at(due, self.pipe.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => Err(TransportError::Timeout),
        }
    }

    /// The next answer, and what it is about. Nothing is lost if this is dropped before it is ready.
    /// Never ready while nothing is due, unless the line breaks.
    pub(crate) async fn answer(&mut self) -> Result<(Bytes, Sent), TransportError> {
        let next = self.pipe.next();
        let frame = match self.unanswered.front() {
            None => next.await,
            Some(oldest) => tokio::time::timeout_at(oldest.due, next)
                .await
                .map_err(|_| TransportError::Timeout)?,
        };
        let frame = match frame {
            Some(Ok(frame)) => frame.freeze(),
            Some(Err(error)) => return Err(broken(&error)),
            None => return Err(TransportError::Refused("the peer hung up".to_owned())),
        };
        let unasked = || TransportError::Refused("an answer to no question".to_owned());
        Ok((frame, self.unanswered.pop_front().ok_or_else(unasked)?))
    }
}

fn broken(error: &io::Error) -> TransportError {
    TransportError::Refused(format!("the line broke: {error}"))
}
