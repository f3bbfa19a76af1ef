//! Serves the gRPC services and the documents on the TLS port and on the unix socket; and the metrics, where the
//! configuration asks for it, on a loopback address.

mod deadline;
mod handler;
mod http1;
mod http2;
mod identify;
mod lapse;
mod loopback;
mod pages;
mod raft_stream;
mod session;
mod stale;
mod tally;
mod trusted;

use std::sync::Arc;

use jaco_pki::{Protocol, TlsConnection, TlsListener};
use jaco_proto::v1::cluster_server::ClusterServer;
use jaco_proto::v1::deploy_server::DeployServer;
use jaco_proto::v1::exec_server::ExecServer;
use jaco_proto::v1::images_server::ImagesServer;
use jaco_proto::v1::peer_server::PeerServer;
use jaco_proto::v1::planner_server::PlannerServer;
use jaco_proto::v1::query_server::QueryServer;
use jaco_proto::v1::routing_server::RoutingServer;
use jaco_proto::v1::uploads_server::UploadsServer;
use jaco_proto::v1::volume_writes_server::VolumeWritesServer;
use jaco_proto::v1::volumes_server::VolumesServer;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::ServiceBuilder;

use crate::auth::connection::{Caller, LocalConnection};
use crate::gateway::Gateway;
use crate::member::{Lifecycle, Stage};
use crate::metrics::Tallies;
use crate::peers::MESSAGE_BYTES_MAX;
use crate::serve::deadline::DeadlineLayer;
use crate::serve::handler::Services;
use crate::serve::http2::{CONNECTION_AGE, STREAMS_PER_CONNECTION};
use crate::serve::identify::IdentifyLayer;
use crate::serve::lapse::LapseLayer;
use crate::serve::pages::{NothingElse, PagesLayer};
use crate::serve::session::SessionLayer;
use crate::serve::stale::StaleLayer;
use crate::serve::tally::TallyLayer;
use crate::serve::trusted::TrustedLayer;
use crate::service::Context;
use crate::service::cluster::ClusterService;
use crate::service::deploy::DeployService;
use crate::service::exec::{ExecService, INPUT_BYTES_MAX};
use crate::service::images::{ImagesService, UploadsService};
use crate::service::peer::PeerService;
use crate::service::planner::PlannerService;
use crate::service::query::QueryService;
use crate::service::query::shared::SharedStatus;
use crate::service::routing::RoutingService;
use crate::service::volumes::{VolumeWritesService, VolumesService};
use crate::ui::{Sessions, Ui};
use crate::unread::{UnreadLayer, UnreadLimits};

pub use loopback::serve_loopback;

/// All services.
fn routes(context: Context, lifecycle: Arc<dyn Lifecycle>) -> Routes {
    let cluster = ClusterServer::new(ClusterService::new(context.clone(), lifecycle));
    let deploy = DeployServer::new(DeployService::new(context.clone()));
    let planner = PlannerServer::new(PlannerService::new(context.clone()));
    let query = QueryServer::new(QueryService::new(context.clone()));
    let routing = RoutingServer::new(RoutingService::new(context.clone()));
    let exec = ExecServer::new(ExecService::new(context.clone()));
    let images = ImagesServer::new(ImagesService::new(context.clone()));
    let uploads = UploadsServer::new(UploadsService::new(context.clone()));
    let volumes = VolumesServer::new(VolumesService::new(context.clone()));
    let volume_writes = VolumeWritesServer::new(VolumeWritesService::new(context.clone()));
    let peer = PeerServer::new(PeerService::new(context.clone()));
    Routes::new(cluster)
        .add_service(
            deploy
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
        )
        .add_service(exec.max_decoding_message_size(INPUT_BYTES_MAX))
        .add_service(images.max_encoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(uploads.max_decoding_message_size(INPUT_BYTES_MAX))
        .add_service(volumes.max_encoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(volume_writes.max_decoding_message_size(INPUT_BYTES_MAX))
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
    let incoming = UnixListenerStream::new(listener).map(|stream| stream.map(LocalConnection));
    let context = Context::new(stage);
    let routes = routes(context.clone(), lifecycle);
    let gateway = Gateway::new(context.clone(), routes.clone());
    let ui = Ui::new(context.clone(), routes.clone(), Sessions::default());
    let mut server = Server::builder()
        .accept_http1(true)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_connection_age(CONNECTION_AGE)
        .layer(TallyLayer::new(tallies))
        .layer(StaleLayer::new(context.clone()))
        .layer(PagesLayer::new(context, gateway, ui));
    let serving = server.add_routes(routes);
    serving.serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned()).await
}

/// Serves peers and operators until `shutdown`, and then until what they have asked is answered.
pub async fn serve_tls(
    mut listener: TlsListener,
    stage: Stage,
    lifecycle: Arc<dyn Lifecycle>,
    unread: UnreadLimits,
    tallies: Arc<Tallies>,
    shutdown: CancellationToken,
) {
    let context = Context::new(Arc::clone(&stage));
    let routes = routes(context.clone(), lifecycle).prepare();
    let gateway = Gateway::new(context.clone(), routes.clone());
    let sessions = Sessions::default();
    let ui = Ui::new(context.clone(), routes.clone(), sessions.clone());
    let layers = ServiceBuilder::new()
        .layer(DeadlineLayer)
        .layer(TallyLayer::new(Arc::clone(&tallies)))
        .layer(UnreadLayer::new(unread, tallies))
        .layer(StaleLayer::new(context.clone()))
        .layer(TrustedLayer::new(context.clone()))
        .layer(SessionLayer::new(sessions))
        .layer(IdentifyLayer::new(context.clone()))
        .layer(LapseLayer::new(context.clone()))
        .layer(PagesLayer::new(context, gateway, ui));
    let documents = layers.clone().service(NothingElse);
    let rpcs = layers.service(routes);
    let connections = TaskTracker::new();
    while let Some(Some(stream)) = shutdown.run_until_cancelled(listener.accept()).await {
        let serving = serve_one(
            Box::new(stream),
            Arc::clone(&stage),
            rpcs.clone(),
            documents.clone(),
            shutdown.clone(),
        );
        connections.spawn(serving);
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Serves one connection in the protocol that was agreed on.
async fn serve_one(
    mut connection: Box<TlsConnection>,
    stage: Stage,
    rpcs: impl Services,
    documents: impl Services,
    shutdown: CancellationToken,
) {
    let protocol = connection.protocol();
    if protocol == Protocol::Raft {
        let serving = Box::pin(raft_stream::serve(*connection, stage));
        shutdown.run_until_cancelled(serving).await;
        return;
    }
    // One that says nothing, as strangers may, costs no more than its session.
    let begun = shutdown.run_until_cancelled(connection.begun()).await;
    if !matches!(begun, Some(Ok(()))) {
        return;
    }
    let caller = Caller::on(&connection);
    if protocol == Protocol::Http1 {
        Box::pin(http1::serve(connection, Some(caller), documents, shutdown)).await;
    } else {
        Box::pin(http2::serve(connection, caller, rpcs, shutdown)).await;
    }
}
