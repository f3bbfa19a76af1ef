//! Runs a scripted daemon on connections of any kind.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use jaco_proto::v1::cluster_server::ClusterServer;
use jaco_proto::v1::deploy_server::DeployServer;
use jaco_proto::v1::images_server::ImagesServer;
use jaco_proto::v1::planner_server::PlannerServer;
use jaco_proto::v1::query_server::QueryServer;
use jaco_proto::v1::volumes_server::VolumesServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::transport::server::Connected;

use super::script::{Script, Scripted};

/// A running daemon. Dropping it closes its connections. It has its own threads, so a test may block.
#[derive(Debug)]
pub struct Running(Option<Runtime>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Listens on a unix socket.
///
/// # Panics
/// When the socket cannot be made.
pub fn listen(path: &Path, script: Arc<dyn Script>) -> Running {
    let runtime = runtime();
    let listener = {
        let _inside = runtime.enter();
        UnixListener::bind(path).expect("the socket's path is free")
    };
    run(runtime, UnixListenerStream::new(listener), script)
}

/// Answers on these connections.
pub fn serve<S, C>(connections: S, script: Arc<dyn Script>) -> Running
where
    S: Stream<Item = io::Result<C>> + Send + 'static,
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    run(runtime(), connections, script)
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("threads can be started")
}

fn run<S, C>(runtime: Runtime, connections: S, script: Arc<dyn Script>) -> Running
where
    S: Stream<Item = io::Result<C>> + Send + 'static,
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let server = Server::builder()
        .add_service(ClusterServer::new(Scripted(Arc::clone(&script))))
        .add_service(DeployServer::new(Scripted(Arc::clone(&script))))
        .add_service(ImagesServer::new(Scripted(Arc::clone(&script))))
        .add_service(PlannerServer::new(Scripted(Arc::clone(&script))))
        .add_service(QueryServer::new(Scripted(Arc::clone(&script))))
        .add_service(VolumesServer::new(Scripted(script)))
        .serve_with_incoming(connections.map(|connection| connection.map(Connection)));
    runtime.spawn(async move {
        server.await.expect("an open listener can be served");
    });
    Running(Some(runtime))
}

/// A connection of any kind; the identity of its other end is ignored.
struct Connection<C>(C);

impl<C> Connected for Connection<C> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl<C: AsyncRead + Unpin> AsyncRead for Connection<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(ctx, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Connection<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(ctx)
    }
}
