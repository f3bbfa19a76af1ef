//! Bodies on their way through: of requests to an instance, within bounds, and of responses to a client, at whose end
//! the connection to the instance is free again.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::watch;

use crate::deadline::Deadline;
use crate::refusal::Refusal;

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// It breaks a bound.
    #[error("the body of the request was refused: {}", .0.reason())]
    Refused(Refusal),
    /// The connection that it comes from broke.
    #[error("the connection that the body comes from broke")]
    Broken(#[source] hyper::Error),
}

/// The body of a request on its way to an instance.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// There is none.
    Empty,
    /// As it comes in.
    Stream(Box<Streamed>),
}

/// Bounds of the body of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// The most bytes.
    pub(crate) bytes_max: Option<u64>,
    /// The longest pause.
    pub(crate) idle: Duration,
}

/// A body that comes in.
#[derive(Debug)]
pub(crate) struct Streamed {
    incoming: Incoming,
    left: Option<u64>,
    idle: Duration,
    deadline: Deadline,
    progress: Arc<Progress>,
}

/// How far the body of a request is, for who waits for the response.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Whether anything was sent since it was asked last.
    moved: AtomicBool,
    too_large: AtomicBool,
    too_slow: AtomicBool,
    broken: AtomicBool,
}

impl Progress {
    /// Whether anything was sent since the last call.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved.swap(false, Ordering::Relaxed)
    }

    /// Why the body ended before its end, if the client is to blame.
    pub(crate) fn fault(&self) -> Option<Refusal> {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is(&self.too_large) {
            Some(Refusal::BodyTooLarge)
        } else if is(&self.too_slow) {
            Some(Refusal::BodyTimeout)
        } else {
            is(&self.broken).then_some(Refusal::MalformedRequest)
        }
    }
}

impl Outgoing {
    /// A body that comes in, within these bounds.
    pub(crate) fn new(incoming: Incoming, limits: BodyLimits, progress: &Arc<Progress>) -> Self {
        if incoming.is_end_stream() {
            return Self::Empty;
        }
        Self::Stream(Box::new(Streamed {
            incoming,
            left: limits.bytes_max,
            idle: limits.idle,
            deadline: Deadline::default(),
            progress: Arc::clone(progress),
        }))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Stream(body) => body.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stream(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Stream(body) => body.incoming.size_hint(),
        }
    }
}

impl Streamed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            if !self.deadline.is_set() {
                self.deadline.set(self.idle);
            }
            if self.deadline.poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.progress.too_slow.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err(BodyError::Refused(Refusal::BodyTimeout))));
        };
        self.deadline.clear();
        self.progress.moved.store(true, Ordering::Relaxed);
        let frame = match frame {
            None => return Poll::Ready(None),
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                self.progress.broken.store(true, Ordering::Relaxed);
                return Poll::Ready(Some(Err(BodyError::Broken(error))));
            }
        };
        if let (Some(left), Some(data)) = (self.left, frame.data_ref()) {
            let Some(left) = left.checked_sub(data.len() as u64) else {
                self.progress.too_large.store(true, Ordering::Relaxed);
                return Poll::Ready(Some(Err(BodyError::Refused(Refusal::BodyTooLarge))));
            };
            self.left = Some(left);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

/// What is done at the end of the body of a response, or when it is dropped before that.
pub(crate) trait AtEnd: Send {
    /// The client was sent so many bytes of the body. `end` says whether those were all.
    fn ended(self: Box<Self>, bytes: u64, end: End);
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It was sent as a whole.
    Complete,
    /// The instance or the client broke off.
    Cut,
}

/// The body of a response on its way to a client.
pub(crate) enum Answer {
    /// One of the edge itself.
    Own(Option<Bytes>),
    /// One of an instance.
    Forwarded(Box<Forwarded>),
}

/// A body that an instance sends.
pub(crate) struct Forwarded {
    incoming: Incoming,
    bytes: u64,
    is_over: bool,
    at_end: Option<Box<dyn AtEnd>>,
    /// Ends a stream of events once its instance has to stop: clients of those connect again.
    cut: Option<Cut>,
}

/// Ends a body early and in good order.
type Cut = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Answer {
    /// No body.
    pub(crate) fn empty() -> Self {
        Self::Own(None)
    }

    /// The body of a response of an instance.
    pub(crate) fn forwarded(incoming: Incoming, at_end: Box<dyn AtEnd>) -> Self {
        Self::Forwarded(Box::new(Forwarded {
            incoming,
            bytes: 0,
            is_over: false,
            at_end: Some(at_end),
            cut: None,
        }))
    }

    /// Ends the body in good order once `released` is true.
    pub(crate) fn until(mut self, mut released: watch::Receiver<bool>) -> Self {
        if let Self::Forwarded(body) = &mut self {
            body.cut = Some(Box::pin(async move {
                if released.wait_for(|released| *released).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }));
        }
        self
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Own(body) => Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Forwarded(body) => body.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_none(),
            Self::Forwarded(body) => body.is_over || body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Forwarded(body) if body.cut.is_some() => SizeHint::default(),
            Self::Forwarded(body) => body.incoming.size_hint(),
        }
    }
}

impl Forwarded {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            let is_cut = self.cut.as_mut().is_some_and(|cut| cut.as_mut().poll(cx).is_ready());
            self.is_over = is_cut;
            return if is_cut { Poll::Ready(None) } else { Poll::Pending };
        };
        match frame {
            None => {
                self.is_over = true;
                self.end(End::Complete);
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                self.end(End::Cut);
                Poll::Ready(Some(Err(BodyError::Broken(error))))
            }
            Some(Ok(frame)) => {
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                if self.incoming.is_end_stream() {
                    self.end(End::Complete);
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn end(&mut self, end: End) {
        if let Some(at_end) = self.at_end.take() {
            at_end.ended(self.bytes, end);
        }
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        let is_complete = self.incoming.is_end_stream();
        self.end(if is_complete { End::Complete } else { End::Cut });
    }
}
