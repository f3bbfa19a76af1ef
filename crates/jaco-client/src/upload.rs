//! Sends the blobs of an image to a node.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::upload_input::Input;
use jaco_proto::v1::upload_output::Output;
use jaco_proto::v1::uploads_client::UploadsClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::client::Client;
use crate::error::ClientError;
use crate::exec::Taken;

/// Capacity of the queue of pieces; a full queue blocks the sender.
const QUEUE: usize = 4;

/// Deadline of the first response: the node looks for what it has.
const PATIENCE: Duration = Duration::from_secs(60);

/// An upload that was started.
#[derive(Debug)]
pub struct Upload {
    endpoint: String,
    outputs: Streaming<v1::UploadOutput>,
    inputs: Option<UploadInputs>,
}

/// The blobs on their way. The upload ends when the last of these is dropped.
#[derive(Debug)]
pub struct UploadInputs(mpsc::Sender<v1::UploadInput>);

impl Client {
    /// Starts an upload to the first node that answers, over a connection of its own. Returns it with what is missing.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn upload(
        &self,
        start: v1::UploadStart,
    ) -> Result<(Upload, v1::UploadMissing), ClientError> {
        let (endpoint, channel) = self.own_channel().await?;
        let (inputs, sent) = mpsc::channel(QUEUE);
        let first = v1::UploadInput { input: Some(Input::Start(start)) };
        inputs.try_send(first).expect("a fresh channel has room");
        let request = self.authorized(ReceiverStream::new(sent));
        let mut client = UploadsClient::new(channel);
        let late = || ClientError::TimedOut { endpoint: endpoint.clone(), limit: PATIENCE };
        let asked = async {
            let mut outputs = client.upload(request).await?.into_inner();
            let first = outputs.message().await?;
            Ok((outputs, first.and_then(|output| output.output)))
        };
        let asked = tokio::time::timeout(PATIENCE, asked).await.map_err(|_| late())?;
        let (outputs, first) =
            asked.map_err(|status| ClientError::from_status(&endpoint, &status))?;
        let Some(Output::Missing(missing)) = first else {
            let status = Status::unavailable("the node has ended the upload before it began");
            return Err(ClientError::from_status(&endpoint, &status));
        };
        Ok((Upload { endpoint, outputs, inputs: Some(UploadInputs(inputs)) }, missing))
    }
}

impl Upload {
    /// The way to the node; none the second time.
    #[must_use]
    pub fn take_inputs(&mut self) -> Option<UploadInputs> {
        self.inputs.take()
    }

    /// The digest of the next blob that is complete, or `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the node, or the loss of the connection. The upload has ended then.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            let output = self.outputs.message().await;
            let output =
                output.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
            match output.map(|output| output.output) {
                None => return Ok(None),
                Some(Some(Output::Stored(stored))) => return Ok(Some(stored.digest.to_vec())),
                Some(Some(Output::Missing(_)) | None) => {}
            }
        }
    }
}

impl UploadInputs {
    /// Begins a blob at this byte. Blocks the thread while the queue is full, as the other does.
    #[must_use]
    pub fn blob_blocking(&self, digest: [u8; 32], offset: u64) -> Taken {
        let digest = digest.to_vec().into();
        self.put_blocking(Input::Blob(v1::UploadBlob { digest, offset }))
    }

    /// Sends a piece of at most 1 MiB.
    #[must_use]
    pub fn data_blocking(&self, piece: Vec<u8>) -> Taken {
        self.put_blocking(Input::Data(piece.into()))
    }

    fn put_blocking(&self, input: Input) -> Taken {
        let sent = self.0.blocking_send(v1::UploadInput { input: Some(input) });
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }
}
