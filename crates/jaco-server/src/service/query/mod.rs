//! The query service: reads of the desired and the observed state, and of audit events. Any node answers from its
//! own state.

mod audit;
pub(crate) mod backup;
mod deployment;
mod earlier;
mod examine;
mod feed;
mod logs;
mod network;
mod node_facts;
mod overview;
mod parts;
mod path;
pub(crate) mod shared;
mod support;
mod uploads;

use std::collections::HashMap;
use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;
use jaco_proto::v1;
use jaco_proto::v1::query_server::Query;
use jaco_store::Store;
use jaco_types::DeploymentName;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::cluster::volumes;
use super::context::Context;
use super::deploy::revision;
use crate::auth::permission::Concern;
use crate::status::{invalid, to_status};
use crate::view::{allocation, job};

/// How many responses are queued for a slow reader.
const STREAM_BUFFER: usize = 16;

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub(crate) struct QueryService {
    context: Context,
}

impl QueryService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Query for QueryService {
    type OverviewStream = Responses<v1::StatusResponse>;
    type WatchStream = Responses<v1::StatusResponse>;
    type AuditStream = Responses<v1::AuditEvent>;
    type LogsStream = Responses<v1::LogLine>;
    type BackupStream = Responses<v1::BackupPart>;

    /// Served by [`shared::SharedStatus`], as is `watch`.
    async fn overview(
        &self,
        _: Request<v1::StatusRequest>,
    ) -> Result<Response<Self::OverviewStream>, Status> {
        Err(Status::unimplemented("answers of a status are shared"))
    }

    async fn watch(
        &self,
        _: Request<v1::StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("answers of a status are shared"))
    }

    async fn get_deployment(
        &self,
        request: Request<v1::GetDeploymentRequest>,
    ) -> Result<Response<v1::GetDeploymentResponse>, Status> {
        let (member, by) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let rights = member.rights(&by).map_err(|rejection| to_status(&rejection))?;
        let found = member.store.read(|state| deployment::get(state, &rights, request.get_ref()));
        found.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn history(
        &self,
        request: Request<v1::HistoryRequest>,
    ) -> Result<Response<v1::HistoryResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let found = member.store.read(|state| revision::history(state, request.get_ref()));
        found.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn jobs(
        &self,
        request: Request<v1::JobsRequest>,
    ) -> Result<Response<v1::JobsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let jobs = member.store.read(|state| job::list(state, request.get_ref()));
        Ok(Response::new(jobs))
    }

    async fn allocations(
        &self,
        request: Request<v1::AllocationsRequest>,
    ) -> Result<Response<v1::AllocationsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let state = member.store.snapshot();
        let request = request.get_ref();
        let mut allocations = allocation::list(&state, request);
        let mut unreachable = HashMap::new();
        if request.with_removed {
            let removed = volumes::look(&member, &request.deployment).await;
            allocation::add_removed(&mut allocations, &state, request, &removed);
            unreachable = removed.unreachable;
        }
        Ok(Response::new(v1::AllocationsResponse { allocations, unreachable }))
    }

    async fn audit(
        &self,
        request: Request<v1::AuditRequest>,
    ) -> Result<Response<Self::AuditStream>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let filter =
            audit::Filter::new(request.get_ref()).map_err(|rejection| to_status(&rejection))?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        tokio::spawn(audit::send(member, request.into_inner(), filter, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn verify_audit(
        &self,
        request: Request<v1::VerifyAuditRequest>,
    ) -> Result<Response<v1::VerifyAuditResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let verified = audit::verify(&member).map_err(|rejection| to_status(&rejection))?;
        // The user may verify the archive next.
        member.store.archived().await;
        Ok(Response::new(verified))
    }

    async fn node_facts(
        &self,
        request: Request<v1::NodeFactsRequest>,
    ) -> Result<Response<v1::NodeFactsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let found =
            member.store.read(|state| node_facts::answer(state, &request.get_ref().hostname));
        found.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn support_files(
        &self,
        request: Request<v1::SupportFilesRequest>,
    ) -> Result<Response<v1::SupportFilesResponse>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let files = support::files(&member, &by, request.get_ref()).await;
        files.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn examine(
        &self,
        request: Request<v1::ExamineRequest>,
    ) -> Result<Response<v1::ExamineResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let examined = examine::examine(&member, request.get_ref()).await;
        examined.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn examine_network(
        &self,
        request: Request<v1::ExamineNetworkRequest>,
    ) -> Result<Response<v1::ExamineNetworkResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        Ok(Response::new(network::examine(&member).await))
    }

    async fn explain_path(
        &self,
        request: Request<v1::ExplainPathRequest>,
    ) -> Result<Response<v1::ExplainPathResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let explained = path::explain(&member, request.get_ref()).await;
        explained.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn logs(
        &self,
        request: Request<v1::LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let (member, by) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let deployment = DeploymentName::new(&request.get_ref().deployment);
        let deployment = deployment.map_err(|error| to_status(&invalid(error)))?;
        let admitted = member.admit(&by, [Concern::Deployment(&deployment)]);
        admitted.map_err(|rejection| to_status(&rejection))?;
        let lines = logs::collect(member, request.into_inner());
        let lines = lines.map_err(|rejection| to_status(&rejection))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(lines))))
    }

    async fn backup(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let parts = backup::take(member, by).await.map_err(|rejection| to_status(&rejection))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(parts))))
    }
}
