//! Says in the headers of every response how old it may be, if this node has no contact with a quorum.

use std::convert::Infallible;
use std::task::{self, Poll};

use futures::TryFutureExt;
use futures::future::MapOk;
use jaco_proto::rpc::{STALE_MS, STALE_NODE};
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tower::{Layer, Service};

use crate::freshness::Freshness;
use crate::service::Context;

/// Puts [`Stale`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct StaleLayer {
    context: Context,
}

/// Adds the age to the responses of the services.
#[derive(Debug, Clone)]
pub(super) struct Stale<S> {
    services: S,
    context: Context,
}

impl StaleLayer {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }
}

impl<S> Layer<S> for StaleLayer {
    type Service = Stale<S>;

    fn layer(&self, services: S) -> Stale<S> {
        Stale { services, context: self.context.clone() }
    }
}

type AddAge = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S> Service<Request<Body>> for Stale<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = MapOk<S::Future, AddAge>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(ctx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let context = self.context.clone();
        let add_age: AddAge = Box::new(move |response| with_age(&context, response));
        self.services.call(request).map_ok(add_age)
    }
}

fn with_age(context: &Context, mut response: Response<Body>) -> Response<Body> {
    let Ok(member) = context.member() else { return response };
    if let Freshness::Stale { since } = member.freshness()
        && let Ok(node) = HeaderValue::try_from(member.hostname.as_str())
    {
        let age = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        response.headers_mut().insert(STALE_MS, age.into());
        response.headers_mut().insert(STALE_NODE, node);
    }
    response
}
