//! Lets the page's browsers show the token of their session, before it is asked who sent a request.

use std::convert::Infallible;
use std::task::{self, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, StatusCode};
use tower::{Layer, Service};

use crate::ui::{self, Sessions};

/// Puts [`Resume`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct SessionLayer {
    sessions: Sessions,
}

/// Resumes the session that a request for the page names; leaves all other requests as they are.
#[derive(Debug, Clone)]
pub(super) struct Resume<S> {
    services: S,
    sessions: Sessions,
}

impl SessionLayer {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { sessions }
    }
}

impl<S> Layer<S> for SessionLayer {
    type Service = Resume<S>;

    fn layer(&self, services: S) -> Resume<S> {
        Resume { services, sessions: self.sessions.clone() }
    }
}

impl<S> Service<Request<Body>> for Resume<S>
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
        if !ui::is_below(request.uri().path()) {
            return Either::Left(self.services.call(request));
        }
        let Some(session) = ui::resume(&self.sessions, &mut request) else {
            return Either::Left(self.services.call(request));
        };
        let sessions = self.sessions.clone();
        let answer = self.services.call(request);
        let answer = answer.map(move |answer| {
            // Its token was revoked or rotated, or has expired: it never counts again.
            let is_refused = |it: &Response<Body>| it.status() == StatusCode::UNAUTHORIZED;
            if answer.as_ref().is_ok_and(is_refused) {
                sessions.end(&session);
            }
            answer
        });
        Either::Right(answer.boxed())
    }
}
