//! Sends a request to an instance, and to another one if that is safe: always if nothing of it was sent, and after
//! that only if its method is idempotent, it has no body and the budget allows it. A POST is never sent twice.

use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Incoming;

use crate::backend::{Backend, Picked};
use crate::body::{Outgoing, Progress};
use crate::counters::RouteCounters;
use crate::instance::InFlight;
use crate::patience::Patience;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::upstream::{Link, Origin, Sender, Upstream, Wanted};

/// So long an instance may say nothing to a request before it is looked whether it is still there; after each time that it
/// is, twice as long, as there may be thousands that wait for something to happen.
const SILENCE: Duration = Duration::from_secs(1);

/// So many connections are tried for one request before it is looked whether there is time for more.
const ATTEMPTS_MAX: usize = 6;

/// A request that is ready for an instance.
pub(super) struct Job<'a> {
    pub(super) backend: &'a Backend,
    pub(super) counters: &'a RouteCounters,
    pub(super) parts: Parts,
    pub(super) kind: Kind,
    /// The instance that a cookie names.
    pub(super) sticky: Option<u64>,
    /// Until the head of the response.
    pub(super) timeout: Duration,
}

/// What is expected of the connection after the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A response.
    Plain,
    /// Another protocol.
    Upgrade,
}

/// The answer of an instance.
pub(super) struct Reply {
    pub(super) response: Response<Incoming>,
    pub(super) lease: Lease,
}

/// The use of a connection to an instance, until the end of a response.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) upstream: Arc<Upstream>,
    pub(super) in_flight: InFlight,
    sender: Sender,
}

/// What came of sending a request once.
enum Sent {
    Answered(Response<Incoming>, Sender),
    /// Nothing of it was sent.
    Unsent(Outgoing),
    /// The instance said that it does not look at it.
    Declined,
    /// The connection broke, and the instance may have seen it.
    Broken(Refusal),
    /// The machine of the instance does not answer any more.
    Lost,
    Late,
}

impl Lease {
    /// The response is complete: the connection is free for the next request.
    pub(super) fn complete(self) {
        match self.sender {
            Sender::Http1(sender) if !self.in_flight.is_leaving() => self.upstream.keep(sender),
            Sender::Http1(_) => {}
            Sender::Http2 { heard, .. } => heard.note(),
        }
    }
}

/// Sends a request until there is an answer, or no more may be tried.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn forward(
    shared: &Shared,
    job: Job<'_>,
    body: Outgoing,
    progress: &Progress,
) -> Result<Reply, Refusal> {
    let is_empty = matches!(body, Outgoing::Empty);
    let is_repeatable = is_empty && is_idempotent(&job.parts.method);
    let mut attempt = Attempts {
        tried: Vec::new(),
        wanted: if is_repeatable { Wanted::Any } else { Wanted::Fresh },
        sticky: job.sticky,
    };
    let mut body = Some(body);
    let mut refusal = Refusal::NoEndpoints;
    job.backend.note_request();
    let mut patience = Patience::new(shared.options.limits.connect_patience);
    let mut number = 0;
    loop {
        let next = if number < ATTEMPTS_MAX { attempt.pick(job.backend) } else { None };
        let Some(picked) = next else {
            if !patience.allows_more().await {
                return Err(refusal);
            }
            attempt.tried.clear();
            number = 0;
            continue;
        };
        if refusal != Refusal::NoEndpoints {
            job.counters.retried();
        }
        number += 1;
        let link = match link(shared, &picked, job.kind, attempt.wanted).await {
            Ok(link) => link,
            Err(error) => {
                patience.note(&error);
                refusal = Refusal::ConnectFailed;
                attempt.failed(shared, &picked, Origin::New);
                continue;
            }
        };
        let origin = link.origin;
        let request =
            Request::from_parts(job.parts.clone(), body.take().unwrap_or(Outgoing::Empty));
        let sending = send(link.sender, request, job.timeout, progress);
        let sent = match is_repeatable {
            true => unless_lost(sending, &picked.upstream, shared.dialer.timeout).await,
            false => sending.await,
        };
        match sent {
            Sent::Answered(response, sender) => {
                let Picked { upstream, in_flight } = picked;
                return Ok(Reply { response, lease: Lease { upstream, in_flight, sender } });
            }
            Sent::Unsent(unsent) => {
                refusal = Refusal::ConnectFailed;
                body = Some(unsent);
            }
            Sent::Declined if is_empty => refusal = Refusal::UpstreamReset,
            Sent::Declined => return Err(Refusal::UpstreamReset),
            Sent::Broken(broken) => {
                if let Some(fault) = progress.fault() {
                    return Err(fault);
                }
                refusal = broken;
                if !is_repeatable || !job.backend.may_repeat() {
                    attempt.failed(shared, &picked, origin);
                    return Err(refusal);
                }
            }
            Sent::Lost => {
                refusal = Refusal::ConnectFailed;
                attempt.failed(shared, &picked, Origin::New);
                if !job.backend.may_repeat() {
                    return Err(refusal);
                }
                continue;
            }
            Sent::Late => return Err(Refusal::UpstreamTimeout),
        }
        attempt.failed(shared, &picked, origin);
    }
}

/// What was tried for a request.
struct Attempts {
    tried: Vec<Arc<Upstream>>,
    wanted: Wanted,
    sticky: Option<u64>,
}

impl Attempts {
    fn pick(&mut self, backend: &Backend) -> Option<Picked> {
        let sticky = self.sticky.take().and_then(|sticky| backend.pick_sticky(sticky));
        sticky.or_else(|| backend.pick(&self.tried))
    }

    /// A connection that was kept may have been closed for its age: the next one is new, and may be to the same
    /// instance. A new one that fails speaks against the instance.
    fn failed(&mut self, shared: &Shared, picked: &Picked, origin: Origin) {
        self.wanted = Wanted::New;
        if origin == Origin::New {
            picked.upstream.eject(shared.options.limits.ejection);
            self.tried.push(Arc::clone(&picked.upstream));
        }
    }
}

async fn link(shared: &Shared, picked: &Picked, kind: Kind, wanted: Wanted) -> io::Result<Link> {
    match kind {
        Kind::Plain => picked.upstream.link(wanted, &shared.dialer).await,
        Kind::Upgrade => {
            let sender = picked.upstream.link_for_upgrade(&shared.dialer).await?;
            Ok(Link { sender: Sender::Http1(sender), origin: Origin::New })
        }
    }
}

async fn send(
    sender: Sender,
    request: Request<Outgoing>,
    timeout: Duration,
    progress: &Progress,
) -> Sent {
    match sender {
        Sender::Http1(mut sender) => {
            let sending = sender.try_send_request(request);
            match in_time(sending, timeout, progress).await {
                None => Sent::Late,
                Some(Ok(response)) => Sent::Answered(response, Sender::Http1(sender)),
                Some(Err(error)) => failure(error),
            }
        }
        Sender::Http2 { mut sender, heard } => {
            let sending = sender.try_send_request(request);
            match in_time(sending, timeout, progress).await {
                None => Sent::Late,
                Some(Ok(response)) => {
                    heard.note();
                    Sent::Answered(response, Sender::Http2 { sender, heard })
                }
                Some(Err(error)) => failure(error),
            }
        }
    }
}

fn failure(mut error: hyper::client::conn::TrySendError<Request<Outgoing>>) -> Sent {
    if let Some(request) = error.take_message() {
        return Sent::Unsent(request.into_body());
    }
    let error = error.into_error();
    let of_http2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    let is_declined = of_http2.is_some_and(|error| {
        let has = |reason| error.reason() == Some(reason);
        has(h2::Reason::REFUSED_STREAM)
            || (error.is_go_away() && error.is_remote() && has(h2::Reason::NO_ERROR))
    });
    if is_declined {
        Sent::Declined
    } else if error.is_parse() {
        Sent::Broken(Refusal::UpstreamInvalid)
    } else {
        Sent::Broken(Refusal::UpstreamReset)
    }
}

/// What comes of a request that can be repeated, unless its instance turns out to be gone: a machine that loses its power
/// or its network closes no connection.
async fn unless_lost(
    sending: impl Future<Output = Sent>,
    upstream: &Upstream,
    timeout: Duration,
) -> Sent {
    tokio::select! {
        sent = sending => sent,
        () = lost(upstream, timeout) => Sent::Lost,
    }
}

/// Ends once nobody answers at the address of an instance, twice in a row. A refusal is an answer.
async fn lost(upstream: &Upstream, timeout: Duration) {
    let mut pause = SILENCE;
    loop {
        tokio::time::sleep(pause).await;
        if is_silent(upstream, timeout).await {
            tokio::time::sleep(SILENCE).await;
            if is_silent(upstream, timeout).await {
                return;
            }
        }
        pause *= 2;
    }
}

async fn is_silent(upstream: &Upstream, timeout: Duration) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    let Err(error) = upstream.connect(timeout).await else { return false };
    matches!(error.kind(), HostUnreachable | NetworkUnreachable | TimedOut)
}

/// What comes of `future` within `timeout` of the last byte of the body that was sent.
async fn in_time<T>(
    future: impl Future<Output = T>,
    timeout: Duration,
    progress: &Progress,
) -> Option<T> {
    let mut future = pin!(future);
    loop {
        match tokio::time::timeout(timeout, future.as_mut()).await {
            Ok(done) => return Some(done),
            Err(_) if progress.has_moved() => {}
            Err(_) => return None,
        }
    }
}

fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE)
}
