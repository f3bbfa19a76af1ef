//! The JSON gateway: the read rpcs of this node over plain HTTP (ADR 0144), for programs that do not speak gRPC.
//!
//! It asks the services in the name of its caller and writes their answers as `jaco … -o json` prints them. Must never
//! change anything, and never answer what the caller could not ask over gRPC.

mod answer;
mod query;
mod read;
mod rpcs;

use std::sync::Arc;
use std::time::Duration;

use jaco_types::{ErrorCode, Rejection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Method, Response};
use tonic::service::Routes;

use self::query::Query;
use crate::endpoints::{self, Located};
use crate::member::Member;
use crate::service::Context;
use crate::view;

pub(crate) use self::answer::{only_reads, refusal, status, without_content};
pub(crate) use self::rpcs::{Rpcs, refused};

/// Answers that are put together at a time. Each holds messages of up to 8 MiB.
const ANSWERS_MAX: usize = 4;

/// How long a request waits for one of these places.
const PATIENCE: Duration = Duration::from_millis(1500);

/// How long putting an answer together may take. Nodes that are asked for it and do not answer cost a few seconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Answers requests for JSON.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    context: Context,
    services: Routes,
    places: Arc<Semaphore>,
}

impl Gateway {
    /// A gateway to these services.
    pub(crate) fn new(context: Context, services: Routes) -> Self {
        Self { context, services, places: Arc::new(Semaphore::new(ANSWERS_MAX)) }
    }

    /// Answers a `GET` or `HEAD`.
    pub(crate) async fn answer(&self, request: Parts) -> Response<Body> {
        let response = match endpoints::at(request.uri.path()) {
            None => answer::nothing_at(request.uri.path()),
            Some(at) => match self.found(at, &request).await {
                Ok((content, index)) => answer::found(content, index, &request.headers),
                Err(rejection) => answer::refusal(&rejection),
            },
        };
        if request.method == Method::HEAD { answer::without_content(response) } else { response }
    }

    /// The text of an answer, and which state it is at least of.
    async fn found(&self, at: Located<'_>, request: &Parts) -> Result<(Vec<u8>, u64), Rejection> {
        let query = Query::read(request.uri.query().unwrap_or_default(), at.endpoint.parameters)?;
        let member = self.context.member()?;
        let _place = self.place().await?;
        let rpcs = Rpcs::of_sender(self.services.clone(), self.context.clone(), request);
        let found = tokio::time::timeout(ANSWER_TIME_MAX, text(&member, &rpcs, at, &query)).await;
        found.unwrap_or_else(|_| {
            let message = format!(
                "the answer was not put together within {} s: a node that is asked for it may be down, or this one is \
                 busy; try again, or ask another node",
                ANSWER_TIME_MAX.as_secs()
            );
            Err(Rejection::new(ErrorCode::TimedOut, message))
        })
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        let place = tokio::time::timeout(PATIENCE, Arc::clone(&self.places).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(|| {
            let message = format!(
                "this node puts together {ANSWERS_MAX} answers of the JSON API at a time: ask again in a second, with fewer \
                 requests at a time"
            );
            Rejection::new(ErrorCode::Overloaded, message)
        })
    }
}

async fn text(
    member: &Member,
    rpcs: &Rpcs,
    at: Located<'_>,
    query: &Query,
) -> Result<(Vec<u8>, u64), Rejection> {
    // Before the rpcs: their answers are of this state or of a later one.
    let index = member.store.read(|state| state.index.0);
    let render = read::read(rpcs, at, query, view::millis(member.clock.now())).await?;
    let content = member.gate.turn().await?.run(render).await??;
    Ok((content, index))
}
