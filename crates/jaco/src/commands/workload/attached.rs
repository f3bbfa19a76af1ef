//! A command whose input and output are those of this process, in whichever container.

use std::io::{self, IsTerminal, Read};
use std::thread;

use jaco_client::{Exec, ExecInputs, Taken};
use jaco_proto::v1::exec_output::Output;
use jaco_proto::v1::{ExecStart, ExecStarted};
use jaco_types::ErrorCode;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;
use crate::output::terminal::{self, TerminalMode};
use crate::output::{Format, Frame, Show, Stream};
use crate::session::Session;
use crate::session::wait::interrupted;

/// The size of the buffer for standard input.
const CHUNK_BYTES: usize = 32 << 10;

/// How a command is run.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// User to run it as: name or number, optionally with :group
    #[arg(
        short,
        long,
        value_name = "USER",
        default_value = "",
        hide_default_value = true,
        requires = "command"
    )]
    user: String,
    /// Working directory in the container
    #[arg(
        short,
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        requires = "command"
    )]
    workdir: String,
    /// Environment variable to add
    #[arg(short, long, value_name = "KEY=VALUE", requires = "command")]
    env: Vec<String>,
    /// Do not allocate a terminal
    #[arg(short = 'T', long, requires = "command")]
    no_tty: bool,
    /// Do not forward standard input, as in a shell loop that reads it
    #[arg(short, long, requires = "command")]
    no_stdin: bool,
}

impl How {
    /// What starts the command. It gets a terminal if there is one here, unless that is not wanted.
    pub(super) fn start(
        &self,
        session: &Session,
        replica: String,
        command: Vec<String>,
    ) -> ExecStart {
        let for_programs = matches!(session.ui.format(), Format::Json | Format::Yaml);
        let terminals = io::stdin().is_terminal() && session.ui.is_terminal(Stream::Out);
        let on_terminal = terminals && !self.no_tty && !self.no_stdin && !for_programs;
        ExecStart {
            replica,
            command,
            environment: self.env.clone(),
            user: self.user.clone(),
            working_dir: self.workdir.clone(),
            stdin: !self.no_stdin,
            terminal: on_terminal.then(|| terminal::size(io::stdout())),
            entrypoint: String::new(),
        }
    }
}

/// What becomes of a command whose connection ends before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// It may run on: engines cannot end it.
    MayRun,
    /// It is ended with its container.
    Ends,
}

impl Abandoned {
    fn text(self) -> &'static str {
        match self {
            Self::MayRun => "the command may still be running in its container",
            Self::Ends => "its container is removed, and the command ends with it",
        }
    }
}

/// Connects the input and output of a command that was started so; returns its exit code.
pub(super) async fn connect(
    session: &mut Session,
    exec: Exec,
    start: &ExecStart,
    abandoned: Abandoned,
) -> Result<u8, CliError> {
    let failed = |error| CliError::local("cannot set up the terminal", error);
    let (raw_mode, resized) = match start.terminal {
        Some(_) => {
            let raw = TerminalMode::raw(io::stdin()).map_err(failed)?;
            (Some(raw), Some(signal(SignalKind::window_change()).map_err(failed)?))
        }
        None => (None, None),
    };
    if start.stdin {
        send_stdin(exec.inputs());
    }
    let ended = follow(session, exec, resized, abandoned).await;
    drop(raw_mode);
    ended
}

/// Forwards standard input, on its own thread: a blocking read cannot be cancelled, and the process must
/// be able to exit during one.
fn send_stdin(inputs: ExecInputs) {
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let taken = match io::stdin().read(&mut chunk) {
                Ok(0) | Err(_) => {
                    let _sent = inputs.end_blocking();
                    return;
                }
                Ok(length) => inputs.send_blocking(chunk[..length].to_vec()),
            };
            if taken == Taken::No {
                return;
            }
        }
    });
}

/// Prints the output until the command ends.
async fn follow(
    session: &mut Session,
    mut exec: Exec,
    mut resized: Option<Signal>,
    abandoned: Abandoned,
) -> Result<u8, CliError> {
    let inputs = exec.inputs();
    let mut printer = Printer::default();
    loop {
        let output = tokio::select! {
            output = exec.next() => output?,
            () = next_resize(resized.as_mut()) => {
                // Not sent only if the command has just ended.
                let _sent = inputs.resize(terminal::size(io::stdout())).await;
                continue;
            }
            () = interrupted(), if resized.is_none() => {
                let message = format!("\nInterrupted: {}.", abandoned.text());
                return Err(CliError::Interrupted { message });
            }
        };
        let Some(output) = output.map(|output| output.output) else { return Err(lost(abandoned)) };
        match output {
            None => {}
            Some(Output::Started(started)) => printer.started = started,
            Some(Output::Stdout(bytes)) => printer.print(session, Stream::Out, &bytes)?,
            Some(Output::Stderr(bytes)) => printer.print(session, Stream::Err, &bytes)?,
            Some(Output::Ended(ended)) => {
                printer.finish(session, ended.exit_code)?;
                // The exit code of this process has eight bits.
                return Ok(u8::try_from(ended.exit_code).unwrap_or(u8::MAX));
            }
        }
    }
}

/// Waits until the terminal is resized; forever if there is none.
async fn next_resize(resized: Option<&mut Signal>) {
    match resized {
        Some(resized) => drop(resized.recv().await),
        None => std::future::pending().await,
    }
}

fn lost(abandoned: Abandoned) -> CliError {
    CliError::Refused {
        code: ErrorCode::Unavailable,
        message: "the daemon ended the connection before the command ended".to_owned(),
        help: Some(abandoned.text().to_owned()),
    }
}

/// Prints output: bytes as they arrive on a terminal or pipe, whole lines as JSON or YAML.
#[derive(Default)]
struct Printer {
    started: ExecStarted,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Printer {
    fn print(
        &mut self,
        session: &mut Session,
        stream: Stream,
        bytes: &[u8],
    ) -> Result<(), CliError> {
        if matches!(session.ui.format(), Format::Table | Format::Wide) {
            return session.ui.bytes(stream, bytes).map_err(CliError::Output);
        }
        let (buffer, name) = match stream {
            Stream::Out => (&mut self.out, "stdout"),
            Stream::Err => (&mut self.err, "stderr"),
        };
        buffer.extend_from_slice(bytes);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let line = Line { of: &self.started, stream: name, text: &line[..end] };
            session.ui.item(&line).map_err(CliError::Output)?;
        }
        Ok(())
    }

    fn finish(&mut self, session: &mut Session, exit_code: i64) -> Result<(), CliError> {
        if matches!(session.ui.format(), Format::Table | Format::Wide) {
            return Ok(());
        }
        for (text, stream) in [(&self.out, "stdout"), (&self.err, "stderr")] {
            if !text.is_empty() {
                let line = Line { of: &self.started, stream, text };
                session.ui.item(&line).map_err(CliError::Output)?;
            }
        }
        let ended = Ended { of: &self.started, exit_code };
        session.ui.item(&ended).map_err(CliError::Output)
    }
}

/// One line of output as JSON; invalid UTF-8 is replaced.
struct Line<'a> {
    of: &'a ExecStarted,
    stream: &'static str,
    text: &'a [u8],
}

impl Show for Line<'_> {
    fn json(&self) -> Value {
        json!({
            "replica": self.of.replica,
            "node": self.of.node,
            "stream": self.stream,
            "text": String::from_utf8_lossy(self.text),
        })
    }

    fn text(&self, _: &Frame) -> String {
        String::from_utf8_lossy(self.text).into_owned()
    }
}

/// The end of the command as JSON.
struct Ended<'a> {
    of: &'a ExecStarted,
    exit_code: i64,
}

impl Show for Ended<'_> {
    fn json(&self) -> Value {
        json!({
            "replica": self.of.replica,
            "node": self.of.node,
            "exit_code": self.exit_code,
        })
    }

    fn text(&self, _: &Frame) -> String {
        String::new()
    }
}
