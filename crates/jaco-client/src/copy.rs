//! Copies files out of a replica's container or into it, as tar archives.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::copy_input::Input;
use jaco_proto::v1::exec_client::ExecClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::client::Client;
use crate::error::ClientError;
use crate::exec::Taken;

/// Capacity of the queue of archive pieces; a full queue blocks the sender.
const QUEUE: usize = 4;

/// Deadline of the first response: the copy is audited in the log, and the engine is asked what is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest message that is read.
const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// A copy that was started.
#[derive(Debug)]
pub struct Copy {
    endpoint: String,
    outputs: Streaming<v1::CopyOutput>,
    inputs: CopyInputs,
}

/// The archive on its way into a container. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CopyInputs(mpsc::Sender<v1::CopyInput>);

impl Client {
    /// Starts a copy by the first node that answers, over a connection of its own: one that stalls holds up nothing else.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn copy(&self, start: v1::CopyStart) -> Result<Copy, ClientError> {
        let (endpoint, channel) = self.own_channel().await?;
        let (inputs, sent) = mpsc::channel(QUEUE);
        let first = v1::CopyInput { input: Some(Input::Start(start)) };
        inputs.try_send(first).expect("a fresh channel has room");
        let request = self.authorized(ReceiverStream::new(sent));
        let mut client = ExecClient::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
        let asked = tokio::time::timeout(PATIENCE, client.copy(request)).await;
        let answer = asked
            .map_err(|_| ClientError::TimedOut { endpoint: endpoint.clone(), limit: PATIENCE })?
            .map_err(|status| ClientError::from_status(&endpoint, &status))?;
        Ok(Copy { endpoint, outputs: answer.into_inner(), inputs: CopyInputs(inputs) })
    }
}

impl Copy {
    /// The next response, or `None` when the daemon ends the stream. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the daemon, or the loss of the connection. The stream has ended then.
    pub async fn next(&mut self) -> Result<Option<v1::CopyOutput>, ClientError> {
        let output = self.outputs.message().await;
        output.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    /// The way into the container.
    #[must_use]
    pub fn inputs(&self) -> CopyInputs {
        self.inputs.clone()
    }
}

impl CopyInputs {
    /// Names the folder that the archive is unpacked in. Blocks the thread while the queue is full, as all of these do.
    #[must_use]
    pub fn folder_blocking(&self, folder: String) -> Taken {
        self.put_blocking(Input::Folder(folder))
    }

    /// Sends a piece of at most 1 MiB.
    #[must_use]
    pub fn send_blocking(&self, piece: Vec<u8>) -> Taken {
        self.put_blocking(Input::Archive(piece.into()))
    }

    /// Says that the archive is complete. Without it, the container's engine takes it for broken.
    #[must_use]
    pub fn end_blocking(&self) -> Taken {
        self.put_blocking(Input::End(v1::CopyEnd {}))
    }

    fn put_blocking(&self, input: Input) -> Taken {
        let sent = self.0.blocking_send(v1::CopyInput { input: Some(input) });
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }
}
