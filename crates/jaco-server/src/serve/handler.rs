//! From the requests of a connection to the services.

use std::convert::Infallible;

use hyper::body::Incoming;
use hyper::service::{Service as Handler, service_fn};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::Service;

use crate::auth::connection::Caller;

/// What answers requests.
pub(super) trait Services:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> Services for S
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
}

/// Hands the requests of a connection to `services`, and says who sent them.
pub(super) fn handler(
    caller: Option<Caller>,
    services: impl Services,
) -> impl Handler<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
{
    service_fn(move |mut request: Request<Incoming>| {
        if let Some(caller) = caller.clone() {
            request.extensions_mut().insert(caller);
        }
        // No layer of ours is ever busy.
        services.clone().call(request.map(Body::new))
    })
}
