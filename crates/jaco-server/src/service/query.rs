//! What is wanted, what is there, and what happened. Answered by any node from its own state.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;
use jaco_proto::v1::query_server::Query;
use jaco_proto::v1::{self};
use jaco_state::ClusterState;
use jaco_store::Store;
use jaco_types::{DeploymentName, ErrorCode, NodeId, Rejection, Revision};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{Context, backup, collect, events, examine, facts, logs, revision, shipped};
use crate::member::Member;
use crate::status::{from_propose_error, invalid, to_status};
use crate::{allocation, view};

/// Answers that may wait for a slow reader before it is dropped back to the newest state.
const STREAM_BUFFER: usize = 16;

/// How long a reader waits for this node to have what it has seen elsewhere.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(5);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub struct QueryService {
    context: Context,
}

impl QueryService {
    /// The service over this context.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Query for QueryService {
    type WatchStream = Answers<v1::StatusResponse>;
    type AuditStream = Answers<v1::AuditEvent>;
    type LogsStream = Answers<v1::LogLine>;
    type BackupStream = Answers<v1::BackupPart>;

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let request = request.into_inner();
        if request.linearizable {
            let caught_up = member.store.catch_up().await;
            caught_up.map_err(|error| to_status(&from_propose_error(&error)))?;
        }
        wait_for_index(&member, request.min_index).await?;
        Ok(Response::new(answer(&member, &request)))
    }

    async fn watch(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let request = request.into_inner();
        wait_for_index(&member, request.min_index).await?;
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        tokio::spawn(watch(member, request, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn get_deployment(
        &self,
        request: Request<v1::GetDeploymentRequest>,
    ) -> Result<Response<v1::GetDeploymentResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let found = member.store.read(|state| get_deployment(state, request.get_ref()));
        found.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn history(
        &self,
        request: Request<v1::HistoryRequest>,
    ) -> Result<Response<v1::HistoryResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let found = member.store.read(|state| revision::history(state, request.get_ref()));
        found.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn allocations(
        &self,
        request: Request<v1::AllocationsRequest>,
    ) -> Result<Response<v1::AllocationsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let state = member.store.snapshot();
        let request = request.get_ref();
        let mut allocations = allocation::list(&state, request);
        let mut unreachable = HashMap::new();
        if request.with_removed {
            let left = collect::look(&member, &request.deployment).await;
            allocation::add_removed(&mut allocations, &state, request, &left);
            unreachable = left.unreachable;
        }
        Ok(Response::new(v1::AllocationsResponse { allocations, unreachable }))
    }

    async fn audit(
        &self,
        request: Request<v1::AuditRequest>,
    ) -> Result<Response<Self::AuditStream>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let filter =
            events::Filter::new(request.get_ref()).map_err(|rejection| to_status(&rejection))?;
        member.recovered().await;
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        tokio::spawn(events::send(member, request.into_inner(), filter, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn verify_audit(
        &self,
        request: Request<v1::VerifyAuditRequest>,
    ) -> Result<Response<v1::VerifyAuditResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let verified = events::verify(&member).map_err(|rejection| to_status(&rejection))?;
        // Whoever asked may look at the files next.
        member.store.archived().await;
        Ok(Response::new(verified))
    }

    async fn node_facts(
        &self,
        request: Request<v1::NodeFactsRequest>,
    ) -> Result<Response<v1::NodeFactsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let found = member.store.read(|state| facts::answer(state, &request.get_ref().hostname));
        found.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn examine(
        &self,
        request: Request<v1::ExamineRequest>,
    ) -> Result<Response<v1::ExamineResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let examined = examine::examine(&member, request.get_ref()).await;
        examined.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn logs(
        &self,
        request: Request<v1::LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let (member, _) = self.context.identify(&request)?;
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

/// Waits until this node's state is as new as the client has seen elsewhere, so that what it wrote
/// is in what it reads.
async fn wait_for_index(member: &Member, index: u64) -> Result<(), Status> {
    member.recovered().await;
    if index == 0 {
        return Ok(());
    }
    let mut applied = member.store.watch_index();
    let waited = applied.wait_for(|applied| applied.0 >= index);
    let waited = tokio::time::timeout(CATCH_UP_PATIENCE, waited).await;
    if matches!(waited, Ok(Ok(_))) {
        return Ok(());
    }
    let message = format!("this node has not caught up to index {index} within 5 s");
    Err(to_status(&Rejection::new(ErrorCode::QuorumLost, message)))
}

fn answer(member: &Member, request: &v1::StatusRequest) -> v1::StatusResponse {
    let raft = member.store.raft().status();
    let mut suffrage = BTreeMap::new();
    suffrage.extend(raft.learners.iter().map(|id| (NodeId(*id), "learner")));
    suffrage.extend(raft.voters.iter().map(|id| (NodeId(*id), "voter")));
    // Copied under the lock and looked at outside it: a large answer must not hold up `apply`.
    let state = member.store.snapshot();
    let mut answer = view::status(&state, request, &suffrage);
    answer.leader =
        raft.leader.map(|leader| view::hostname(&state, NodeId(leader.id))).unwrap_or_default();
    answer.answered_by = member.hostname.to_string();
    answer
}

/// Sends the answer each time it differs, until the reader goes away. Several changes between two
/// reads are one answer: a reader wants the newest, not all.
async fn watch(
    member: Arc<Member>,
    request: v1::StatusRequest,
    sender: mpsc::Sender<Result<v1::StatusResponse, Status>>,
) {
    let mut index = member.store.watch_index();
    let mut last: Option<v1::StatusResponse> = None;
    loop {
        index.borrow_and_update();
        let mut now = answer(&member, &request);
        let raft_index = std::mem::take(&mut now.raft_index);
        if last.as_ref() != Some(&now) {
            let message = v1::StatusResponse { raft_index, ..now.clone() };
            last = Some(now);
            if sender.send(Ok(message)).await.is_err() {
                return;
            }
        }
        let changed = tokio::select! {
            changed = index.changed() => changed.is_ok(),
            () = sender.closed() => false,
        };
        if !changed {
            return;
        }
    }
}

fn get_deployment(
    state: &ClusterState,
    request: &v1::GetDeploymentRequest,
) -> Result<v1::GetDeploymentResponse, Rejection> {
    let name = DeploymentName::new(&request.name).map_err(invalid)?;
    let not_found = |message: String| Rejection::new(ErrorCode::DeploymentNotFound, message);
    let deployment = state.deployments.get(&name);
    let deployment =
        deployment.ok_or_else(|| not_found(format!("there is no deployment {name}")))?;
    let revision = match request.revision {
        0 => deployment.revision,
        given => Revision(given),
    };
    let record = deployment.revisions.get(&revision);
    let record = record.ok_or_else(|| {
        not_found(format!("deployment {name} has no revision {revision} any more"))
    })?;
    let files = shipped::files(&record.spec);
    Ok(v1::GetDeploymentResponse {
        name: name.to_string(),
        revision: revision.0,
        revisions: deployment.revisions.keys().map(|revision| revision.0).collect(),
        compose_json: record.spec.compose.to_string(),
        overlay_yaml: record.spec.overlay.to_string(),
        environment_toml: record.spec.environment.to_string(),
        applied_at_ms: view::millis(record.applied_at),
        applied_by: record.applied_by.to_string(),
        binds: files.binds,
        configs: files.configs,
        secrets: files.secrets,
    })
}
