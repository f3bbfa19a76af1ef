//! Calls of rpcs of this node, in the name of who asked over plain HTTP. Each call is admitted by the table of roles and
//! answered by the services of gRPC themselves: the gateway knows nothing that its caller could not ask for.

use std::convert::Infallible;
use std::task::{self, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::images_client::ImagesClient;
use jaco_proto::v1::planner_client::PlannerClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_proto::v1::volumes_client::VolumesClient;
use jaco_types::{ErrorCode, Rejection};
use prost::Message as _;
use tonic::body::Body;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Extensions, HeaderMap, Request, Response};
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::Service;

use crate::auth::connection::Caller;
use crate::service::Context;
use crate::status::{from_status, to_status};

/// Bytes of a message, and of the parts of a status together.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The rpcs, as one caller may call them.
#[derive(Debug, Clone)]
pub(crate) struct Rpcs {
    services: Routes,
    context: Context,
    /// What the listener knows of the connection.
    connection: Extensions,
    /// The credential of the request, and nothing else.
    headers: HeaderMap,
}

impl Rpcs {
    /// The rpcs in the name of who sent a request.
    pub(crate) fn of_sender(services: Routes, context: Context, request: &Parts) -> Self {
        let mut headers = HeaderMap::new();
        let credential = request.headers.get(AUTHORIZATION);
        headers.extend(credential.map(|value| (AUTHORIZATION, value.clone())));
        Self { services, context, connection: request.extensions.clone(), headers }
    }

    pub(crate) fn cluster(&self) -> ClusterClient<Self> {
        ClusterClient::new(self.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn deploy(&self) -> DeployClient<Self> {
        DeployClient::new(self.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn images(&self) -> ImagesClient<Self> {
        ImagesClient::new(self.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn planner(&self) -> PlannerClient<Self> {
        PlannerClient::new(self.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn query(&self) -> QueryClient<Self> {
        QueryClient::new(self.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn volumes(&self) -> VolumesClient<Self> {
        VolumesClient::new(self.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// A status, of the parts in which a large one is sent.
    ///
    /// # Errors
    /// Those of the rpc, and `too_large`.
    pub(crate) async fn status(
        &self,
        request: v1::StatusRequest,
    ) -> Result<v1::StatusResponse, Rejection> {
        let request = v1::StatusRequest { in_parts: true, ..request };
        let mut parts = self.query().overview(request).await.map_err(refused)?.into_inner();
        let (mut whole, mut bytes) = (v1::StatusResponse::default(), 0);
        while let Some(part) = parts.message().await.map_err(refused)? {
            bytes += part.encoded_len();
            if bytes > ANSWER_BYTES_MAX {
                return Err(too_large());
            }
            if whole.answered_by.is_empty() {
                whole = part;
            } else {
                whole.deployments.extend(part.deployments);
                whole.replicas.extend(part.replicas);
            }
        }
        Ok(whole)
    }

    /// Refuses a caller whose role does not include this rpc.
    fn admit(&self, method: &str) -> Result<(), Rejection> {
        let unknown = || {
            let message = "the listener did not say where the request came from";
            Rejection::new(ErrorCode::Internal, message)
        };
        let caller = self.connection.get::<Caller>().ok_or_else(unknown)?;
        let headers = MetadataMap::from_headers(self.headers.clone());
        let (member, author) = self.context.identify_sender(caller, &headers)?;
        member.admit_rpc(&author, method)
    }
}

impl Service<Request<Body>> for Rpcs {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, ctx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.services, ctx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Err(rejection) = self.admit(request.uri().path()) {
            return std::future::ready(Ok(to_status(&rejection).into_http())).boxed();
        }
        request.extensions_mut().extend(self.connection.clone());
        request.headers_mut().extend(self.headers.clone());
        self.services.call(request).boxed()
    }
}

/// The refusal that an rpc was answered with.
pub(crate) fn refused(status: Status) -> Rejection {
    if status.code() == Code::OutOfRange && status.details().is_empty() {
        return too_large();
    }
    from_status(&status)
}

/// The refusal of an answer that does not fit.
fn too_large() -> Rejection {
    let message = format!(
        "the answer is larger than {} MiB: ask for one deployment (?deployment=NAME), or use `jaco status`",
        ANSWER_BYTES_MAX >> 20
    );
    Rejection::new(ErrorCode::TooLarge, message)
}
