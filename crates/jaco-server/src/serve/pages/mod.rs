//! What a node serves beside gRPC: documents that browsers and scrapers fetch with plain HTTP.
//!
//! They stand behind the same identification and the same table of roles as the rpcs. Must never change anything.

mod answer;
mod unwanted;

use std::convert::Infallible;
use std::task::{self, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use jaco_types::Rejection;
use tonic::body::Body;
use tonic::codegen::http::{Method, Request, Response};
use tower::{Layer, Service};

use crate::member::Member;
use crate::openmetrics;
use crate::service::Context;

pub(super) use answer::{not_found, refusal};

/// A document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// The metrics of this node, in the text format of OpenMetrics.
    Metrics,
}

impl Page {
    const ALL: [Self; 1] = [Self::Metrics];

    /// Where it is.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Metrics => "/metrics",
        }
    }

    /// The document at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.path() == path)
    }

    /// The document as it is now. Who asks was identified before.
    async fn show(self, member: &Member) -> Result<Response<Body>, Rejection> {
        match self {
            Self::Metrics => {
                Ok(answer::document(openmetrics::CONTENT_TYPE, openmetrics::document(member).await))
            }
        }
    }
}

/// Answers a request for a document.
pub(super) async fn show(context: &Context, page: Page, request: Request<Body>) -> Response<Body> {
    if request.method() != Method::GET {
        unwanted::discard(request.into_body()).await;
        return answer::only_get();
    }
    let shown = match context.member() {
        Ok(member) => page.show(&member).await,
        Err(rejection) => Err(rejection),
    };
    shown.unwrap_or_else(|rejection| refusal(&rejection))
}

/// Puts [`Pages`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct PagesLayer {
    context: Context,
}

/// Answers requests for documents, and leaves the others to the services.
#[derive(Debug, Clone)]
pub(super) struct Pages<S> {
    services: S,
    context: Context,
}

impl PagesLayer {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }
}

impl<S> Layer<S> for PagesLayer {
    type Service = Pages<S>;

    fn layer(&self, services: S) -> Pages<S> {
        Pages { services, context: self.context.clone() }
    }
}

impl<S> Service<Request<Body>> for Pages<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(ctx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(page) = Page::at(request.uri().path()) else {
            return Either::Left(self.services.call(request));
        };
        let context = self.context.clone();
        Either::Right(async move { Ok(show(&context, page, request).await) }.boxed())
    }
}

/// What is behind the documents where there is no gRPC.
#[derive(Debug, Clone, Copy)]
pub(super) struct NothingElse;

impl Service<Request<Body>> for NothingElse {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::ready(Ok(answer::not_found()))
    }
}
