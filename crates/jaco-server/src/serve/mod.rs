//! Serves the gRPC services on the TLS port and on the unix socket.

mod identify;
mod raft_stream;
mod stale;

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
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::auth::connection::Connection;
use crate::member::{Lifecycle, Stage};
use crate::peers::MESSAGE_BYTES_MAX;
use crate::serve::identify::IdentifyLayer;
use crate::serve::stale::StaleLayer;
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
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    use futures::StreamExt;
    let incoming = UnixListenerStream::new(listener).map(|stream| stream.map(Connection::Unix));
    let context = Context::new(stage);
    let server = Server::builder().layer(StaleLayer::new(context.clone()));
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
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let incoming = tls_connections(listener, Arc::clone(&stage), shutdown.clone());
    let context = Context::new(stage);
    let server = Server::builder()
        .layer(UnreadLayer::new(unread))
        .layer(StaleLayer::new(context.clone()))
        .layer(IdentifyLayer::new(context.clone()));
    router(server, context, lifecycle)
        .serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned())
        .await
}

/// The gRPC connections. Raft streams are served in tasks of their own until `shutdown`.
fn tls_connections(
    listener: TlsListener,
    stage: Stage,
    shutdown: CancellationToken,
) -> impl Stream<Item = Result<Connection, std::io::Error>> {
    futures::stream::unfold((listener, stage, shutdown), |(mut listener, stage, shutdown)| async {
        loop {
            let stream = listener.accept().await?;
            match stream.protocol() {
                Protocol::Rpc => {
                    let connection = Connection::Tls(Box::new(stream));
                    return Some((Ok(connection), (listener, stage, shutdown)));
                }
                Protocol::Raft => {
                    let serving = raft_stream::serve(stream, Arc::clone(&stage));
                    tokio::spawn(shutdown.clone().run_until_cancelled_owned(serving));
                }
            }
        }
    })
}
