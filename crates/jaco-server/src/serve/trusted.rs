//! Says in the headers of responses to operators which authorities this node trusts, so that they notice a rotation of the
//! authority while they still believe whoever answers. Members know from their state.

use std::convert::Infallible;
use std::task::{self, Poll};

use futures::TryFutureExt;
use futures::future::MapOk;
use jaco_proto::rpc::AUTHORITIES;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tower::{Layer, Service};

use crate::auth::connection::Caller;
use crate::service::Context;

/// Puts [`Trusted`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct TrustedLayer {
    context: Context,
}

/// Adds the authorities to the responses of the services.
#[derive(Debug, Clone)]
pub(super) struct Trusted<S> {
    services: S,
    context: Context,
}

impl TrustedLayer {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }

    /// What to add to the response to a request.
    fn header<B>(context: &Context, request: &Request<B>) -> Option<HeaderValue> {
        let Some(Caller::Tls { peer, .. }) = request.extensions().get::<Caller>() else {
            return None;
        };
        if peer.node().is_some() {
            return None;
        }
        let member = context.member().ok()?;
        HeaderValue::try_from(member.peers.certificates().trusted()).ok()
    }
}

impl<S> Layer<S> for TrustedLayer {
    type Service = Trusted<S>;

    fn layer(&self, services: S) -> Trusted<S> {
        Trusted { services, context: self.context.clone() }
    }
}

type AddHeader = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S> Service<Request<Body>> for Trusted<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = MapOk<S::Future, AddHeader>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(ctx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let header = TrustedLayer::header(&self.context, &request);
        let add: AddHeader = Box::new(move |mut response| {
            if let Some(header) = header {
                response.headers_mut().insert(AUTHORITIES, header);
            }
            response
        });
        self.services.call(request).map_ok(add)
    }
}
