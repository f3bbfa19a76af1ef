//! The deploy service: deployments and the contents that they refer to.

mod apply;
pub(super) mod contents;
mod job;
mod named;
mod preview;
mod read_content;
pub(super) mod revision;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_proto::v1::deploy_server::Deploy;
use jaco_store::Store;
use tonic::{Request, Response, Status};

use super::context::{Context, on_leader};
use crate::status::to_status;

/// The service.
#[derive(Debug)]
pub(crate) struct DeployService {
    context: Context,
}

impl DeployService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Deploy for DeployService {
    jaco_proto::leader_methods!(Deploy, on_leader);

    async fn missing_contents(
        &self,
        request: Request<v1::MissingContentsRequest>,
    ) -> Result<Response<v1::MissingContentsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let missing = contents::missing(&member, request.into_inner());
        missing.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn list_contents(
        &self,
        request: Request<v1::ListContentsRequest>,
    ) -> Result<Response<v1::ListContentsResponse>, Status> {
        let (member, by) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let rights = member.rights(&by).map_err(|rejection| to_status(&rejection))?;
        // Reads specs of containers, which would hold up who writes.
        let listed = named::list(&member.store.snapshot(), &rights, request.get_ref());
        listed.map(Response::new).map_err(|rejection| to_status(&rejection))
    }
}
