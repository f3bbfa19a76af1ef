//! Follows where replicas can be reached, and says which version is followed.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::routing_client::RoutingClient;
use jaco_proto::v1::routing_request::Kind;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming};

use crate::client::Client;
use crate::error::ClientError;

/// Acknowledgements that may wait to be sent.
const WAITING: usize = 16;

/// How long the first answer may take: the consumer is written to the log before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Endpoints as they change. While it is held, replicas that leave them wait for its word.
#[derive(Debug)]
pub struct Routes {
    endpoint: String,
    versions: Streaming<v1::RoutingResponse>,
    acknowledgements: mpsc::Sender<v1::RoutingRequest>,
}

impl Client {
    /// Follows the endpoints over the node that answers first. A connection that is lost is not made
    /// again: whoever follows has to say what becomes of its traffic meanwhile.
    ///
    /// # Errors
    /// The cluster's refusal, or why nobody answered.
    pub async fn routes(&self, attach: v1::RoutingAttach) -> Result<Routes, ClientError> {
        let (endpoint, channel) = self.any_channel().await?;
        let (acknowledgements, requests) = mpsc::channel(WAITING);
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
    /// The daemon's refusal, or the loss of the connection. Nothing comes after it.
    pub async fn next(&mut self) -> Result<Option<v1::RoutingResponse>, ClientError> {
        let version = self.versions.message().await;
        version.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    /// Ends it: nothing waits for this consumer any more.
    ///
    /// # Errors
    /// When the connection is lost before the daemon has taken note; the lease runs out then.
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

    /// Says that nothing is sent any more to an endpoint that is not in this version.
    pub async fn acknowledge(&self, version: u64) {
        let kind = Some(Kind::Acknowledge(v1::RoutingAcknowledge { version }));
        // Nobody listens any more: the next version says so, too.
        self.acknowledgements.send(v1::RoutingRequest { kind }).await.ok();
    }
}
