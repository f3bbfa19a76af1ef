//! A command in a replica's container, from the beginning to its end.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::exec_client::ExecClient;
use jaco_proto::v1::exec_input::Input;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::client::Client;
use crate::error::ClientError;

/// Pieces of input that may wait to be sent: whoever has more waits.
const WAITING: usize = 4;

/// How long the first answer may take: it is written to the log first, and an engine starts it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest piece of output that is taken.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// A command that runs.
#[derive(Debug)]
pub struct Exec {
    endpoint: String,
    outputs: Streaming<v1::ExecOutput>,
    inputs: ExecInputs,
}

/// Where its input goes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ExecInputs(mpsc::Sender<v1::ExecInput>);

impl Client {
    /// Runs a command over the node that answers first. It is asked once only: it may have been started
    /// where the answer was lost.
    ///
    /// # Errors
    /// The cluster's refusal, or why nobody answered.
    pub async fn exec(&self, start: v1::ExecStart) -> Result<Exec, ClientError> {
        let (endpoint, channel) = self.any_channel().await?;
        let (inputs, sent) = mpsc::channel(WAITING);
        let first = v1::ExecInput { input: Some(Input::Start(start)) };
        inputs.try_send(first).expect("a fresh channel has room");
        let request = self.authorized(ReceiverStream::new(sent));
        let mut client = ExecClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let asked = tokio::time::timeout(PATIENCE, client.run(request)).await;
        let answer = asked
            .map_err(|_| ClientError::TimedOut { endpoint: endpoint.clone(), limit: PATIENCE })?
            .map_err(|status| ClientError::from_status(&endpoint, &status))?;
        Ok(Exec { endpoint, outputs: answer.into_inner(), inputs: ExecInputs(inputs) })
    }
}

impl Exec {
    /// What comes next, or `None` when the daemon ends the stream. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The daemon's refusal, or the loss of the connection. Nothing comes after it.
    pub async fn next(&mut self) -> Result<Option<v1::ExecOutput>, ClientError> {
        let output = self.outputs.message().await;
        output.map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    /// Where its input goes.
    #[must_use]
    pub fn inputs(&self) -> ExecInputs {
        self.inputs.clone()
    }
}

/// Whether the command may still take input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was sent.
    Yes,
    /// The command has ended, or the connection is lost: the output says which.
    No,
}

impl ExecInputs {
    /// Sends to its standard input, 1 MiB at most. Waits on the calling thread until there is room.
    #[must_use]
    pub fn send_blocking(&self, bytes: Vec<u8>) -> Taken {
        self.put_blocking(Input::Stdin(bytes.into()))
    }

    /// Ends its standard input.
    #[must_use]
    pub fn end_blocking(&self) -> Taken {
        self.put_blocking(Input::StdinEnd(v1::ExecStdinEnd {}))
    }

    /// Tells the size of its terminal.
    pub async fn resize(&self, size: v1::TerminalSize) -> Taken {
        let sent = self.0.send(v1::ExecInput { input: Some(Input::Resize(size)) }).await;
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }

    fn put_blocking(&self, input: Input) -> Taken {
        let sent = self.0.blocking_send(v1::ExecInput { input: Some(input) });
        if sent.is_ok() { Taken::Yes } else { Taken::No }
    }
}
