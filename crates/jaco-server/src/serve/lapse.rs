//! Ends answers and uploads that go on after the credential of who asked has lapsed: it was revoked, rotated, or has expired. Whether
//! it counts when a request begins is looked up before ([`super::identify`]); a log that is followed, a shell or the copy of
//! a file may last for hours. A message that has arrived is carried out: what it does may have happened already.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};
use std::time::Duration;

use futures::future::{BoxFuture, MapOk};
use futures::{FutureExt, TryFutureExt};
use http_body::{Body as HttpBody, Frame, SizeHint};
use jaco_store::Store;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::metadata::MetadataMap;
use tower::{Layer, Service};

use crate::auth;
use crate::auth::connection::Caller;
use crate::member::Member;
use crate::service::Context;
use crate::status::to_status;

/// How often a credential is looked up at most, while the state changes all the time.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is looked up while the state does not change: it may expire.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

/// A body of which there is always more to send is watched from this part on.
const FRAMES_UNWATCHED: usize = 16;

/// Puts [`Lapse`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct LapseLayer {
    context: Context,
}

/// Ends requests to the services, and their answers, with their credential.
#[derive(Debug, Clone)]
pub(super) struct Lapse<S> {
    services: S,
    context: Context,
}

impl LapseLayer {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }
}

impl<S> Layer<S> for LapseLayer {
    type Service = Lapse<S>;

    fn layer(&self, services: S) -> Lapse<S> {
        Lapse { services, context: self.context.clone() }
    }
}

type End = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S> Service<Request<Body>> for Lapse<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = MapOk<S::Future, End>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(ctx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let credential = Credential::of(&self.context, &request);
        let of_request = credential.clone();
        let request = request.map(|body| Lasting::limit(body, of_request, Direction::Request));
        let end: End = Box::new(move |response| {
            response.map(|body| Lasting::limit(body, credential, Direction::Answer))
        });
        self.services.call(request).map_ok(end)
    }
}

/// What the sender of a request has shown.
#[derive(Clone)]
struct Credential {
    member: Arc<Member>,
    caller: Caller,
    headers: MetadataMap,
}

impl Credential {
    /// That of an operator. Connections of members end with their membership.
    fn of(context: &Context, request: &Request<Body>) -> Option<Self> {
        let caller = request.extensions().get::<Caller>()?;
        let Caller::Tls { peer, .. } = caller else { return None };
        if peer.node().is_some() {
            return None;
        }
        let mut headers = HeaderMap::new();
        headers.extend(request.headers().get(AUTHORIZATION).map(|it| (AUTHORIZATION, it.clone())));
        Some(Self {
            member: context.member().ok()?,
            caller: caller.clone(),
            headers: MetadataMap::from_headers(headers),
        })
    }

    /// Waits until it does not count any more, and says why.
    async fn lapsed(self) -> Status {
        let Self { member, caller, headers } = self;
        let mut index = member.store.watch_index();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let now = member.clock.now();
            let found =
                member.store.read(|state| auth::identify(state, &caller, &headers, now).map(drop));
            if let Err(rejection) = found {
                return to_status(&rejection);
            }
            if let Ok(Err(_)) = tokio::time::timeout(EXPIRY_INTERVAL, index.changed()).await {
                // The daemon ends, and all answers with it.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A body that lasts as long as a credential.
struct Lasting {
    body: Body,
    frames: usize,
    watch: Watch,
    direction: Direction,
}

/// Whose body it is, and so how it ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// The method that reads it fails.
    Request,
    /// Who asked is told by trailers.
    Answer,
}

/// Only bodies that do not end at once are worth a watch.
enum Watch {
    NotYet(Box<Credential>),
    For(BoxFuture<'static, Status>),
    Over,
}

impl Lasting {
    fn limit(body: Body, credential: Option<Credential>, direction: Direction) -> Body {
        match credential {
            Some(credential) if !body.is_end_stream() => {
                let watch = Watch::NotYet(Box::new(credential));
                Body::new(Self { body, frames: 0, watch, direction })
            }
            Some(_) | None => body,
        }
    }

    fn begin_watch(&mut self) {
        self.watch = match std::mem::replace(&mut self.watch, Watch::Over) {
            Watch::NotYet(credential) => Watch::For(credential.lapsed().boxed()),
            watch @ (Watch::For(_) | Watch::Over) => watch,
        };
    }

    /// The end of the body, if its credential has lapsed.
    fn poll_lapse(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<Frame<Bytes>, Status>> {
        let Watch::For(lapsed) = &mut self.watch else { return Poll::Pending };
        let status = ready!(lapsed.poll_unpin(ctx));
        self.watch = Watch::Over;
        self.body = Body::empty();
        Poll::Ready(match self.direction {
            Direction::Request => Err(status),
            Direction::Answer => {
                let mut trailers = HeaderMap::new();
                status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))
            }
        })
    }
}

impl HttpBody for Lasting {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(end) = self.poll_lapse(ctx) {
            return Poll::Ready(Some(end));
        }
        let frame = Pin::new(&mut self.body).poll_frame(ctx);
        self.frames += 1;
        let goes_on = frame.is_pending() || self.frames == FRAMES_UNWATCHED;
        if goes_on && matches!(self.watch, Watch::NotYet(_)) {
            self.begin_watch();
            if frame.is_pending() {
                return self.poll_lapse(ctx).map(Some);
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
