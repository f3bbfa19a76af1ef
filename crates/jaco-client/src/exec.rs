//! Runs a command in a replica's container.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::exec_client::ExecClient;
use jaco_proto::v1::exec_input::Input;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::client::Client;
use crate::error::ClientError;

/// Capacity of the queue of input; a full queue blocks the sender.
const QUEUE: usize = 4;

/// Deadline of the first response: the command is audited in the log, then started by the engine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest message of output that is read.
const RESPONSE_BYTES_MAX: usize = 8 << 20;

type Inputs = Request<ReceiverStream<v1::ExecInput>>;
type Outputs = Response<Streaming<v1::ExecOutput>>;

/// A running command.
#[derive(Debug)]
pub struct Exec {
    endpoint: String,
    outputs: Streaming<v1::ExecOutput>,
    inputs: ExecInputs,
}

/// The input of a running command. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ExecInputs(mpsc::Sender<v1::ExecInput>);

impl Client {
    /// Runs a command by the first node that answers. Not retried: the command may have been started
    /// although the response was lost.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered.
    pub async fn exec(&self, start: v1::ExecStart) -> Result<Exec, ClientError> {
        self.begin(start, async |mut client, request| client.run(request).await).await
    }

    /// Runs a command in a container of its own, beside the replica's; otherwise as [`Client::exec`]. The container is removed once
    /// the command has exited or the connection has ended.
    ///
    /// # Errors
    /// Those of [`Client::exec`].
    pub async fn run_beside(&self, start: v1::ExecStart) -> Result<Exec, ClientError> {
        self.begin(start, async |mut client, request| client.run_beside(request).await).await
    }

    async fn begin(
        &self,
        start: v1::ExecStart,
        call: impl AsyncFnOnce(ExecClient<Channel>, Inputs) -> Result<Outputs, Status>,
    ) -> Result<Exec, ClientError> {
        let (index, channel) = self.any_channel().await?;
        let endpoint = self.node(index).endpoint.to_string();
        let (inputs, sent) = mpsc::channel(QUEUE);
        let first = v1::ExecInput { input: Some(Input::Start(start)) };
        inputs.try_send(first).expect("a fresh channel has room");
        let request = self.authorized(ReceiverStream::new(sent));
        let client = ExecClient::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
        let asked = tokio::time::timeout(PATIENCE, call(client, request)).await;
        let answer = asked
            .map_err(|_| ClientError::TimedOut { endpoint: endpoint.clone(), limit: PATIENCE })?
            .map_err(|status| ClientError::from_status(&endpoint, &status))?;
        Ok(Exec { endpoint, outputs: answer.into_inner(), inputs: ExecInputs(inputs) })
    }
}

impl Exec {
    /// The next output, or `None` when the daemon ends the stream. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the daemon, or the loss of the connection. The stream has ended then.
    pub async fn next(&mut self) -> Result<Option<v1::ExecOutput>, ClientError> {
        let output = self.outputs.message().await;
        output.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    /// The input of the command.
    #[must_use]
    pub fn inputs(&self) -> ExecInputs {
        self.inputs.clone()
    }
}

/// Whether the command can still receive input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The input was sent.
    Yes,
    /// The command has ended, or the connection is lost; [`Exec::next`] reports which.
    No,
}

impl ExecInputs {
    /// Sends at most 1 MiB to its standard input. Blocks the thread while the queue is full.
    #[must_use]
    pub fn send_blocking(&self, bytes: Vec<u8>) -> Taken {
        self.put_blocking(Input::Stdin(bytes.into()))
    }

    /// Closes its standard input.
    #[must_use]
    pub fn end_blocking(&self) -> Taken {
        self.put_blocking(Input::StdinEnd(v1::ExecStdinEnd {}))
    }

    /// Resizes its terminal.
    pub async fn resize(&self, size: v1::TerminalSize) -> Taken {
        let sent = self.0.send(v1::ExecInput { input: Some(Input::Resize(size)) }).await;
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }

    fn put_blocking(&self, input: Input) -> Taken {
        let sent = self.0.blocking_send(v1::ExecInput { input: Some(input) });
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }
}
