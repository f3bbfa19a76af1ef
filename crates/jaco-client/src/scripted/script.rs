//! The script of a daemon: a method for each rpc, generated from what the rpcs declare.

use std::pin::Pin;
use std::sync::Arc;

use jaco_proto::v1;
use jaco_proto::v1::cluster_server::Cluster;
use jaco_proto::v1::deploy_server::Deploy;
use jaco_proto::v1::images_server::Images;
use jaco_proto::v1::planner_server::Planner;
use jaco_proto::v1::query_server::Query;
use jaco_proto::v1::volumes_server::Volumes;
use jaco_types::{ErrorCode, Rejection};
use prost::Message;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status};

/// The response to a call, or its refusal.
pub type Answer<T> = Result<T, Rejection>;

/// A stream of responses, and how it ends.
#[derive(Debug, Clone)]
pub struct Feed<T> {
    /// The responses, sent at once.
    pub items: Vec<T>,
    /// What comes after them.
    pub then: Then,
}

/// What comes after the last response.
#[derive(Debug, Clone)]
pub enum Then {
    /// The end of the stream.
    End,
    /// Nothing: the stream stays open.
    Open,
    /// A refusal.
    Refuse(Rejection),
}

impl<T> Feed<T> {
    /// These responses, then the end of the stream.
    #[must_use]
    pub fn of(items: Vec<T>) -> Self {
        Self { items, then: Then::End }
    }

    /// These responses, then an open stream.
    #[must_use]
    pub fn open(items: Vec<T>) -> Self {
        Self { items, then: Then::Open }
    }
}

pub(super) struct Scripted(pub(super) Arc<dyn Script>);

fn who<T>(request: &Request<T>) -> Option<String> {
    request.metadata().get("authorization")?.to_str().ok().map(str::to_owned)
}

fn status(rejection: &Rejection) -> Status {
    let error = v1::Error {
        code: rejection.code.as_str().to_owned(),
        message: rejection.message.clone(),
        details: rejection.details.clone().into_iter().collect(),
    };
    let details = error.encode_to_vec().into();
    Status::with_details(Code::FailedPrecondition, rejection.message.clone(), details)
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn stream<T: Send + 'static>(feed: Feed<T>) -> Responses<T> {
    let items = tokio_stream::iter(feed.items.into_iter().map(Ok));
    match feed.then {
        Then::End => Box::pin(items),
        Then::Open => Box::pin(items.chain(tokio_stream::pending())),
        Then::Refuse(rejection) => {
            Box::pin(items.chain(tokio_stream::once(Err(status(&rejection)))))
        }
    }
}

macro_rules! script {
    ($(
        $service:ident $client:ident $server:ident {
            $($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident, $deadline:ident;)*
        } {
            $($(#[$streams:meta])* $stream:ident($asked:ident) -> $item:ident, $kind:ident;)*
        }
    )*) => {
        /// The script. A call of an rpc that it does not implement is refused as `internal`.
        pub trait Script: Send + Sync + 'static {$(
            $(
                $(#[$doc])*
                ///
                /// `who` is the caller's `authorization`.
                ///
                /// # Errors
                /// The refusal to answer with.
                fn $name(&self, request: v1::$request, who: Option<&str>) -> Answer<v1::$response> {
                    Err(unscripted(stringify!($name), &request, who))
                }
            )*
            $(
                $(#[$streams])*
                ///
                /// `who` is the caller's `authorization`.
                ///
                /// # Errors
                /// The refusal to answer with.
                fn $stream(&self, request: v1::$asked, who: Option<&str>) -> Answer<Feed<v1::$item>> {
                    Err(unscripted(stringify!($stream), &request, who))
                }
            )*
        )*}

        $(
            #[tonic::async_trait]
            impl $service for Scripted {
                $(
                    async fn $name(
                        &self,
                        request: Request<v1::$request>,
                    ) -> Result<Response<v1::$response>, Status> {
                        let who = who(&request);
                        let answer = self.0.$name(request.into_inner(), who.as_deref());
                        answer.map(Response::new).map_err(|rejection| status(&rejection))
                    }
                )*
                $(
                    type $kind = Responses<v1::$item>;

                    async fn $stream(
                        &self,
                        request: Request<v1::$asked>,
                    ) -> Result<Response<Self::$kind>, Status> {
                        let who = who(&request);
                        let feed = self.0.$stream(request.into_inner(), who.as_deref());
                        let feed = feed.map(|feed| Response::new(stream(feed)));
                        feed.map_err(|rejection| status(&rejection))
                    }
                )*
            }
        )*
    };
}

jaco_proto::client_rpcs!(script);

fn unscripted(name: &str, request: &dyn std::fmt::Debug, who: Option<&str>) -> Rejection {
    let message = format!("{name} is not in the script: {request:?}, {who:?}");
    Rejection::new(ErrorCode::Internal, message)
}
