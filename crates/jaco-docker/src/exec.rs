//! Runs a command in a container: creates an exec, starts it over a hijacked connection for input
//! and output, and polls its exit code. A container whose main process is the command is transferred the same way.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, ResizeExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::{InspectContainerOptions, ResizeContainerTTYOptions};
use futures::{Stream, StreamExt, stream};
use jaco_agent::engine::{ContainerId, EngineError};
use jaco_agent::exec::{
    ExecInput, ExecInputs, ExecOutput, ExecOutputs, ExecRequest, Stdin, TerminalSize,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::error::engine_error;

/// Output chunks that may wait for a slow reader; after that the command blocks.
const OUTPUT_BUFFER: usize = 16;
/// First and longest pause between two polls of the exit code.
const POLL_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// Attempts to set a terminal's initial size, [`POLL_PAUSES`] apart: Docker accepts none before the
/// command runs, and does not signal when it does.
const SIZE_ATTEMPTS: u32 = 10;

/// On a terminal all keys go to the command: the default detach sequence would hold back Ctrl-P.
pub(crate) const NO_DETACH_KEYS: &str = "ctrl-@,ctrl-@,ctrl-@,ctrl-@";

pub(crate) type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;
pub(crate) type Input = Pin<Box<dyn AsyncWrite + Send>>;
type Outputs = mpsc::Sender<Result<ExecOutput, EngineError>>;

/// Runs the command. See [`jaco_agent::ContainerEngine::exec`].
///
/// # Errors
/// If the container is not running or Docker is unreachable.
pub(crate) async fn run(
    docker: Docker,
    container: &ContainerId,
    request: &ExecRequest,
    inputs: ExecInputs,
) -> Result<ExecOutputs, EngineError> {
    let exec = (request.stdin, request.terminal);
    attach(docker, container, options(request), exec, inputs).await
}

/// Runs what is described in Docker's terms.
///
/// # Errors
/// If the container is not running or Docker is unreachable.
pub(crate) async fn attach(
    docker: Docker,
    container: &ContainerId,
    options: CreateExecOptions<String>,
    (stdin, terminal): (Stdin, Option<TerminalSize>),
    inputs: ExecInputs,
) -> Result<ExecOutputs, EngineError> {
    let created = docker.create_exec(&container.0, options).await.map_err(engine_error)?;
    let start = StartExecOptions { tty: terminal.is_some(), ..StartExecOptions::default() };
    let started = docker.start_exec(&created.id, Some(start)).await.map_err(engine_error)?;
    let StartExecResults::Attached { output, input } = started else {
        let reason = "docker did not attach to the command".to_owned();
        return Err(EngineError::Refused { reason });
    };
    let attached = Attached::new(docker, Running::Exec(created.id), stdin, terminal);
    Ok(attached.transfer(output, input, inputs, pending(), async {}))
}

fn options(request: &ExecRequest) -> CreateExecOptions<String> {
    CreateExecOptions {
        attach_stdin: Some(request.stdin == Stdin::Sent),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(request.terminal.is_some()),
        detach_keys: request.terminal.map(|_| NO_DETACH_KEYS.to_owned()),
        env: Some(request.environment.clone()),
        cmd: Some(request.command.clone()),
        user: request.user.clone(),
        working_dir: request.working_dir.clone(),
        ..CreateExecOptions::default()
    }
}

/// What a command runs as, with its id.
pub(crate) enum Running {
    /// Beside the main process of a container.
    Exec(String),
    /// The main process of a container.
    Container(String),
}

/// A running command whose input and output are connected.
pub(crate) struct Attached {
    docker: Docker,
    running: Running,
    stdin: Stdin,
    terminal: Option<TerminalSize>,
}

impl Attached {
    pub(crate) fn new(
        docker: Docker,
        running: Running,
        stdin: Stdin,
        terminal: Option<TerminalSize>,
    ) -> Self {
        Self { docker, running, stdin, terminal }
    }

    /// Transfers input and output in the background until the command exits, the reader is gone, or `cut_off` says why the
    /// command ends; then does the rest.
    pub(crate) fn transfer(
        self,
        output: Output,
        input: Input,
        inputs: ExecInputs,
        cut_off: impl Future<Output = EngineError> + Send + 'static,
        rest: impl Future<Output = ()> + Send + 'static,
    ) -> ExecOutputs {
        let (sender, receiver) = mpsc::channel(OUTPUT_BUFFER);
        tokio::spawn(async move {
            let why = tokio::select! {
                () = self.connect(output, input, inputs, sender.clone()) => None,
                why = cut_off => Some(why),
            };
            // Before a reader that may have stalled.
            rest.await;
            if let Some(why) = why {
                sender.send(Err(why)).await.ok();
            }
        });
        let outputs = stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|output| (output, receiver))
        });
        outputs.boxed()
    }

    /// Transfers input and output until the command exits, or the reader is gone.
    async fn connect(self, mut output: Output, input: Input, inputs: ExecInputs, sender: Outputs) {
        let telling = async {
            while let Some(piece) = output.next().await {
                let piece = piece.map(to_output).map_err(engine_error);
                let failed = piece.is_err();
                if sender.send(piece).await.is_err() || failed {
                    return;
                }
            }
            let ended = self.wait().await.map(ExecOutput::Exited);
            // The reader may be gone.
            sender.send(ended).await.ok();
        };
        tokio::select! {
            () = telling => {}
            () = self.forward_input(input, inputs) => {}
            () = sender.closed() => {}
        }
    }

    /// Forwards input. Never returns: output may follow after the input ended.
    async fn forward_input(&self, mut input: Input, mut inputs: ExecInputs) {
        if let Some(size) = self.terminal {
            self.resize_first(size).await;
        }
        let mut open = self.stdin;
        while let Some(next) = inputs.next().await {
            match next {
                // A command that closed its input is not an error; its exit follows.
                ExecInput::Stdin(bytes) if open == Stdin::Sent => {
                    if input.write_all(&bytes).await.is_err() || input.flush().await.is_err() {
                        open = Stdin::None;
                    }
                }
                ExecInput::StdinEnd if open == Stdin::Sent => {
                    input.shutdown().await.ok();
                    open = Stdin::None;
                }
                ExecInput::Stdin(_) | ExecInput::StdinEnd => {}
                ExecInput::Resize(size) => {
                    if let Err(error) = self.resize(size).await {
                        tracing::debug!(%error, "tty resize failed");
                    }
                }
            }
        }
        if open == Stdin::Sent {
            input.shutdown().await.ok();
        }
        pending::<()>().await;
    }

    /// Sets the initial size of the terminal.
    async fn resize_first(&self, size: TerminalSize) {
        for _ in 0..SIZE_ATTEMPTS {
            if self.resize(size).await.is_ok() {
                return;
            }
            tokio::time::sleep(POLL_PAUSES.0).await;
        }
        tracing::debug!("tty size not set, command has exited");
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        match &self.running {
            Running::Exec(id) => {
                let options = ResizeExecOptions { width: size.columns, height: size.rows };
                self.docker.resize_exec(id, options).await
            }
            Running::Container(id) => {
                let options =
                    ResizeContainerTTYOptions { w: size.columns.into(), h: size.rows.into() };
                self.docker.resize_container_tty(id, options).await
            }
        }
    }

    /// Waits for the exit code. The output may end before: Docker observes both independently, and
    /// a command can close its output.
    async fn wait(&self) -> Result<i64, EngineError> {
        let mut pause = POLL_PAUSES.0;
        loop {
            if let (Some(code), Some(false)) = self.look().await.map_err(engine_error)? {
                return Ok(code);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL_PAUSES.1);
        }
    }

    /// Its exit code, and whether it runs.
    async fn look(&self) -> Result<(Option<i64>, Option<bool>), Error> {
        match &self.running {
            Running::Exec(id) => {
                let seen = self.docker.inspect_exec(id).await?;
                Ok((seen.exit_code, seen.running))
            }
            Running::Container(id) => {
                let options = None::<InspectContainerOptions>;
                let state = self.docker.inspect_container(id, options).await?.state;
                let state = state.unwrap_or_default();
                Ok((state.exit_code, state.running))
            }
        }
    }
}

fn to_output(output: LogOutput) -> ExecOutput {
    match output {
        LogOutput::StdErr { message } => ExecOutput::Stderr(message.into()),
        LogOutput::StdOut { message }
        | LogOutput::StdIn { message }
        | LogOutput::Console { message } => ExecOutput::Stdout(message.into()),
    }
}
