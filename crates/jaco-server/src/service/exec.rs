//! The exec service: finds the node that has the container, audits the command, and relays input and output.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, StreamExt, stream};
use jaco_agent::exec::{ExecInput, ExecInputs, ExecOutput, ExecRequest, Stdin, TerminalSize};
use jaco_proto::v1;
use jaco_proto::v1::exec_input::Input;
use jaco_proto::v1::exec_output::Output;
use jaco_proto::v1::exec_server::Exec;
use jaco_state::ClusterState;
use jaco_state::audit::AuditKind;
use jaco_types::{
    Author, Completion, DeploymentName, DesiredState, ErrorCode, Identity, InstanceId, NodeId,
    Rejection, ReplicaState, Slot,
};
use tonic::{Request, Response, Status, Streaming};

use super::audit_action::audit;
use super::context::Context;
use crate::auth::permission::Concern;
use crate::member::Member;
use crate::status::{from_status, invalid, to_status};
use crate::view::hostname;

/// Deadline of the first message, which is sent with the call.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// Maximum size of a command with its arguments and variables, a little below the limit of the kernel.
const COMMAND_BYTES_MAX: usize = 128 << 10;

/// Maximum size of an input message: 1 MiB of input, or the command.
pub(crate) const INPUT_BYTES_MAX: usize = (1 << 20) + (1 << 10);

type Outputs = Pin<Box<dyn Stream<Item = Result<v1::ExecOutput, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub(crate) struct ExecService {
    context: Context,
}

impl ExecService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Exec for ExecService {
    type RunStream = Outputs;

    async fn run(
        &self,
        request: Request<Streaming<v1::ExecInput>>,
    ) -> Result<Response<Self::RunStream>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let mut inputs = request.into_inner();
        let first = tokio::time::timeout(FIRST_MESSAGE, inputs.message()).await;
        let first = first.map_err(|_| {
            Status::deadline_exceeded("no message was received before the deadline")
        })??;
        let Some(v1::ExecInput { input: Some(Input::Start(start)) }) = first else {
            return Err(to_status(&invalid("the first message of an exec stream must be `start`")));
        };
        let session = Session::begin(&member, by, start).await;
        let session = session.map_err(|rejection| to_status(&rejection))?;
        session.carry(&member, inputs).await.map(Response::new)
    }
}

/// A command that is about to be started.
struct Session {
    start: v1::ExecStart,
    request: ExecRequest,
    instance: InstanceId,
    node: NodeId,
}

impl Session {
    /// Validates the request, finds the instance, and audits the command.
    async fn begin(member: &Member, by: Author, start: v1::ExecStart) -> Result<Self, Rejection> {
        let request = request(&start)?;
        member.caught_up().await?;
        let deployment = member.store.read(|state| deployment_of(state, &start.replica))?;
        member.admit(&by, [Concern::Deployment(&deployment)])?;
        let (instance, node) = member.store.read(|state| find(state, &start.replica))?;
        match by.by {
            // Audited by the member that received the request.
            Identity::Node { .. } if node == member.id => {}
            Identity::Node { .. } => return Err(moved(&start.replica)),
            Identity::Local { .. }
            | Identity::Operator { .. }
            | Identity::Scheduler
            | Identity::Anonymous => {
                let on = member.store.read(|state| hostname(state, node));
                let facts = [
                    ("node", on.as_str()),
                    // Without its arguments, which may be secret.
                    ("program", &request.command[0]),
                    ("replica", &start.replica),
                    ("user", &start.user),
                ];
                let facts = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
                let payload = facts.map(|(name, fact)| (name.to_owned(), fact.to_owned()));
                audit(member, by, AuditKind::ExecStarted, payload.collect()).await?;
            }
        }
        Ok(Self { start, request, instance, node })
    }

    async fn carry(
        self,
        member: &Arc<Member>,
        inputs: Streaming<v1::ExecInput>,
    ) -> Result<Outputs, Status> {
        if self.node == member.id {
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
    ) -> Result<Outputs, Status> {
        let outputs = member.agent.exec(&self.instance, &self.request, decode_inputs(inputs)).await;
        let refused = |message: String| to_status(&Rejection::new(ErrorCode::EngineError, message));
        let outputs = outputs.map_err(|error| {
            refused(format!(
                "the command could not be started in replica {}: {error}",
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

    /// Runs it on the node that has the container.
    async fn there(
        self,
        member: &Member,
        inputs: Streaming<v1::ExecInput>,
    ) -> Result<Outputs, Status> {
        let node = self.node;
        let known = member.store.read(|state| {
            state.nodes.get(&node).map(|node| (node.hostname.to_string(), node.address.clone()))
        });
        let (name, address) = known.ok_or_else(|| to_status(&moved(&self.start.replica)))?;
        let first = v1::ExecInput { input: Some(Input::Start(self.start)) };
        // If the client disconnects, the command loses its input, as it does on this node.
        let rest = inputs.take_while(|input| std::future::ready(input.is_ok()));
        let rest = rest.filter_map(|input| std::future::ready(input.ok()));
        let sent = Request::new(stream::iter([first]).chain(rest));
        let answer = member.peers.exec(node, &address).run(sent).await.map_err(|status| {
            let mut refusal = from_status(&status);
            if refusal.code == ErrorCode::Unavailable {
                let why = refusal.message;
                refusal.message =
                    format!("node {name}, which has the replica, cannot be reached: {why}");
            }
            to_status(&refusal)
        })?;
        Ok(Box::pin(answer.into_inner()))
    }
}

/// Validates a request.
fn request(start: &v1::ExecStart) -> Result<ExecRequest, Rejection> {
    if start.command.first().is_none_or(String::is_empty) {
        return Err(invalid("no command is given"));
    }
    let texts = || start.command.iter().chain(&start.environment);
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

fn slot<'s>(state: &'s ClusterState, replica: &str) -> Result<&'s Slot, Rejection> {
    let slot = state.slots.values().find(|slot| slot.id.as_str() == replica);
    slot.ok_or_else(|| {
        let message = format!("there is no replica {replica:?}");
        Rejection::new(ErrorCode::ReplicaNotFound, message)
    })
}

fn deployment_of(state: &ClusterState, replica: &str) -> Result<DeploymentName, Rejection> {
    Ok(slot(state, replica)?.service.deployment.clone())
}

/// The running instance of a replica and its node. Of two instances during a rollout, the newer one.
fn find(state: &ClusterState, replica: &str) -> Result<(InstanceId, NodeId), Rejection> {
    let slot = slot(state, replica)?;
    let mut instances: Vec<_> = slot.instances().collect();
    instances.sort_by_key(|(id, _)| std::cmp::Reverse(id.raft_index));
    let running = instances.iter().find(|(id, _)| is_up(state, id));
    let running = running.map(|(id, instance)| (id.clone(), instance.node));
    running.ok_or_else(|| {
        let newest = instances.first().and_then(|(id, _)| state.observed.get(id));
        let seen = newest.map_or(ReplicaState::Pending, |seen| seen.state);
        let is = match slot.desired_state {
            DesiredState::Disabled => "disabled",
            DesiredState::Active => seen.as_str(),
            DesiredState::Finished(Completion::Succeeded) => "completed",
            DesiredState::Finished(Completion::Failed) => "failed",
        };
        let message = format!("replica {replica} is {is} and has no running container");
        Rejection::new(ErrorCode::ReplicaNotRunning, message)
    })
}

/// Whether an instance has a running container.
fn is_up(state: &ClusterState, id: &InstanceId) -> bool {
    state.observed.get(id).is_some_and(|seen| match seen.state {
        ReplicaState::Starting | ReplicaState::Running | ReplicaState::Degraded => true,
        ReplicaState::Pending
        | ReplicaState::Pulling
        | ReplicaState::Failed
        | ReplicaState::Stopped
        | ReplicaState::Completed => false,
    })
}

fn moved(replica: &str) -> Rejection {
    let message =
        format!("replica {replica} has just terminated or moved to another node: try again");
    Rejection::new(ErrorCode::ReplicaNotRunning, message)
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
