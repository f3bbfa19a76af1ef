//! Counts requests by method and code, those that are refused among them.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Instant;

use futures::TryFutureExt;
use futures::future::MapOk;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, StatusCode};
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::metrics::Tallies;

/// Puts [`Tallied`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct TallyLayer {
    tallies: Arc<Tallies>,
}

/// Counts the requests to the services.
#[derive(Debug, Clone)]
pub(super) struct Tallied<S> {
    services: S,
    tallies: Arc<Tallies>,
}

impl TallyLayer {
    pub(super) fn new(tallies: Arc<Tallies>) -> Self {
        Self { tallies }
    }
}

impl<S> Layer<S> for TallyLayer {
    type Service = Tallied<S>;

    fn layer(&self, services: S) -> Tallied<S> {
        Tallied { services, tallies: Arc::clone(&self.tallies) }
    }
}

type Count = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S> Service<Request<Body>> for Tallied<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = MapOk<S::Future, Count>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(ctx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (tallies, begun) = (Arc::clone(&self.tallies), Instant::now());
        let place = tallies.requests.place(request.uri().path());
        let count: Count = Box::new(move |response| {
            tallies.requests.answered(place, code(&response), begun.elapsed());
            response
        });
        self.services.call(request).map_ok(count)
    }
}

/// The code in the head of a response: of one that streams, and fails later, that it began well.
fn code(response: &Response<Body>) -> Code {
    if let Some(status) = Status::from_header_map(response.headers()) {
        return status.code();
    }
    match response.status() {
        status if status.is_success() || status == StatusCode::NOT_MODIFIED => Code::Ok,
        StatusCode::BAD_REQUEST => Code::InvalidArgument,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => Code::Unimplemented,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        _ => Code::Internal,
    }
}
