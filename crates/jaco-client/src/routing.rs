//! Watches the endpoints of services and acknowledges their versions.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::routing_client::RoutingClient;
use jaco_proto::v1::routing_request::Kind;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming};

use crate::client::Client;
use crate::error::ClientError;

/// Capacity of the queue of acknowledgements.
const QUEUE: usize = 16;

/// Deadline of the first response: attaching a consumer takes a log entry.
const PATIENCE: Duration = Duration::from_secs(10);

/// A watch of endpoints. While it is open, an instance that was removed from the endpoints keeps running
/// until this consumer has acknowledged, or until a deadline.
#[derive(Debug)]
pub struct Routes {
    endpoint: String,
    versions: Streaming<v1::RoutingResponse>,
    acknowledgements: mpsc::Sender<v1::RoutingRequest>,
}

impl Client {
    /// Watches the endpoints from the first node that answers. It does not reconnect: the caller decides
    /// what happens to its traffic meanwhile.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn routes(&self, attach: v1::RoutingAttach) -> Result<Routes, ClientError> {
        let (index, channel) = self.any_channel().await?;
        let endpoint = self.node(index).endpoint.to_string();
        let (acknowledgements, requests) = mpsc::channel(QUEUE);
        let first = v1::RoutingRequest { kind: Some(Kind::Attach(attach)) };
        acknowledgements.try_send(first).expect("a fresh channel has room");
        let request: Request<ReceiverStream<v1::RoutingRequest>> =
            self.authorized(ReceiverStream::new(requests));
        let mut client = RoutingClient::new(channel);
        let asked = tokio::time::timeout(PATIENCE, client.watch(request)).await;
        let answer = asked
            .map_err(|_| ClientError::TimedOut { endpoint: endpoint.clone(), limit: PATIENCE })?
            .map_err(|status| ClientError::from_status(&endpoint, &status))?;
        Ok(Routes { endpoint, versions: answer.into_inner(), acknowledgements })
    }
}

impl Routes {
    /// The next version, or `None` when the daemon ends the stream.
    ///
    /// # Errors
    /// The refusal of the daemon, or the loss of the connection. The stream has ended then.
    pub async fn next(&mut self) -> Result<Option<v1::RoutingResponse>, ClientError> {
        let version = self.versions.message().await;
        version.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    /// Detaches the consumer: nothing waits for it any more.
    ///
    /// # Errors
    /// When the connection is lost before the consumer is detached; its lease expires instead.
    pub async fn leave(mut self) -> Result<(), ClientError> {
        drop(self.acknowledgements);
        loop {
            let version = self.versions.message().await;
            let version =
                version.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
            if version.is_none() {
                return Ok(());
            }
        }
    }

    /// Acknowledges a version: the consumer sends no more traffic to endpoints that are not in it.
    pub async fn acknowledge(&self, version: u64) {
        let kind = Some(Kind::Acknowledge(v1::RoutingAcknowledge { version }));
        // If the stream has ended, `next` reports it.
        self.acknowledgements.send(v1::RoutingRequest { kind }).await.ok();
    }
}
