//! Commands: validates them, audits them before they run, and relays their input and output.

use std::sync::Arc;

use futures::{StreamExt, stream};
use jaco_agent::exec::{
    BesideRequest, ExecInput, ExecInputs, ExecOutput, ExecRequest, Stdin, TerminalSize,
};
use jaco_proto::v1;
use jaco_proto::v1::exec_input::Input;
use jaco_proto::v1::exec_output::Output;
use jaco_state::audit::AuditKind;
use jaco_types::{Author, ErrorCode, Rejection};
use tonic::{Request, Status, Streaming};

use super::target::{Place, moved};
use super::{Answers, joined};
use crate::member::Member;
use crate::status::{invalid, to_status};

/// Maximum size of a command with its arguments and variables, a little below the limit of the kernel.
const COMMAND_BYTES_MAX: usize = 128 << 10;

/// Which container a command runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    /// The replica's.
    Replica,
    /// One of its own, beside the replica's.
    Own,
}

/// A command that is about to be started.
pub(super) struct Command {
    start: v1::ExecStart,
    request: BesideRequest,
    container: Container,
    place: Place,
}

impl Command {
    /// Validates the request, finds the instance, and audits the command.
    pub(super) async fn begin(
        member: &Member,
        by: Author,
        start: v1::ExecStart,
        container: Container,
    ) -> Result<Self, Rejection> {
        let entrypoint = (!start.entrypoint.is_empty()).then(|| start.entrypoint.clone());
        if container == Container::Replica && entrypoint.is_some() {
            // It would be audited as what runs.
            return Err(invalid("a command in the replica's container has no entry point"));
        }
        let request = BesideRequest { command: request(&start)?, entrypoint };
        let place = Place::of(member, &by, &start.replica).await?;
        // Without its arguments, which may be secret.
        let program = match &request.entrypoint {
            Some(entrypoint) => entrypoint,
            None => &request.command.command[0],
        };
        let own = if container == Container::Own { "own" } else { "" };
        let facts = [("program", program.as_str()), ("user", &start.user), ("container", own)];
        place.audit(member, by, AuditKind::ExecStarted, &facts).await?;
        Ok(Self { start, request, container, place })
    }

    pub(super) async fn carry(
        self,
        member: &Arc<Member>,
        inputs: Streaming<v1::ExecInput>,
    ) -> Result<Answers<v1::ExecOutput>, Status> {
        if self.place.is_here(member) {
            self.here(member, inputs).await
        } else {
            self.there(member, inputs).await
        }
    }

    /// Runs it on this node.
    async fn here(
        self,
        member: &Member,
        inputs: Streaming<v1::ExecInput>,
    ) -> Result<Answers<v1::ExecOutput>, Status> {
        let instance = &self.place.instance;
        let inputs = decode_inputs(inputs);
        let outputs = match self.container {
            Container::Replica => member.agent.exec(instance, &self.request.command, inputs).await,
            Container::Own => member.agent.run_beside(instance, &self.request, inputs).await,
        };
        let refused = |message: String| to_status(&Rejection::new(ErrorCode::EngineError, message));
        let outputs = outputs.map_err(|error| {
            refused(format!(
                "the command could not be started {} replica {}: {error}",
                self.container.preposition(),
                self.start.replica
            ))
        })?;
        let outputs = outputs.ok_or_else(|| to_status(&moved(&self.start.replica)))?;
        let started =
            v1::ExecStarted { replica: self.start.replica, node: member.hostname.to_string() };
        let outputs = outputs.map(move |output| match output {
            Ok(output) => Ok(message(output)),
            Err(error) => Err(refused(format!("the output of the command was lost: {error}"))),
        });
        let first = v1::ExecOutput { output: Some(Output::Started(started)) };
        Ok(Box::pin(stream::iter([Ok(first)]).chain(outputs)))
    }

    /// Runs it on the node that has the container. If the client disconnects, the command loses its input, as it does
    /// on this node.
    async fn there(
        self,
        member: &Member,
        inputs: Streaming<v1::ExecInput>,
    ) -> Result<Answers<v1::ExecOutput>, Status> {
        let mut client = self.place.exec_client(member)?;
        let first = v1::ExecInput { input: Some(Input::Start(self.start)) };
        let request = Request::new(joined(first, inputs));
        let answer = match self.container {
            Container::Replica => client.run(request).await,
            Container::Own => client.run_beside(request).await,
        };
        let answer = answer.map_err(|status| self.place.unreachable(member, &status))?;
        Ok(Box::pin(answer.into_inner()))
    }
}

impl Container {
    fn preposition(self) -> &'static str {
        match self {
            Self::Replica => "in",
            Self::Own => "beside",
        }
    }
}

/// Validates a request.
fn request(start: &v1::ExecStart) -> Result<ExecRequest, Rejection> {
    if start.command.first().is_none_or(String::is_empty) {
        return Err(invalid("no command is given"));
    }
    let texts = || start.command.iter().chain(&start.environment).chain([&start.entrypoint]);
    let bytes: usize = texts().map(String::len).sum();
    if bytes > COMMAND_BYTES_MAX {
        let message =
            format!("the command has {bytes} bytes, more than the maximum of {COMMAND_BYTES_MAX}");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    if texts().any(|text| text.contains('\0')) {
        return Err(invalid("the command contains a NUL character"));
    }
    let wrong = start
        .environment
        .iter()
        .find(|pair| pair.split_once('=').is_none_or(|(key, _)| key.is_empty()));
    if wrong.is_some() {
        // Not shown: it may be a secret without its key.
        return Err(invalid("an environment variable is not KEY=value"));
    }
    let named = |text: &String| (!text.is_empty()).then(|| text.clone());
    Ok(ExecRequest {
        command: start.command.clone(),
        environment: start.environment.clone(),
        user: named(&start.user),
        working_dir: named(&start.working_dir),
        stdin: if start.stdin { Stdin::Sent } else { Stdin::None },
        terminal: start.terminal.map(size).transpose()?,
    })
}

fn size(size: v1::TerminalSize) -> Result<TerminalSize, Rejection> {
    match (u16::try_from(size.columns), u16::try_from(size.rows)) {
        (Ok(columns), Ok(rows)) => Ok(TerminalSize { columns, rows }),
        _ => Err(invalid("a terminal has at most 65535 columns and rows")),
    }
}

/// Decodes input until the end of the stream. Unknown messages are skipped.
fn decode_inputs(inputs: Streaming<v1::ExecInput>) -> ExecInputs {
    let read = inputs.take_while(|input| std::future::ready(input.is_ok())).filter_map(|input| {
        let input = input.ok().and_then(|input| input.input);
        std::future::ready(input.and_then(|input| match input {
            Input::Stdin(bytes) => Some(ExecInput::Stdin(bytes.to_vec())),
            Input::StdinEnd(v1::ExecStdinEnd {}) => Some(ExecInput::StdinEnd),
            Input::Resize(to) => size(to).ok().map(ExecInput::Resize),
            // Only the first message starts a command.
            Input::Start(_) => None,
        }))
    });
    read.boxed()
}

fn message(output: ExecOutput) -> v1::ExecOutput {
    let output = match output {
        ExecOutput::Stdout(bytes) => Output::Stdout(bytes.into()),
        ExecOutput::Stderr(bytes) => Output::Stderr(bytes.into()),
        ExecOutput::Exited(exit_code) => Output::Ended(v1::ExecEnded { exit_code }),
    };
    v1::ExecOutput { output: Some(output) }
}
