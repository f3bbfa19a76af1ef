//! The bytes of an HTTP/1 connection on their way to hyper: each head is held back until it is complete and judged.
//! A faulty one is replaced by a request that nobody can send, which the service answers with the refusal; nothing is
//! read after it. Here are also the times that a client may take.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Connection, Decision};
use super::stream::Stream;
use crate::deadline::Deadline;
use crate::wire::inspect::Fault;
use crate::wire::screen::{Advance, HeadLimits, Screen};

/// Stands for a head that was refused: its target is an authority, which [`inspect`](crate::wire::inspect) lets
/// nobody send.
const REFUSED: &[u8] = b"GET refused:0 HTTP/1.1\r\nhost: refused\r\n\r\n";

/// The most bytes that are held while it is open whether the connection changes its protocol.
const HELD_MAX: usize = 16 * 1024;

/// So long, and for so many bytes, a client that was refused may go on sending before its connection is closed.
const LINGER: Duration = Duration::from_secs(1);
const LINGERED_MAX: usize = 256 * 1024;

/// A connection whose requests are judged.
#[derive(Debug)]
pub(crate) struct Screened<S> {
    stream: S,
    connection: Arc<Connection>,
    screen: Screen,
    /// Bytes that came in and were not read yet.
    held: BytesMut,
    /// So many of them are fine.
    passed: usize,
    state: State,
    waiting: Waiting,
    reading: Deadline,
    writing: Deadline,
    lingering: Deadline,
    lingered: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// The stand-in of a faulty head is read, and then the end.
    Refused {
        sent: usize,
    },
}

/// What the client is to send next, in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// The rest of a head.
    Head,
    /// Another request, or nothing.
    Idle,
    /// Something whose time is measured elsewhere: a body, or nothing before its answer.
    Elsewhere,
}

/// What comes of waiting too long.
enum Late {
    /// The connection ends.
    End,
    /// The client is told.
    Refused,
}

impl<S> Screened<S> {
    /// A connection that begins with these bytes.
    pub(crate) fn new(stream: S, connection: Arc<Connection>, begin: BytesMut) -> Self {
        let limits = connection.shared.options.limits;
        let head =
            HeadLimits { bytes_max: limits.head_bytes_max, fields_max: limits.head_fields_max };
        let mut reading = Deadline::default();
        reading.set(limits.head_timeout);
        Self {
            stream,
            connection,
            screen: Screen::new(head),
            held: begin,
            passed: 0,
            state: State::Reading,
            waiting: Waiting::Head,
            reading,
            writing: Deadline::default(),
            lingering: Deadline::default(),
            lingered: 0,
        }
    }

    fn give(&mut self, out: &mut ReadBuf<'_>) {
        let count = self.passed.min(out.remaining());
        out.put_slice(&self.held[..count]);
        self.held.advance(count);
        self.passed -= count;
        if self.held.is_empty() {
            // An idle connection holds no memory.
            self.held = BytesMut::new();
        }
    }

    fn refuse(&mut self, fault: Fault) {
        self.connection.set_fault(fault);
        self.held = BytesMut::new();
        self.passed = 0;
        self.state = State::Refused { sent: 0 };
    }

    /// Looks at what is held.
    fn judge(&mut self) -> Result<Advance, Fault> {
        if self.held.is_empty() {
            return Ok(Advance::More);
        }
        let was_in_head = self.screen.is_in_head();
        let advance = self.screen.advance(&self.held)?;
        if let Advance::Pass(count) = advance {
            self.passed = count;
            self.note_head(was_in_head);
        }
        Ok(advance)
    }

    /// A head has passed: what the client sends next has a time of its own.
    fn note_head(&mut self, was_in_head: bool) {
        if was_in_head {
            self.waiting = Waiting::Elsewhere;
            self.reading.clear();
            if self.screen.may_change() {
                // What was decided before was about another request.
                self.connection.forget_decision();
            }
        }
    }

    /// Where a fault is found: in a head it is answered, in a body it breaks the connection.
    fn fail(&mut self, fault: Fault, was_in_head: bool) -> io::Result<()> {
        if was_in_head {
            self.refuse(fault);
            return Ok(());
        }
        self.connection.set_fault(fault);
        Err(io::Error::new(io::ErrorKind::InvalidData, "the body of a request is broken"))
    }
}

impl<S: AsyncRead + Unpin> Screened<S> {
    /// Reads more into what is held; 0 at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [std::mem::MaybeUninit::uninit(); 8 * 1024];
        let mut read = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        self.held.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// The common case: what comes in is read at once into the place where it is wanted, and all of it is fine.
    fn poll_straight(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let start = out.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, out))?;
        let read = out.filled().len() - start;
        let was_in_head = self.screen.is_in_head();
        // A fault is found again by whoever looks at what is held.
        let count = match self.screen.advance(&out.filled()[start..]) {
            Ok(Advance::Pass(count)) => {
                self.note_head(was_in_head);
                count
            }
            Ok(Advance::More | Advance::Held) | Err(_) => 0,
        };
        self.held.extend_from_slice(&out.filled()[start + count..]);
        out.set_filled(start + count);
        Poll::Ready(Ok(read))
    }

    /// Nothing came in: ready if that has lasted too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Late> {
        let limits = self.connection.shared.options.limits;
        let waiting = match (self.screen.is_in_head(), self.held.is_empty()) {
            (true, _) if self.connection.is_active() => Waiting::Elsewhere,
            (true, false) => Waiting::Head,
            // Before its first byte a new connection has as much time as for a head.
            (true, true) if self.waiting == Waiting::Head => Waiting::Head,
            (true, true) => Waiting::Idle,
            (false, _) => Waiting::Elsewhere,
        };
        if waiting != self.waiting {
            self.waiting = waiting;
            match waiting {
                Waiting::Head => self.reading.set(limits.head_timeout),
                Waiting::Idle => self.reading.set(limits.keep_alive),
                Waiting::Elsewhere => self.reading.clear(),
            }
        }
        ready!(self.reading.poll(cx));
        Poll::Ready(if self.held.is_empty() { Late::End } else { Late::Refused })
    }

    /// Reads until something may be given, or nothing comes any more.
    fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<Read>> {
        if self.screen.is_held()
            && let Some(decision) = self.connection.decision(cx.waker())
        {
            match decision {
                Decision::Changes => self.screen.open(),
                Decision::Stays => self.screen.resume(),
            }
        }
        let was_in_head = self.screen.is_in_head();
        match self.judge() {
            Ok(Advance::Pass(_)) => return Poll::Ready(Ok(Read::Some)),
            Ok(Advance::Held) if self.held.len() >= HELD_MAX => return Poll::Pending,
            Ok(Advance::More | Advance::Held) => {}
            Err(fault) => {
                self.fail(fault, was_in_head)?;
                return Poll::Ready(Ok(Read::Some));
            }
        }
        let read = if self.held.is_empty() && !self.screen.is_held() {
            self.poll_straight(cx, out)
        } else {
            self.poll_more(cx)
        };
        match read {
            Poll::Ready(Ok(0)) => Poll::Ready(Ok(Read::End)),
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(Read::Some)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match ready!(self.poll_late(cx)) {
                Late::End => Poll::Ready(Ok(Read::End)),
                Late::Refused => {
                    self.refuse(Fault::Slow);
                    Poll::Ready(Ok(Read::Some))
                }
            },
        }
    }
}

/// What a step of reading came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Some,
    End,
}

impl<S: AsyncRead + Unpin> AsyncRead for Screened<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = out.filled().len();
        loop {
            if let State::Refused { sent } = &mut this.state {
                let rest = &REFUSED[*sent..];
                if rest.is_empty() {
                    // Not the end, which would take the answer away: that closes the connection.
                    return Poll::Pending;
                }
                let count = rest.len().min(out.remaining());
                out.put_slice(&rest[..count]);
                *sent += count;
                return Poll::Ready(Ok(()));
            }
            if this.passed > 0 {
                this.give(out);
                return Poll::Ready(Ok(()));
            }
            let read = ready!(this.poll_next(cx, out))?;
            if read == Read::End || out.filled().len() > start {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> Screened<S> {
    /// Takes what the client still sends, for a while. To close a connection with bytes that nobody has read would
    /// take from the client what it was answered.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.lingering.is_set() {
            self.lingering.set(LINGER);
        }
        while self.lingered < LINGERED_MAX {
            self.held.clear();
            match self.poll_more(cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(count)) => self.lingered += count,
                Poll::Pending => return self.lingering.poll(cx),
            }
        }
        Poll::Ready(())
    }
}

impl<S: Stream> Screened<S> {
    /// Measures how long the client takes nothing.
    fn timed<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.writing.clear();
            return written;
        }
        if !self.writing.is_set() {
            self.writing.set(self.connection.shared.options.limits.write_stall);
        }
        ready!(self.writing.poll(cx));
        self.stream.drop_unsent();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: Stream> AsyncWrite for Screened<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.timed(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.timed(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        let is_cut = this.state != State::Reading || this.screen.is_in_body();
        if is_cut { this.poll_linger(cx).map(Ok) } else { Poll::Ready(Ok(())) }
    }
}
