//! Carries TCP connections to ports of a replica's container.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::exec_client::ExecClient;
use jaco_proto::v1::forward_input::Input;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::client::Client;
use crate::error::ClientError;
use crate::exec::Taken;

/// Capacity of the queue of data; a full queue holds the sender up.
const QUEUE: usize = 4;

/// Deadline of the first response: the first connection of a command is audited in the log.
const PATIENCE: Duration = Duration::from_secs(30);

/// One connection.
#[derive(Debug)]
pub struct Forward {
    endpoint: String,
    outputs: Streaming<v1::ForwardOutput>,
    inputs: ForwardInputs,
}

/// The way to the container.
#[derive(Debug, Clone)]
pub struct ForwardInputs(mpsc::Sender<v1::ForwardInput>);

impl Client {
    /// Opens a connection, or announces connections, by the first node that answers. It is carried by one of its own to
    /// that node: one that stalls holds up no other.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn forward(&self, start: v1::ForwardStart) -> Result<Forward, ClientError> {
        let (endpoint, channel) = self.own_channel().await?;
        let (inputs, sent) = mpsc::channel(QUEUE);
        let first = v1::ForwardInput { input: Some(Input::Start(start)) };
        inputs.try_send(first).expect("a fresh channel has room");
        let request = self.authorized(ReceiverStream::new(sent));
        let asked = async { ExecClient::new(channel).forward(request).await };
        let answer = tokio::time::timeout(PATIENCE, asked)
            .await
            .map_err(|_| ClientError::TimedOut { endpoint: endpoint.clone(), limit: PATIENCE })?
            .map_err(|status| ClientError::from_status(&endpoint, &status))?;
        Ok(Forward { endpoint, outputs: answer.into_inner(), inputs: ForwardInputs(inputs) })
    }
}

impl Forward {
    /// The next response, or `None` when the daemon ends the stream. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the daemon, or the loss of the connection. The stream has ended then.
    pub async fn next(&mut self) -> Result<Option<v1::ForwardOutput>, ClientError> {
        let output = self.outputs.message().await;
        output.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    /// The way to the container.
    #[must_use]
    pub fn inputs(&self) -> ForwardInputs {
        self.inputs.clone()
    }
}

impl ForwardInputs {
    /// Sends at most 1 MiB; waits while the queue is full.
    pub async fn send(&self, data: Vec<u8>) -> Taken {
        self.put(Input::Data(data.into())).await
    }

    /// Says that nothing more is sent.
    pub async fn end(&self) -> Taken {
        self.put(Input::End(v1::ForwardEnd {})).await
    }

    async fn put(&self, input: Input) -> Taken {
        let sent = self.0.send(v1::ForwardInput { input: Some(input) }).await;
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }
}
