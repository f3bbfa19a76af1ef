//! The status of a cluster, put together from the parts in which a daemon sends a large one.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::query_client::QueryClient;
use tonic::{Request, Response, Status, Streaming};

use crate::call::Call;
use crate::client::{Client, RESPONSE_BYTES_MAX};
use crate::error::ClientError;
use crate::retry::Patience;
use crate::stream::Answers;

/// A whole status may take longer than other answers: that of the largest cluster is some tens of megabytes.
const PATIENCE: Patience =
    Patience { attempt: Duration::from_secs(60), retries: Patience::SHORT.retries };

/// The status now and after each change.
#[derive(Debug)]
pub struct Statuses {
    answers: Answers<v1::StatusResponse>,
    /// The parts so far of an answer that goes on.
    begun: Option<v1::StatusResponse>,
}

impl Client {
    /// Deployments, replicas, rollouts and nodes at one state.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn read_status(
        &self,
        request: v1::StatusRequest,
    ) -> Result<v1::StatusResponse, ClientError> {
        let send = |channel, request: Request<v1::StatusRequest>| async move {
            let mut client =
                QueryClient::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
            let begin = tokio::time::timeout(Patience::SHORT.attempt, client.overview(request));
            let begun = begin.await.map_err(|_| Status::deadline_exceeded("no answer"))??;
            let (headers, mut parts, extensions) = begun.into_parts();
            let mut whole = None;
            while !add_next(&mut parts, &mut whole).await? {}
            let whole = whole.ok_or_else(|| Status::unavailable("the answer is empty"))?;
            Ok(Response::from_parts(headers, whole, extensions))
        };
        let call = Call { client: self, patience: PATIENCE, send };
        let request = v1::StatusRequest { in_parts: true, ..request };
        Box::pin(call.run(request)).await.map(|(_, response)| response)
    }

    /// As [`Client::read_status`], now and after each change.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn watch_status(&self, request: v1::StatusRequest) -> Result<Statuses, ClientError> {
        let request = v1::StatusRequest { in_parts: true, ..request };
        Ok(Statuses { answers: self.watch(request).await?, begun: None })
    }
}

impl Statuses {
    /// The next status, or `None` when the daemon ends the stream. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the daemon, or the loss of the connection. The stream has ended then.
    pub async fn next(&mut self) -> Result<Option<v1::StatusResponse>, ClientError> {
        let Answers { endpoint, inner } = &mut self.answers;
        loop {
            match add_next(inner, &mut self.begun).await {
                Ok(true) => return Ok(self.begun.take()),
                Ok(false) => {}
                Err(status) => return Err(ClientError::from_status(endpoint, &status)),
            }
        }
    }
}

/// Adds the next part to an answer; whether it is whole now. The end of the stream leaves nothing.
async fn add_next(
    parts: &mut Streaming<v1::StatusResponse>,
    answer: &mut Option<v1::StatusResponse>,
) -> Result<bool, Status> {
    let Some(part) = parts.message().await? else {
        return match answer.take() {
            None => Ok(true),
            Some(_) => Err(Status::unavailable("the answer ended in its middle")),
        };
    };
    let more = part.more;
    match answer {
        None => *answer = Some(part),
        Some(answer) => {
            answer.deployments.extend(part.deployments);
            answer.replicas.extend(part.replicas);
            answer.more = more;
        }
    }
    Ok(!more)
}
