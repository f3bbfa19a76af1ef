//! Raft streams: ordered frames between two nodes, and the leader's end of one, which pipelines
//! appends.
//!
//! One connection per peer, without a call around each message: with one write at a time, the call
//! was most of the cost of an append. An answer must never be matched with another request: a
//! stream with an abandoned pending answer is not used again.

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

/// Largest frame: an entry of 4 MiB and its envelope. A longer one is an attack or a bug.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// Maximum of unanswered appends. While one is on the follower's disk the next is in transit; with
/// more, entries that could share a disk write arrive in separate appends: with 32, 64 clients
/// wrote a quarter less than with 4.
pub(crate) const UNANSWERED_MAX: usize = 4;

/// Appends of one stream that are processed concurrently; further ones wait in the connection. More
/// than a leader sends.
pub(crate) const CONCURRENT_APPENDS_MAX: usize = 32;

/// A bidirectional stream of frames. Frames arrive whole, in order and once, or not at all.
pub trait Pipe:
    Stream<Item = io::Result<BytesMut>> + Sink<Bytes, Error = io::Error> + Send + Sync + Unpin
{
}

impl<T> Pipe for T where
    T: Stream<Item = io::Result<BytesMut>> + Sink<Bytes, Error = io::Error> + Send + Sync + Unpin
{
}

/// A raft stream over a connection: each frame is preceded by its length, four bytes, big-endian.
pub fn framed<S>(connection: S) -> Box<dyn Pipe>
where
    S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
{
    let codec = LengthDelimitedCodec::builder().max_frame_length(FRAME_BYTES_MAX).new_codec();
    Box::new(Framed::new(connection, codec))
}

/// An append that was sent; its answer does not repeat this.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// The sender's term.
    pub(crate) term: u64,
    /// The entry before the first that was sent.
    pub(crate) prev: Option<LogId>,
    /// The last entry that was sent, or `prev`.
    pub(crate) last: Option<LogId>,
    /// When the answer is overdue.
    due: Instant,
}

impl Sent {
    pub(crate) fn of(request: &AppendEntriesRequest<TypeConfig>, timeout: Duration) -> Self {
        let prev = request.prev_log_id;
        let last = request.entries.last().map(|entry| entry.log_id).or(prev);
        let term = request.vote.leader_id.term;
        Self { term, prev, last, due: Instant::now() + timeout }
    }
}

/// The raft stream to a follower, and the appends it has not answered.
pub(crate) struct AppendStream {
    pipe: Box<dyn Pipe>,
    address: String,
    unanswered: VecDeque<Sent>,
    is_new: bool,
    /// How often streams to the peer had been replaced when this one was opened.
    age: u64,
}

impl AppendStream {
    pub(crate) fn new(pipe: Box<dyn Pipe>, address: String, age: u64) -> Self {
        Self { pipe, address, unanswered: VecDeque::new(), is_new: true, age }
    }

    /// How often streams to the peer had been replaced when this one was opened.
    pub(crate) fn age(&self) -> u64 {
        self.age
    }

    /// Whether nothing was sent yet.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Address of the peer.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether no answer is pending: otherwise the next one would be matched with the wrong
    /// request.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Whether another append may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.unanswered.len() < UNANSWERED_MAX
    }

    /// Sends an append; the frame is in transit when this returns.
    pub(crate) async fn send(&mut self, frame: Bytes, sent: Sent) -> Result<(), TransportError> {
        let due = sent.due;
        self.unanswered.push_back(sent);
        self.is_new = false;
        match tokio::time::timeout_at(due, self.pipe.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => Err(TransportError::Timeout),
        }
    }

    /// The next answer and its append. Cancel-safe. Pends while no answer is due, unless the stream
    /// breaks.
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
            None => return Err(TransportError::Refused("the peer closed the stream".to_owned())),
        };
        let unasked = || TransportError::Refused("an answer without a request".to_owned());
        Ok((frame, self.unanswered.pop_front().ok_or_else(unasked)?))
    }
}

fn broken(error: &io::Error) -> TransportError {
    TransportError::Refused(format!("raft stream failed: {error}"))
}
