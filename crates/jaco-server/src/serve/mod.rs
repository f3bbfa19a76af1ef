//! Serves the gRPC services and the documents on the TLS port and on the unix socket; and the metrics, where the
//! configuration asks for it, on a loopback address.

mod http1;
mod identify;
mod loopback;
mod pages;
mod raft_stream;
mod stale;
mod tally;
mod trusted;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use jaco_pki::{Protocol, TlsListener};
use jaco_proto::v1::cluster_server::ClusterServer;
use jaco_proto::v1::deploy_server::DeployServer;
use jaco_proto::v1::exec_server::ExecServer;
use jaco_proto::v1::peer_server::PeerServer;
use jaco_proto::v1::planner_server::PlannerServer;
use jaco_proto::v1::query_server::QueryServer;
use jaco_proto::v1::routing_server::RoutingServer;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::transport::Server;
use tonic::transport::server::{Connected, Router};
use tower::{Service, ServiceBuilder};

use crate::auth::connection::Connection;
use crate::member::{Lifecycle, Stage};
use crate::metrics::Tallies;
use crate::peers::MESSAGE_BYTES_MAX;
use crate::serve::identify::IdentifyLayer;
use crate::serve::pages::{NothingElse, PagesLayer};
use crate::serve::stale::StaleLayer;
use crate::serve::tally::TallyLayer;
use crate::serve::trusted::TrustedLayer;
use crate::service::Context;
use crate::service::cluster::ClusterService;
use crate::service::deploy::DeployService;
use crate::service::exec::{ExecService, INPUT_BYTES_MAX};
use crate::service::peer::PeerService;
use crate::service::planner::PlannerService;
use crate::service::query::QueryService;
use crate::service::query::shared::SharedStatus;
use crate::service::routing::RoutingService;
use crate::unread::{UnreadLayer, UnreadLimits};

pub use loopback::serve_loopback;

/// Maximum number of concurrent requests on one connection; further ones wait.
const STREAMS_PER_CONNECTION: u32 = 1024;

/// At this age a client is told to open a new connection, so that certificates are verified again. A little
/// before the hard limit of the listener, one hour, so that no request is cut off.
const CONNECTION_AGE: Duration = Duration::from_secs(55 * 60);

/// All services, behind the layers of `server`.
fn router<L: Clone>(
    server: Server<L>,
    context: Context,
    lifecycle: Arc<dyn Lifecycle>,
) -> Router<L> {
    let cluster = ClusterServer::new(ClusterService::new(context.clone(), lifecycle));
    let deploy = DeployServer::new(DeployService::new(context.clone()));
    let planner = PlannerServer::new(PlannerService::new(context.clone()));
    let query = QueryServer::new(QueryService::new(context.clone()));
    let routing = RoutingServer::new(RoutingService::new(context.clone()));
    let exec = ExecServer::new(ExecService::new(context.clone()));
    let peer = PeerServer::new(PeerService::new(context.clone()));
    server
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_connection_age(CONNECTION_AGE)
        .tcp_nodelay(true)
        .add_service(cluster)
        .add_service(
            deploy
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
        )
        .add_service(exec.max_decoding_message_size(INPUT_BYTES_MAX))
        .add_service(routing.max_encoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(planner.max_encoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(SharedStatus::new(query.max_encoding_message_size(MESSAGE_BYTES_MAX), context))
        .add_service(
            peer.max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
        )
}

/// Serves local users over the unix socket until `shutdown`.
///
/// # Errors
/// When the listener fails. The failure of a connection ends only that connection.
pub async fn serve_unix(
    listener: UnixListener,
    stage: Stage,
    lifecycle: Arc<dyn Lifecycle>,
    tallies: Arc<Tallies>,
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    use futures::StreamExt;
    let incoming = UnixListenerStream::new(listener).map(|stream| stream.map(Connection::Unix));
    let context = Context::new(stage);
    let server = Server::builder()
        .accept_http1(true)
        .layer(TallyLayer::new(tallies))
        .layer(StaleLayer::new(context.clone()))
        .layer(PagesLayer::new(context.clone()));
    router(server, context, lifecycle)
        .serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned())
        .await
}

/// Serves peers and operators until `shutdown`.
///
/// # Errors
/// As [`serve_unix`].
pub async fn serve_tls(
    listener: TlsListener,
    stage: Stage,
    lifecycle: Arc<dyn Lifecycle>,
    unread: UnreadLimits,
    tallies: Arc<Tallies>,
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let context = Context::new(Arc::clone(&stage));
    let layers = ServiceBuilder::new()
        .layer(TallyLayer::new(Arc::clone(&tallies)))
        .layer(UnreadLayer::new(unread, tallies))
        .layer(StaleLayer::new(context.clone()))
        .layer(TrustedLayer::new(context.clone()))
        .layer(IdentifyLayer::new(context.clone()))
        .layer(PagesLayer::new(context.clone()));
    let documents = layers.clone().service(NothingElse);
    let incoming = tls_connections(listener, stage, documents, shutdown.clone());
    let server = Server::builder().layer(layers.into_inner());
    router(server, context, lifecycle)
        .serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned())
        .await
}

/// The gRPC connections. Raft streams, and those that fetch `documents` over HTTP/1.1, are served in tasks of their own
/// until `shutdown`.
fn tls_connections<S>(
    listener: TlsListener,
    stage: Stage,
    documents: S,
    shutdown: CancellationToken,
) -> impl Stream<Item = Result<Connection, std::io::Error>>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    futures::stream::unfold(listener, move |mut listener| {
        let (stage, documents, shutdown) =
            (Arc::clone(&stage), documents.clone(), shutdown.clone());
        async move {
            loop {
                let stream = listener.accept().await?;
                match stream.protocol() {
                    Protocol::Rpc => {
                        return Some((Ok(Connection::Tls(Box::new(stream))), listener));
                    }
                    Protocol::Raft => {
                        let serving = raft_stream::serve(stream, Arc::clone(&stage));
                        tokio::spawn(shutdown.clone().run_until_cancelled_owned(serving));
                    }
                    Protocol::Http1 => {
                        let connection = Connection::Tls(Box::new(stream));
                        let caller = Some(connection.connect_info());
                        let documents = documents.clone();
                        let serving = http1::serve(connection, caller, documents, shutdown.clone());
                        tokio::spawn(serving);
                    }
                }
            }
        }
    })
}
