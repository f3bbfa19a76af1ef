//! Identifies the sender of a request by its connection and headers, before anything of its body is read.
//!
//! A message is buffered whole before a method sees it. Without this, a stranger could make the daemon buffer
//! megabytes on each stream of each connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, Either};
use http_body_util::{BodyExt as _, Limited};
use jaco_pki::{PeerIdentity, Standing};
use jaco_proto::rpc;
use jaco_proto::v1::Access;
use jaco_types::{ErrorCode, Rejection};
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::{AUTHORIZATION, CONTENT_TYPE};
use tonic::codegen::http::{Request, Response};
use tonic::metadata::MetadataMap;
use tower::{Layer, Service};

use crate::auth::connection::Caller;
use crate::serve::pages::{self, Page};
use crate::service::Context;
use crate::status::to_status;
use crate::ui;

/// Bytes of a request whose credential is in its message: a join request has a token and a certificate
/// request.
const UNIDENTIFIED_BYTES_MAX: usize = 64 << 10;
/// Such requests at once, of all callers together.
const UNIDENTIFIED_MAX: usize = 64;
/// How long such a request may take, its body included.
const UNIDENTIFIED_DEADLINE: Duration = Duration::from_secs(30);

/// Puts [`IdentifyFirst`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct IdentifyLayer {
    context: Context,
    unidentified: Arc<Semaphore>,
}

/// Forwards requests of identified senders to the services; refuses the others without reading their bodies.
#[derive(Debug, Clone)]
pub(super) struct IdentifyFirst<S> {
    services: S,
    layer: IdentifyLayer,
}

impl IdentifyLayer {
    pub(super) fn new(context: Context) -> Self {
        Self { context, unidentified: Arc::new(Semaphore::new(UNIDENTIFIED_MAX)) }
    }
}

impl<S> Layer<S> for IdentifyLayer {
    type Service = IdentifyFirst<S>;

    fn layer(&self, services: S) -> IdentifyFirst<S> {
        IdentifyFirst { services, layer: self.clone() }
    }
}

impl<S> Service<Request<Body>> for IdentifyFirst<S>
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let page = Page::at(request.uri().path());
        let refused = |rejection: &Rejection| {
            let response = match page {
                Some(page) => page.refusal(rejection, &request),
                None => to_status(rejection).into_http(),
            };
            Either::Right(Box::pin(std::future::ready(Ok(response))) as BoxFuture<'static, _>)
        };
        match self.layer.identify(&request) {
            Ok(Sender::Identified) => Either::Left(self.services.call(request)),
            Ok(Sender::Elsewhere) => {
                Either::Right(Box::pin(std::future::ready(Ok(pages::not_found()))))
            }
            Ok(Sender::Anyone) => Either::Left(self.services.call(request)),
            Ok(Sender::Stranger) => {
                Either::Right(Box::pin(std::future::ready(Ok(ui::to_login(&request)))))
            }
            Ok(Sender::ByMessage) => {
                let Ok(permit) = Arc::clone(&self.layer.unidentified).try_acquire_owned() else {
                    let message =
                        "too many requests to join or to sign in at once: try again in a moment";
                    return refused(&Rejection::new(ErrorCode::Overloaded, message));
                };
                let bounded = request.map(|body| {
                    let too_long = |_| Status::out_of_range("a request to join has at most 64 KiB");
                    Body::new(Limited::new(body, UNIDENTIFIED_BYTES_MAX).map_err(too_long))
                });
                let answer = self.services.call(bounded);
                Either::Right(Box::pin(async move {
                    let answer = tokio::time::timeout(UNIDENTIFIED_DEADLINE, answer).await;
                    drop(permit);
                    answer.unwrap_or_else(|_| {
                        let message = "the request took too long: try again";
                        let late = Rejection::new(ErrorCode::TimedOut, message);
                        Ok(to_status(&late).into_http())
                    })
                }))
            }
            Err(rejection) => refused(&rejection),
        }
    }
}

/// How the sender of a request is known.
enum Sender {
    /// By its connection or its headers.
    Identified,
    /// By nothing but the message, which a method has to read.
    ByMessage,
    /// By its connection or its headers; it asks, without gRPC, for what there is not.
    Elsewhere,
    /// By nothing, and it asks for what everybody may have.
    Anyone,
    /// By nothing, and it asks for the page. That is how everybody begins who signs in: no refusal worth an audit event.
    Stranger,
}

/// Whether a client of gRPC has sent this, which expects refusals in its own form.
fn is_grpc(request: &Request<Body>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// How the sender of a request for the page is known, if not by a credential that it shows.
fn without_credential(
    request: &Request<Body>,
    peer: &PeerIdentity,
    standing: &Standing,
) -> Option<Sender> {
    match ui::Access::of(request) {
        ui::Access::Anyone => Some(Sender::Anyone),
        ui::Access::Credential => {
            standing.await_message();
            Some(Sender::ByMessage)
        }
        ui::Access::Identified => {
            let shows_none =
                *peer == PeerIdentity::None && !request.headers().contains_key(AUTHORIZATION);
            shows_none.then_some(Sender::Stranger)
        }
    }
}

impl IdentifyLayer {
    fn identify(&self, request: &Request<Body>) -> Result<Sender, Rejection> {
        let path = request.uri().path();
        let access = rpc::ALL.iter().find(|rpc| rpc.method == path).map(|rpc| rpc.access);
        match (request.extensions().get::<Caller>(), access) {
            (Some(Caller::Unix { .. }), _) => Ok(Sender::Identified),
            (Some(Caller::Tls { standing, .. }), Some(Access::JoinToken)) => {
                standing.await_message();
                Ok(Sender::ByMessage)
            }
            (Some(Caller::Tls { peer, standing, .. }), None)
                if Page::at(path) == Some(Page::Ui)
                    && let Some(sender) = without_credential(request, peer, standing) =>
            {
                Ok(sender)
            }
            (Some(caller), _) => {
                let headers = MetadataMap::from_headers(request.headers().clone());
                let (member, author) = self.context.identify_sender(caller, &headers)?;
                if let Some((_, standing)) = caller.on_network() {
                    standing.prove();
                }
                let page = Page::at(path);
                if access.is_none() && page.is_none() && !is_grpc(request) {
                    return Ok(Sender::Elsewhere);
                }
                if page.is_none_or(Page::has_role) {
                    member.admit_rpc(&author, path)?;
                }
                Ok(Sender::Identified)
            }
            (None, _) => {
                let message = "the listener did not say where the request came from";
                Err(Rejection::new(ErrorCode::Internal, message))
            }
        }
    }
}
