//! A command beside a container's own process: made, started over a connection that carries its input and
//! output, and asked how it ended.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, ResizeExecOptions, StartExecOptions, StartExecResults};
use futures::{Stream, StreamExt, stream};
use jaco_agent::engine::{ContainerId, EngineError};
use jaco_agent::exec::{
    ExecInput, ExecInputs, ExecOutput, ExecOutputs, ExecRequest, Stdin, TerminalSize,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::error::engine_error;

/// Pieces of output that may wait for a slow reader; after that the command waits too.
const OUTPUTS_WAITING: usize = 16;
/// The first pause between two questions whether the command has ended, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// How often a terminal's first size is given, [`PAUSES`] apart: Docker takes none before the command runs,
/// and does not say when that is.
const SIZE_ATTEMPTS: u32 = 10;

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;
type Outputs = mpsc::Sender<Result<ExecOutput, EngineError>>;

/// Runs it. See [`jaco_agent::ContainerEngine::exec`].
///
/// # Errors
/// When the container does not run, or Docker does not answer.
pub(crate) async fn run(
    docker: Docker,
    container: &ContainerId,
    request: &ExecRequest,
    inputs: ExecInputs,
) -> Result<ExecOutputs, EngineError> {
    let created = docker.create_exec(&container.0, options(request)).await.map_err(engine_error)?;
    let start = StartExecOptions { tty: request.terminal.is_some(), ..StartExecOptions::default() };
    let started = docker.start_exec(&created.id, Some(start)).await.map_err(engine_error)?;
    let StartExecResults::Attached { output, input } = started else {
        let reason = "the command was started without a connection to it".to_owned();
        return Err(EngineError::Refused { reason });
    };
    let (sender, receiver) = mpsc::channel(OUTPUTS_WAITING);
    let exec = Exec { docker, id: created.id, stdin: request.stdin, terminal: request.terminal };
    tokio::spawn(exec.carry(output, input, inputs, sender));
    let outputs = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|output| (output, receiver))
    });
    Ok(outputs.boxed())
}

fn options(request: &ExecRequest) -> CreateExecOptions<String> {
    CreateExecOptions {
        attach_stdin: Some(request.stdin == Stdin::Sent),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(request.terminal.is_some()),
        // What people type goes to the command, all of it: the usual sequence would hold back Ctrl-P.
        detach_keys: request.terminal.map(|_| "ctrl-@,ctrl-@,ctrl-@,ctrl-@".to_owned()),
        env: Some(request.environment.clone()),
        cmd: Some(request.command.clone()),
        user: request.user.clone(),
        working_dir: request.working_dir.clone(),
        ..CreateExecOptions::default()
    }
}

/// A command that runs.
struct Exec {
    docker: Docker,
    id: String,
    stdin: Stdin,
    terminal: Option<TerminalSize>,
}

impl Exec {
    /// Carries input and output until the command ends, or nobody listens any more.
    async fn carry(self, mut output: Output, input: Input, inputs: ExecInputs, sender: Outputs) {
        let telling = async {
            while let Some(piece) = output.next().await {
                let piece = piece.map(piece_of).map_err(engine_error);
                let failed = piece.is_err();
                if sender.send(piece).await.is_err() || failed {
                    return;
                }
            }
            let ended = self.wait().await.map(ExecOutput::Ended);
            // Nobody may listen any more.
            sender.send(ended).await.ok();
        };
        tokio::select! {
            () = telling => {}
            () = self.feed(input, inputs) => {}
            () = sender.closed() => {}
        }
    }

    /// Takes what goes in. Never ends by itself: what comes out goes on after it.
    async fn feed(&self, mut input: Input, mut inputs: ExecInputs) {
        if let Some(size) = self.terminal {
            self.resize_first(size).await;
        }
        let mut open = self.stdin;
        while let Some(next) = inputs.next().await {
            match next {
                // A command that does not read any more tells nobody; its end will.
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
                        tracing::debug!(%error, "a terminal keeps its size");
                    }
                }
            }
        }
        if open == Stdin::Sent {
            input.shutdown().await.ok();
        }
        pending::<()>().await;
    }

    /// The size that the terminal has from the beginning.
    async fn resize_first(&self, size: TerminalSize) {
        for _ in 0..SIZE_ATTEMPTS {
            if self.resize(size).await.is_ok() {
                return;
            }
            tokio::time::sleep(PAUSES.0).await;
        }
        tracing::debug!("a terminal has no size: its command has ended already");
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        let options = ResizeExecOptions { width: size.columns, height: size.rows };
        self.docker.resize_exec(&self.id, options).await
    }

    /// How it ended. Its output may be over before: Docker learns of both on its own, and a command can
    /// close what it writes to.
    async fn wait(&self) -> Result<i64, EngineError> {
        let mut pause = PAUSES.0;
        loop {
            let seen = self.docker.inspect_exec(&self.id).await.map_err(engine_error)?;
            if let (Some(code), Some(false)) = (seen.exit_code, seen.running) {
                return Ok(code);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

fn piece_of(output: LogOutput) -> ExecOutput {
    match output {
        LogOutput::StdErr { message } => ExecOutput::Stderr(message.into()),
        LogOutput::StdOut { message }
        | LogOutput::StdIn { message }
        | LogOutput::Console { message } => ExecOutput::Stdout(message.into()),
    }
}
