//! Writes volumes.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::volume_input::Input;
use jaco_proto::v1::volume_output::Output;
use jaco_proto::v1::volume_writes_client::VolumeWritesClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::client::Client;
use crate::error::ClientError;
use crate::exec::Taken;

/// Capacity of the queue of archive pieces; a full queue blocks the sender.
const QUEUE: usize = 4;

/// Deadline of the first response: the nodes are asked for the volume, and the copy is audited.
const PATIENCE: Duration = Duration::from_secs(60);

/// A write of a volume that was started.
#[derive(Debug)]
pub struct VolumeWrite {
    endpoint: String,
    outputs: Streaming<v1::VolumeOutput>,
}

/// How far a write of a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeProgress {
    /// So many bytes of another node's volume were copied.
    Copied(u64),
    /// The volume is there.
    Done,
}

/// An archive on its way into a volume. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VolumeInputs(mpsc::Sender<v1::VolumeInput>);

impl Client {
    /// Starts to write a volume by the first node that answers, over a connection of its own.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn write_volume(
        &self,
        start: v1::WriteVolumeStart,
    ) -> Result<(VolumeWrite, VolumeInputs, v1::VolumeStarted), ClientError> {
        let (endpoint, channel) = self.own_channel().await?;
        let (inputs, sent) = mpsc::channel(QUEUE);
        let first = v1::VolumeInput { input: Some(Input::Start(start)) };
        inputs.try_send(first).expect("a fresh channel has room");
        let request = self.authorized(ReceiverStream::new(sent));
        let asked = async {
            let mut outputs =
                VolumeWritesClient::new(channel).write_volume(request).await?.into_inner();
            let first = outputs.message().await?;
            Ok((outputs, first.and_then(|output| output.output)))
        };
        let late = || ClientError::TimedOut { endpoint: endpoint.clone(), limit: PATIENCE };
        let asked = tokio::time::timeout(PATIENCE, asked).await.map_err(|_| late())?;
        let (outputs, first) =
            asked.map_err(|status| ClientError::from_status(&endpoint, &status))?;
        match first {
            Some(Output::Started(started)) => {
                Ok((VolumeWrite { endpoint, outputs }, VolumeInputs(inputs), started))
            }
            Some(Output::Archive(_) | Output::End(_) | Output::Copied(_)) | None => {
                Err(cut(&endpoint))
            }
        }
    }
}

impl VolumeWrite {
    /// Waits until the volume is written. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the daemon, or the loss of the connection: the volume is not there then.
    pub async fn done(&mut self) -> Result<(), ClientError> {
        while self.next().await? != VolumeProgress::Done {}
        Ok(())
    }

    /// How far it is, once that is told again. Cancel safe.
    ///
    /// # Errors
    /// Those of [`VolumeWrite::done`].
    pub async fn next(&mut self) -> Result<VolumeProgress, ClientError> {
        let output = self.outputs.message().await;
        let output = output.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
        match output.and_then(|output| output.output) {
            Some(Output::End(_)) => Ok(VolumeProgress::Done),
            Some(Output::Copied(copied)) => Ok(VolumeProgress::Copied(copied.bytes)),
            Some(Output::Started(_) | Output::Archive(_)) | None => Err(cut(&self.endpoint)),
        }
    }
}

/// The daemon has ended the stream before its end.
fn cut(endpoint: &str) -> ClientError {
    let status = Status::unavailable("the node has ended the copy of the volume before its end");
    ClientError::from_status(endpoint, &status)
}

impl VolumeInputs {
    /// Sends a piece of at most 1 MiB. Blocks the thread while the queue is full, as the other does.
    #[must_use]
    pub fn send_blocking(&self, piece: Vec<u8>) -> Taken {
        self.put_blocking(Input::Archive(piece.into()))
    }

    /// Says that the archive is complete. Without it, no volume is made.
    #[must_use]
    pub fn end_blocking(&self) -> Taken {
        self.put_blocking(Input::End(v1::VolumeEnd {}))
    }

    fn put_blocking(&self, input: Input) -> Taken {
        let sent = self.0.blocking_send(v1::VolumeInput { input: Some(input) });
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }
}
