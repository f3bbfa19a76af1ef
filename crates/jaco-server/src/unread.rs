//! Bounds the memory of answers that their readers do not take.
//!
//! The HTTP library holds what it was given until the reader makes room. Readers that stall, many at a time, would so
//! fill the memory of a daemon. Here it is counted; when there is too much of it, new answers wait, and the connection
//! of the reader that has taken nothing for longest is closed.
//!
//! The library asks for the next part before the last one has left, but takes it only once next to nothing is left of those
//! before it: it is served with a buffer that small ([`crate::serve`]). So the last byte of each part is handed out by
//! itself: who asks for more after it has sent what came before.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{self, Poll, ready};
use std::time::Duration;

use futures::future::{BoxFuture, Either};
use futures::{FutureExt, TryFutureExt};
use http_body::{Body as HttpBody, Frame, SizeHint};
use jaco_pki::Standing;
use jaco_proto::rpc;
use jaco_proto::v1::Access;
use tokio::time::{Instant, Sleep};
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

use crate::auth::connection::Caller;
use crate::metrics::Tallies;

/// How much of their answers readers may leave unread.
#[derive(Debug, Clone, Copy)]
pub struct UnreadLimits {
    /// Bytes, of all readers together; one answer is held whatever its size.
    pub bytes: usize,
    /// How long a reader may take nothing while others wait for room.
    pub patience: Duration,
}

impl Default for UnreadLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, patience: Duration::from_secs(5) }
    }
}

/// Smaller parts are not counted: with as many streams as a connection may have they are a megabyte.
pub(crate) const COUNTED_MIN: usize = 1 << 10;

/// How often one that waits for room looks for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What readers on the network have not taken yet.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: UnreadLimits,
    held: Mutex<Held>,
    tallies: Arc<Tallies>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    next: u64,
    /// Those that were handed out first come first.
    unread: BTreeMap<u64, Unread>,
}

/// A part of an answer that the HTTP library holds.
#[derive(Debug)]
struct Unread {
    bytes: usize,
    since: Instant,
    reader: Reader,
}

#[derive(Debug, Clone)]
struct Reader {
    source: SocketAddr,
    standing: Standing,
    method: String,
}

impl Ledger {
    pub(crate) fn new(limits: UnreadLimits, tallies: Arc<Tallies>) -> Self {
        Self { limits, held: Mutex::default(), tallies }
    }

    /// Waits until there is room for a further answer.
    pub(crate) async fn room(&self) {
        while !self.has_room() {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Whether there is room, if need be by closing connections of readers that lag.
    fn has_room(&self) -> bool {
        let mut held = self.lock();
        while held.bytes >= self.limits.bytes {
            let Some((_, oldest)) = held.unread.first_key_value() else { return true };
            if oldest.since.elapsed() < self.limits.patience {
                return false;
            }
            let lagging = oldest.reader.clone();
            held.close(&lagging);
            self.tallies.lagging_closed.inc();
            self.tell(&held);
        }
        true
    }

    fn take(&self, bytes: usize, reader: &Reader) -> u64 {
        let mut held = self.lock();
        let number = held.next;
        held.next += 1;
        held.bytes += bytes;
        held.unread.insert(number, Unread { bytes, since: Instant::now(), reader: reader.clone() });
        self.tell(&held);
        number
    }

    fn release(&self, number: u64) {
        let mut held = self.lock();
        held.release(number);
        self.tell(&held);
    }

    /// For the metrics.
    fn tell(&self, held: &Held) {
        let bytes = u64::try_from(held.bytes).unwrap_or(u64::MAX);
        self.tallies.unread_bytes.store(bytes, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nothing panics while holding the ledger")
    }
}

impl Held {
    fn release(&mut self, number: u64) {
        if let Some(unread) = self.unread.remove(&number) {
            self.bytes -= unread.bytes;
        }
    }

    /// Closes the connection of a reader. What else it has not read leaves with it.
    fn close(&mut self, lagging: &Reader) {
        let is_its =
            |unread: &Unread| unread.reader.standing.shares_connection_with(&lagging.standing);
        let its = self.unread.iter().filter(|(_, unread)| is_its(unread));
        let its: Vec<u64> = its.map(|(number, _)| *number).collect();
        let before = self.bytes;
        for number in &its {
            self.release(*number);
        }
        let (bytes, answers) = (before - self.bytes, its.len());
        let Reader { source, method, .. } = lagging;
        tracing::warn!(
            reason = "lagging", %source, method, answers, bytes,
            "closed a connection: its answers were not read while others waited for memory"
        );
        lagging.standing.close();
    }
}

/// Puts [`Counted`] bodies into answers to callers on the network, but for what only members ask each other.
#[derive(Debug, Clone)]
pub(crate) struct UnreadLayer {
    ledger: Arc<Ledger>,
}

#[derive(Debug, Clone)]
pub(crate) struct CountUnread<S> {
    services: S,
    ledger: Arc<Ledger>,
}

impl UnreadLayer {
    pub(crate) fn new(limits: UnreadLimits, tallies: Arc<Tallies>) -> Self {
        Self { ledger: Arc::new(Ledger::new(limits, tallies)) }
    }
}

impl<S> Layer<S> for UnreadLayer {
    type Service = CountUnread<S>;

    fn layer(&self, services: S) -> CountUnread<S> {
        CountUnread { services, ledger: Arc::clone(&self.ledger) }
    }
}

impl<S> Service<Request<Body>> for CountUnread<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(ctx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let method = request.uri().path();
        let is_of_members =
            rpc::ALL.iter().any(|rpc| rpc.method == method && rpc.access == Access::Member);
        let caller = request.extensions().get::<Caller>().filter(|_| !is_of_members);
        let Some((source, standing)) = caller.and_then(Caller::on_network) else {
            return Either::Left(self.services.call(request));
        };
        let method = method.to_owned();
        let reader = Reader { source, standing: standing.clone(), method };
        let ledger = Arc::clone(&self.ledger);
        request.extensions_mut().insert(Arc::clone(&ledger));
        let answer = self.services.call(request).map_ok(|response| {
            response.map(|body| {
                let (last_byte, unread, waiting) = (None, None, None);
                Body::new(Counted { body, reader, ledger, last_byte, unread, waiting })
            })
        });
        Either::Right(answer.boxed())
    }
}

/// Waits, in the method of a large answer, until there is room for it: only then it is copied.
pub(crate) async fn room_for_answer<T>(request: &tonic::Request<T>) {
    if let Some(ledger) = request.extensions().get::<Arc<Ledger>>().cloned() {
        ledger.room().await;
    }
}

/// A body that counts as unread what it has handed out, until that has left.
struct Counted {
    body: Body,
    reader: Reader,
    ledger: Arc<Ledger>,
    /// Of the part that was handed out last.
    last_byte: Option<Bytes>,
    unread: Option<u64>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let this = &mut *self;
        if let Some(last_byte) = this.last_byte.take() {
            return Poll::Ready(Some(Ok(Frame::data(last_byte))));
        }
        if let Some(number) = this.unread.take() {
            this.ledger.release(number);
        }
        while !this.ledger.has_room() {
            let look = || Box::pin(tokio::time::sleep(LOOK_INTERVAL));
            ready!(this.waiting.get_or_insert_with(look).as_mut().poll(ctx));
            this.waiting = None;
        }
        let mut frame = ready!(Pin::new(&mut this.body).poll_frame(ctx));
        let data = frame.as_mut().and_then(|frame| frame.as_mut().ok()?.data_mut());
        if let Some(data) = data.filter(|data| data.len() >= COUNTED_MIN) {
            this.unread = Some(this.ledger.take(data.len(), &this.reader));
            this.last_byte = Some(data.split_off(data.len() - 1));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.last_byte.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.last_byte {
            None => self.body.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(number) = self.unread.take() {
            self.ledger.release(number);
        }
    }
}
