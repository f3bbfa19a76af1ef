//! The exec service: finds the node that has a container, audits what is asked for, and relays it there: commands, copies
//! of files, and connections to ports (ADR 0067, 0130).

mod announced;
mod copy;
mod forward;
mod run;
mod target;

use std::future::ready;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, StreamExt, stream};
use jaco_proto::v1;
use jaco_proto::v1::exec_server::Exec;
use jaco_proto::v1::{copy_input, exec_input, forward_input};
use jaco_types::Rejection;
use tonic::{Request, Response, Status, Streaming};

use self::announced::Announced;
use self::copy::Copy;
use self::forward::Forward;
use self::run::{Command, Container};
use super::context::Context;
use crate::status::{invalid, to_status};

/// Deadline of the first message, which is sent with the call.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// Maximum size of an input message: 1 MiB of input, or the command.
pub(crate) const INPUT_BYTES_MAX: usize = (1 << 20) + (1 << 10);

/// A stream of responses.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub(crate) struct ExecService {
    context: Context,
    announced: Announced,
}

impl ExecService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context, announced: Announced::default() }
    }

    async fn command(
        &self,
        request: Request<Streaming<v1::ExecInput>>,
        container: Container,
    ) -> Result<Response<Answers<v1::ExecOutput>>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let mut inputs = request.into_inner();
        let Some(exec_input::Input::Start(start)) = first(&mut inputs).await?.input else {
            return Err(no_start());
        };
        let command = Command::begin(&member, by, start, container).await.map_err(status)?;
        command.carry(&member, inputs).await.map(Response::new)
    }
}

#[async_trait]
impl Exec for ExecService {
    type RunStream = Answers<v1::ExecOutput>;
    type RunBesideStream = Answers<v1::ExecOutput>;
    type CopyStream = Answers<v1::CopyOutput>;
    type ForwardStream = Answers<v1::ForwardOutput>;

    async fn run(
        &self,
        request: Request<Streaming<v1::ExecInput>>,
    ) -> Result<Response<Self::RunStream>, Status> {
        self.command(request, Container::Replica).await
    }

    async fn run_beside(
        &self,
        request: Request<Streaming<v1::ExecInput>>,
    ) -> Result<Response<Self::RunBesideStream>, Status> {
        self.command(request, Container::Own).await
    }

    async fn copy(
        &self,
        request: Request<Streaming<v1::CopyInput>>,
    ) -> Result<Response<Self::CopyStream>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let mut inputs = request.into_inner();
        let Some(copy_input::Input::Start(start)) = first(&mut inputs).await?.input else {
            return Err(no_start());
        };
        let copy = Copy::begin(&member, by, start).await.map_err(status)?;
        copy.carry(&member, inputs).await.map(Response::new)
    }

    async fn forward(
        &self,
        request: Request<Streaming<v1::ForwardInput>>,
    ) -> Result<Response<Self::ForwardStream>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let mut inputs = request.into_inner();
        let Some(forward_input::Input::Start(start)) = first(&mut inputs).await?.input else {
            return Err(no_start());
        };
        let forward = Forward::begin(&member, by, start, &self.announced).await;
        forward.map_err(status)?.carry(&member, inputs).await.map(Response::new)
    }
}

/// The first message of a stream.
pub(super) async fn first<T: Default>(inputs: &mut Streaming<T>) -> Result<T, Status> {
    let first = tokio::time::timeout(FIRST_MESSAGE, inputs.message()).await;
    let first = first
        .map_err(|_| Status::deadline_exceeded("no message was received before the deadline"))??;
    Ok(first.unwrap_or_default())
}

fn no_start() -> Status {
    to_status(&invalid("the first message of this stream must be `start`"))
}

fn status(rejection: Rejection) -> Status {
    to_status(&rejection)
}

/// The messages of a stream that goes on to another node, until the sender is gone.
pub(super) fn joined<T: Send + 'static>(
    first: T,
    rest: Streaming<T>,
) -> impl Stream<Item = T> + Send {
    let rest = rest.take_while(|input| ready(input.is_ok()));
    stream::iter([first]).chain(rest.filter_map(|input| ready(input.ok())))
}
