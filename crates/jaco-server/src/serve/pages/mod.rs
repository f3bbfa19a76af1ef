//! What a node serves beside gRPC: what browsers, scrapers and scripts fetch with plain HTTP.
//!
//! They stand behind the same identification and the same table of roles as the rpcs. Must never change anything.

mod answer;

use std::convert::Infallible;
use std::task::{self, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use jaco_types::Rejection;
use tonic::body::Body;
use tonic::codegen::http::{Method, Request, Response};
use tower::{Layer, Service};

use crate::endpoints;
use crate::gateway::{self, Gateway};
use crate::openmetrics;
use crate::service::Context;
use crate::ui::{self, Ui};
use crate::unwanted;

pub(super) use answer::not_found;

/// What is asked for without gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// The metrics of this node, in the text format of OpenMetrics.
    Metrics,
    /// The state of the cluster as JSON: everything below `/api`.
    Json,
    /// The page for browsers: everything below `/ui`.
    Ui,
}

impl Page {
    /// What is at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/metrics" => Some(Self::Metrics),
            path if endpoints::is_below(path) => Some(Self::Json),
            path if ui::is_below(path) => Some(Self::Ui),
            _ => None,
        }
    }

    /// Whether its own row in the table of roles says who may read it. The gateway and the page ask for that of each rpc that
    /// they call.
    pub(super) const fn has_role(self) -> bool {
        match self {
            Self::Metrics => true,
            Self::Json | Self::Ui => false,
        }
    }

    /// A refusal in the form of its answers.
    pub(super) fn refusal<B>(self, rejection: &Rejection, request: &Request<B>) -> Response<Body> {
        match self {
            Self::Metrics => answer::refusal(rejection),
            Self::Json => gateway::refusal(rejection),
            Self::Ui => ui::refusal(rejection, request),
        }
    }
}

/// Answers a request for the metrics. Who asks was identified before.
pub(super) async fn show_metrics(context: &Context, request: Request<Body>) -> Response<Body> {
    if request.method() != Method::GET {
        unwanted::discard(request.into_body()).await;
        return answer::only_get();
    }
    match context.member() {
        Ok(member) => {
            answer::document(openmetrics::CONTENT_TYPE, openmetrics::document(&member).await)
        }
        Err(rejection) => answer::refusal(&rejection),
    }
}

async fn show_json(gateway: &Gateway, request: Request<Body>) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        unwanted::discard(request.into_body()).await;
        return gateway::only_reads();
    }
    let (head, _) = request.into_parts();
    gateway.answer(head).await
}

/// Puts [`Pages`] in front of the services.
#[derive(Debug, Clone)]
pub(super) struct PagesLayer {
    context: Context,
    gateway: Gateway,
    ui: Ui,
}

/// Answers requests for documents, and leaves the others to the services.
#[derive(Debug, Clone)]
pub(super) struct Pages<S> {
    services: S,
    layer: PagesLayer,
}

impl PagesLayer {
    pub(super) fn new(context: Context, gateway: Gateway, ui: Ui) -> Self {
        Self { context, gateway, ui }
    }
}

impl<S> Layer<S> for PagesLayer {
    type Service = Pages<S>;

    fn layer(&self, services: S) -> Pages<S> {
        Pages { services, layer: self.clone() }
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
        let PagesLayer { context, gateway, ui } = self.layer.clone();
        let show = async move {
            Ok(match page {
                Page::Metrics => show_metrics(&context, request).await,
                Page::Json => show_json(&gateway, request).await,
                Page::Ui => ui.answer(request).await,
            })
        };
        Either::Right(show.boxed())
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
