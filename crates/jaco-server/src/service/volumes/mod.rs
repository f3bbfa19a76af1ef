//! The services for volumes: which there are, and what is in them, from whichever node has them and to it (ADR 0136).

mod content;
mod demand;
mod list;
mod moving;
mod place;

use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;
use jaco_proto::v1;
use jaco_proto::v1::volume_input::Input;
use jaco_proto::v1::volume_writes_server::VolumeWrites;
use jaco_proto::v1::volumes_server::Volumes;
use tonic::{Request, Response, Status, Streaming};

use super::context::{Context, on_leader};
use super::exec::first;
use crate::status::{invalid, to_status};

/// A stream of responses.
type Answers = Pin<Box<dyn Stream<Item = Result<v1::VolumeOutput, Status>> + Send>>;

/// The service for reads.
#[derive(Debug)]
pub(crate) struct VolumesService {
    context: Context,
}

impl VolumesService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Volumes for VolumesService {
    jaco_proto::leader_methods!(Volumes, on_leader);

    type ReadVolumeStream = Answers;

    async fn list_volumes(
        &self,
        request: Request<v1::ListVolumesRequest>,
    ) -> Result<Response<v1::ListVolumesResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let listed = list::list(&member, request.get_ref()).await;
        listed.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn read_volume(
        &self,
        request: Request<v1::ReadVolumeRequest>,
    ) -> Result<Response<Answers>, Status> {
        let (member, by) = self.context.identify(&request)?;
        content::read(&member, by, request.into_inner()).await.map(Response::new)
    }

    async fn plan_volume_move(
        &self,
        request: Request<v1::PlanVolumeMoveRequest>,
    ) -> Result<Response<v1::PlanVolumeMoveResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let plan = moving::plan(&member, request.get_ref()).await;
        plan.map(Response::new).map_err(|rejection| to_status(&rejection))
    }
}

/// The service for writes.
#[derive(Debug)]
pub(crate) struct VolumeWritesService {
    context: Context,
}

impl VolumeWritesService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl VolumeWrites for VolumeWritesService {
    type WriteVolumeStream = Answers;

    async fn write_volume(
        &self,
        request: Request<Streaming<v1::VolumeInput>>,
    ) -> Result<Response<Answers>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let mut inputs = request.into_inner();
        let Some(Input::Start(start)) = first(&mut inputs).await?.input else {
            return Err(to_status(&invalid("the first message of this stream must be `start`")));
        };
        content::write(&member, by, start, inputs).await.map(Response::new)
    }
}
