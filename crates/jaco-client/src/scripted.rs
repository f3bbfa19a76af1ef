//! A daemon that answers from a script, for tests of whoever asks one.
//!
//! It speaks the real protocol over a real socket and knows nothing of clusters: what it answers is
//! what the test says.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use jaco_proto::v1;
use jaco_proto::v1::cluster_server::{Cluster, ClusterServer};
use jaco_proto::v1::deploy_server::{Deploy, DeployServer};
use jaco_proto::v1::planner_server::{Planner, PlannerServer};
use jaco_proto::v1::query_server::{Query, QueryServer};
use jaco_types::{ErrorCode, Rejection};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Code, Request, Response, Status};

/// What a call is answered with.
pub type Answer<T> = Result<T, Rejection>;

/// Answers that keep coming, and what follows the last one.
#[derive(Debug, Clone)]
pub struct Feed<T> {
    /// The answers, all at once.
    pub items: Vec<T>,
    /// What follows them.
    pub then: Then,
}

/// What follows the last answer.
#[derive(Debug, Clone)]
pub enum Then {
    /// There are no more.
    End,
    /// Silence: the asker waits.
    Silence,
    /// A refusal.
    Refuse(Rejection),
}

impl<T> Feed<T> {
    /// These, and no more.
    #[must_use]
    pub fn of(items: Vec<T>) -> Self {
        Self { items, then: Then::End }
    }

    /// These, and then silence.
    #[must_use]
    pub fn open(items: Vec<T>) -> Self {
        Self { items, then: Then::Silence }
    }
}

macro_rules! script {
    ($($name:ident($request:ident) -> $answer:ty;)*) => {
        /// The script: what is not written is refused as `internal`.
        pub trait Script: Send + Sync + 'static {
            $(
                /// The answer to a call of this name. `who` is the caller's `authorization`.
                ///
                /// # Errors
                /// The refusal to answer with.
                fn $name(&self, request: v1::$request, who: Option<&str>) -> Answer<$answer> {
                    let message =
                        format!("{} is not in the script: {request:?}, {who:?}", stringify!($name));
                    Err(Rejection::new(ErrorCode::Internal, message))
                }
            )*
        }
    };
}

script! {
    init(InitRequest) -> v1::InitResponse;
    join_cluster(JoinClusterRequest) -> v1::JoinClusterResponse;
    admit_node(AdmitNodeRequest) -> v1::AdmitNodeResponse;
    cluster_status(ClusterStatusRequest) -> v1::ClusterStatusResponse;
    issue_join_token(IssueJoinTokenRequest) -> v1::IssueJoinTokenResponse;
    issue_operator_token(IssueOperatorTokenRequest) -> v1::IssueOperatorTokenResponse;
    revoke_operator_token(RevokeOperatorTokenRequest) -> v1::RevokeOperatorTokenResponse;
    list_tokens(ListTokensRequest) -> v1::ListTokensResponse;
    set_availability(SetAvailabilityRequest) -> v1::SetAvailabilityResponse;
    set_labels(SetLabelsRequest) -> v1::SetLabelsResponse;
    remove_node(RemoveNodeRequest) -> v1::RemoveNodeResponse;
    set_constraints(SetConstraintsRequest) -> v1::SetConstraintsResponse;
    get_constraints(GetConstraintsRequest) -> v1::GetConstraintsResponse;
    set_disabled(SetDisabledRequest) -> v1::SetDisabledResponse;
    get_disabled(GetDisabledRequest) -> v1::GetDisabledResponse;
    collect_volumes(CollectVolumesRequest) -> v1::CollectVolumesResponse;
    store_registry(StoreRegistryRequest) -> v1::StoreRegistryResponse;
    remove_registry(RemoveRegistryRequest) -> v1::RemoveRegistryResponse;
    list_registries(ListRegistriesRequest) -> v1::ListRegistriesResponse;
    allocations(AllocationsRequest) -> v1::AllocationsResponse;
    set_audit_retention(SetAuditRetentionRequest) -> v1::SetAuditRetentionResponse;
    apply(ApplyRequest) -> v1::ApplyResponse;
    delete(DeleteRequest) -> v1::DeleteResponse;
    explain(ExplainRequest) -> v1::ExplainResponse;
    whatif(WhatifRequest) -> v1::WhatifResponse;
    top(TopRequest) -> v1::TopResponse;
    rebalance(RebalanceRequest) -> v1::RebalanceResponse;
    missing_contents(MissingContentsRequest) -> v1::MissingContentsResponse;
    put_contents(PutContentsRequest) -> v1::PutContentsResponse;
    store_content(StoreContentRequest) -> v1::StoreContentResponse;
    remove_content(RemoveContentRequest) -> v1::RemoveContentResponse;
    list_contents(ListContentsRequest) -> v1::ListContentsResponse;
    rollback(RollbackRequest) -> v1::RollbackResponse;
    pin_revision(PinRevisionRequest) -> v1::PinRevisionResponse;
    history(HistoryRequest) -> v1::HistoryResponse;
    verify_audit(VerifyAuditRequest) -> v1::VerifyAuditResponse;
    node_facts(NodeFactsRequest) -> v1::NodeFactsResponse;
    examine(ExamineRequest) -> v1::ExamineResponse;
    status(StatusRequest) -> v1::StatusResponse;
    get_deployment(GetDeploymentRequest) -> v1::GetDeploymentResponse;
    watch(StatusRequest) -> Feed<v1::StatusResponse>;
    audit(AuditRequest) -> Feed<v1::AuditEvent>;
    logs(LogsRequest) -> Feed<v1::LogLine>;
    backup(BackupRequest) -> Feed<v1::BackupPart>;
}

/// A daemon that runs until it is dropped; its connections end with it. It has threads of its own,
/// so that a test may block.
#[derive(Debug)]
pub struct Running(Option<Runtime>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Listens on a unix socket.
///
/// # Panics
/// When the socket cannot be made.
pub fn listen(path: &Path, script: Arc<dyn Script>) -> Running {
    let runtime = runtime();
    let listener = {
        let _inside = runtime.enter();
        UnixListener::bind(path).expect("the socket's path is free")
    };
    run(runtime, UnixListenerStream::new(listener), script)
}

/// Answers on these connections.
pub fn serve<S, C>(connections: S, script: Arc<dyn Script>) -> Running
where
    S: Stream<Item = io::Result<C>> + Send + 'static,
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    run(runtime(), connections, script)
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("threads can be started")
}

fn run<S, C>(runtime: Runtime, connections: S, script: Arc<dyn Script>) -> Running
where
    S: Stream<Item = io::Result<C>> + Send + 'static,
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let server = Server::builder()
        .add_service(ClusterServer::new(Scripted(Arc::clone(&script))))
        .add_service(DeployServer::new(Scripted(Arc::clone(&script))))
        .add_service(PlannerServer::new(Scripted(Arc::clone(&script))))
        .add_service(QueryServer::new(Scripted(script)))
        .serve_with_incoming(connections.map(|connection| connection.map(Connection)));
    runtime.spawn(async move {
        server.await.expect("an open listener can be served");
    });
    Running(Some(runtime))
}

/// A connection of whatever kind; who is at its other end is not looked at.
struct Connection<C>(C);

impl<C> Connected for Connection<C> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl<C: AsyncRead + Unpin> AsyncRead for Connection<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(ctx, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Connection<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(ctx)
    }
}

struct Scripted(Arc<dyn Script>);

fn who<T>(request: &Request<T>) -> Option<String> {
    request.metadata().get("authorization")?.to_str().ok().map(str::to_owned)
}

fn status(rejection: &Rejection) -> Status {
    let error = v1::Error {
        code: rejection.code.as_str().to_owned(),
        message: rejection.message.clone(),
        details: rejection.details.clone().into_iter().collect(),
    };
    let details = error.encode_to_vec().into();
    Status::with_details(Code::FailedPrecondition, rejection.message.clone(), details)
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn stream<T: Send + 'static>(feed: Feed<T>) -> Answers<T> {
    let items = tokio_stream::iter(feed.items.into_iter().map(Ok));
    match feed.then {
        Then::End => Box::pin(items),
        Then::Silence => Box::pin(items.chain(tokio_stream::pending())),
        Then::Refuse(rejection) => {
            Box::pin(items.chain(tokio_stream::once(Err(status(&rejection)))))
        }
    }
}

macro_rules! service {
    (
        $service:ident;
        $($rpc:ident = $name:ident($request:ident) -> $answer:ident;)*
        $(; stream $feed:ident($asked:ident) -> $item:ident as $kind:ident)*
    ) => {
        #[tonic::async_trait]
        impl $service for Scripted {
            $(
                async fn $rpc(
                    &self,
                    request: Request<v1::$request>,
                ) -> Result<Response<v1::$answer>, Status> {
                    let who = who(&request);
                    let answer = self.0.$name(request.into_inner(), who.as_deref());
                    answer.map(Response::new).map_err(|rejection| status(&rejection))
                }
            )*
            $(
                type $kind = Answers<v1::$item>;

                async fn $feed(
                    &self,
                    request: Request<v1::$asked>,
                ) -> Result<Response<Self::$kind>, Status> {
                    let who = who(&request);
                    let feed = self.0.$feed(request.into_inner(), who.as_deref());
                    let feed = feed.map(|feed| Response::new(stream(feed)));
                    feed.map_err(|rejection| status(&rejection))
                }
            )*
        }
    };
}

service! {
    Deploy;
    apply = apply(ApplyRequest) -> ApplyResponse;
    delete = delete(DeleteRequest) -> DeleteResponse;
    missing_contents = missing_contents(MissingContentsRequest) -> MissingContentsResponse;
    put_contents = put_contents(PutContentsRequest) -> PutContentsResponse;
    store_content = store_content(StoreContentRequest) -> StoreContentResponse;
    remove_content = remove_content(RemoveContentRequest) -> RemoveContentResponse;
    list_contents = list_contents(ListContentsRequest) -> ListContentsResponse;
    rollback = rollback(RollbackRequest) -> RollbackResponse;
    pin_revision = pin_revision(PinRevisionRequest) -> PinRevisionResponse;
}

service! {
    Planner;
    explain = explain(ExplainRequest) -> ExplainResponse;
    whatif = whatif(WhatifRequest) -> WhatifResponse;
    top = top(TopRequest) -> TopResponse;
    rebalance = rebalance(RebalanceRequest) -> RebalanceResponse;
}

service! {
    Query;
    status = status(StatusRequest) -> StatusResponse;
    get_deployment = get_deployment(GetDeploymentRequest) -> GetDeploymentResponse;
    history = history(HistoryRequest) -> HistoryResponse;
    allocations = allocations(AllocationsRequest) -> AllocationsResponse;
    verify_audit = verify_audit(VerifyAuditRequest) -> VerifyAuditResponse;
    node_facts = node_facts(NodeFactsRequest) -> NodeFactsResponse;
    examine = examine(ExamineRequest) -> ExamineResponse;
    ; stream watch(StatusRequest) -> StatusResponse as WatchStream
    ; stream audit(AuditRequest) -> AuditEvent as AuditStream
    ; stream logs(LogsRequest) -> LogLine as LogsStream
    ; stream backup(BackupRequest) -> BackupPart as BackupStream
}

service! {
    Cluster;
    init = init(InitRequest) -> InitResponse;
    join_cluster = join_cluster(JoinClusterRequest) -> JoinClusterResponse;
    admit_node = admit_node(AdmitNodeRequest) -> AdmitNodeResponse;
    status = cluster_status(ClusterStatusRequest) -> ClusterStatusResponse;
    issue_join_token = issue_join_token(IssueJoinTokenRequest) -> IssueJoinTokenResponse;
    issue_operator_token =
        issue_operator_token(IssueOperatorTokenRequest) -> IssueOperatorTokenResponse;
    revoke_operator_token =
        revoke_operator_token(RevokeOperatorTokenRequest) -> RevokeOperatorTokenResponse;
    list_tokens = list_tokens(ListTokensRequest) -> ListTokensResponse;
    set_availability = set_availability(SetAvailabilityRequest) -> SetAvailabilityResponse;
    set_labels = set_labels(SetLabelsRequest) -> SetLabelsResponse;
    remove_node = remove_node(RemoveNodeRequest) -> RemoveNodeResponse;
    set_constraints = set_constraints(SetConstraintsRequest) -> SetConstraintsResponse;
    get_constraints = get_constraints(GetConstraintsRequest) -> GetConstraintsResponse;
    set_disabled = set_disabled(SetDisabledRequest) -> SetDisabledResponse;
    get_disabled = get_disabled(GetDisabledRequest) -> GetDisabledResponse;
    set_audit_retention =
        set_audit_retention(SetAuditRetentionRequest) -> SetAuditRetentionResponse;
    collect_volumes = collect_volumes(CollectVolumesRequest) -> CollectVolumesResponse;
    store_registry = store_registry(StoreRegistryRequest) -> StoreRegistryResponse;
    remove_registry = remove_registry(RemoveRegistryRequest) -> RemoveRegistryResponse;
    list_registries = list_registries(ListRegistriesRequest) -> ListRegistriesResponse;
}
