//! The status calls of the query service, answered with encoded messages that all callers share.
//!
//! A status of many replicas takes long to copy and to encode, and each watcher gets one after each change: with some
//! hundred of them the async threads would do nothing else, and heartbeats would be late.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use bytes::{BufMut as _, Bytes};
use futures::Stream;
use futures::future::BoxFuture;
use jaco_proto::v1;
use jaco_store::Store;
use tonic::body::Body;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::codegen::http;
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status};
use tonic_prost::{ProstCodec, ProstDecoder};
use tower::{Service, service_fn};

use super::{earlier, feed};
use crate::peers::MESSAGE_BYTES_MAX;
use crate::service::context::Context;
use crate::status::{from_propose_error, to_status};
use crate::unread;

const OVERVIEW: &str = "/jaco.v1.Query/Overview";
const WATCH: &str = "/jaco.v1.Query/Watch";

type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// The query service, with the status calls in front of its generated server.
#[derive(Debug, Clone)]
pub(crate) struct SharedStatus<S> {
    query: S,
    context: Context,
}

impl<S> SharedStatus<S> {
    pub(crate) fn new(query: S, context: Context) -> Self {
        Self { query, context }
    }
}

impl<S: NamedService> NamedService for SharedStatus<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for SharedStatus<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        self.query.poll_ready(task)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let context = self.context.clone();
        let answered = move |request| answer(context.clone(), request);
        let context = self.context.clone();
        let watched = move |request| watch(context.clone(), request);
        let mut grpc =
            Grpc::new(StatusCodec).apply_max_message_size_config(None, Some(MESSAGE_BYTES_MAX));
        match request.uri().path() {
            OVERVIEW => {
                Box::pin(
                    async move { Ok(grpc.server_streaming(service_fn(answered), request).await) },
                )
            }
            WATCH => {
                Box::pin(
                    async move { Ok(grpc.server_streaming(service_fn(watched), request).await) },
                )
            }
            _ => Box::pin(self.query.call(request)),
        }
    }
}

async fn answer(
    context: Context,
    request: Request<v1::StatusRequest>,
) -> Result<Response<Answers>, Status> {
    let (member, _) = context.identify(&request)?;
    if request.get_ref().linearizable {
        let caught_up = member.store.catch_up().await;
        caught_up.map_err(|error| to_status(&from_propose_error(&error)))?;
    }
    let reached = member.reached(request.get_ref().min_index).await;
    reached.map_err(|rejection| to_status(&rejection))?;
    let asked = request.get_ref().clone();
    let read: Answers = match asked.at_index {
        0 => {
            let read = feed::read(&member, asked).await;
            Box::pin(read.map_err(|rejection| to_status(&rejection))?)
        }
        _ => {
            let read = feed::read_earlier(&member, asked).await;
            Box::pin(read.map_err(|rejection| to_status(&rejection))?)
        }
    };
    unread::room_for_answer(&request).await;
    Ok(Response::new(read))
}

async fn watch(
    context: Context,
    request: Request<v1::StatusRequest>,
) -> Result<Response<Answers>, Status> {
    let (member, _) = context.identify(&request)?;
    let request = request.into_inner();
    earlier::refuse_watch(&request).map_err(|rejection| to_status(&rejection))?;
    member.reached(request.min_index).await.map_err(|rejection| to_status(&rejection))?;
    let answers = feed::watch(&member, request).map_err(|rejection| to_status(&rejection))?;
    Ok(Response::new(Box::pin(answers)))
}

/// Decodes a request; answers are encoded already.
#[derive(Debug, Clone, Copy)]
struct StatusCodec;

impl Codec for StatusCodec {
    type Encode = Bytes;
    type Decode = v1::StatusRequest;
    type Encoder = Verbatim;
    type Decoder = ProstDecoder<v1::StatusRequest>;

    fn encoder(&mut self) -> Verbatim {
        Verbatim
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<(), v1::StatusRequest>::default().decoder()
    }
}

/// Sends a message as it is.
#[derive(Debug, Clone, Copy)]
struct Verbatim;

impl Encoder for Verbatim {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}
