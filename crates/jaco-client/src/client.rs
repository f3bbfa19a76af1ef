//! The calls. Each finds a node that answers, waits out a change of leader, and gives up in time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::planner_client::PlannerClient;
use jaco_proto::v1::query_client::QueryClient;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use zeroize::Zeroizing;

use crate::connect::connect;
use crate::error::ClientError;
use crate::events::Events;
use crate::retry::{Backoff, Met, Patience, is_passing};
use crate::stream::Answers;
use crate::target::{Endpoint, Target};

/// The largest answer that is taken: a status of thousands of replicas.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How far a connection got, so that nobody is waited for who never was there.
const NEVER: usize = usize::MAX;

/// A cluster to ask. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    nodes: Arc<[Node]>,
    /// The node that answered last, or [`NEVER`].
    answered: Arc<AtomicUsize>,
    authorization: Option<MetadataValue<Ascii>>,
}

struct Node {
    endpoint: Endpoint,
    channel: Mutex<Option<Channel>>,
}

/// A call that can be made again: the same request over whichever connection.
struct Call<'c, F> {
    client: &'c Client,
    patience: Patience,
    send: F,
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident: $service:ident($request:ident) -> $answer:ident, $patience:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// The cluster's refusal, or why nobody answered.
            pub async fn $name(&self, request: v1::$request) -> Result<v1::$answer, ClientError> {
                let send = |channel, request: Request<v1::$request>| async move {
                    let mut client = $service::new(channel)
                        .max_decoding_message_size(ANSWER_BYTES_MAX);
                    client.$name(request).await
                };
                let call = Call { client: self, patience: Patience::$patience, send };
                Box::pin(call.run(request)).await.map(|(_, answer)| answer)
            }
        )*
    };
}

macro_rules! streaming {
    ($($(#[$doc:meta])* $name:ident: $service:ident($request:ident) -> $answer:ident;)*) => {
        $(
            $(#[$doc])*
            /// Its beginning is waited for as a call is; what follows takes as long as it takes.
            ///
            /// # Errors
            /// The cluster's refusal, or why nobody answered.
            pub async fn $name(
                &self,
                request: v1::$request,
            ) -> Result<Answers<v1::$answer>, ClientError> {
                let send = |channel, request: Request<v1::$request>| async move {
                    let mut client = $service::new(channel)
                        .max_decoding_message_size(ANSWER_BYTES_MAX);
                    let answer: Result<Response<Streaming<v1::$answer>>, Status> =
                        client.$name(request).await;
                    answer
                };
                let call = Call { client: self, patience: Patience::SHORT, send };
                let (endpoint, inner) = Box::pin(call.run(request)).await?;
                Ok(Answers { endpoint, inner })
            }
        )*
    };
}

impl Client {
    /// Nothing is connected before the first call.
    #[must_use]
    pub fn new(target: Target) -> Self {
        let node = |endpoint| Node { endpoint, channel: Mutex::new(None) };
        let authorization = target.token.map(|token| {
            let text = Zeroizing::new(format!("Bearer {}", *token.reveal()));
            let value = MetadataValue::try_from(text.as_str());
            let mut value = value.expect("a token is made of letters, digits and dots");
            value.set_sensitive(true);
            value
        });
        Self {
            nodes: target.endpoints.into_iter().map(node).collect(),
            answered: Arc::new(AtomicUsize::new(NEVER)),
            authorization,
        }
    }

    unary! {
        /// Makes a cluster of the one node that is asked.
        init: ClusterClient(InitRequest) -> InitResponse, LONG;
        /// Makes the node that is asked join a cluster.
        join_cluster: ClusterClient(JoinClusterRequest) -> JoinClusterResponse, LONG;
        /// What the asked node knows of its cluster.
        status: ClusterClient(ClusterStatusRequest) -> ClusterStatusResponse, SHORT;
        /// Makes a token that lets nodes in.
        issue_join_token: ClusterClient(IssueJoinTokenRequest) -> IssueJoinTokenResponse, SHORT;
        /// Makes a token that lets a person in.
        issue_operator_token: ClusterClient(IssueOperatorTokenRequest) -> IssueOperatorTokenResponse, SHORT;
        /// Makes an operator token worthless.
        revoke_operator_token: ClusterClient(RevokeOperatorTokenRequest) -> RevokeOperatorTokenResponse, SHORT;
        /// The tokens that were issued, without their secrets.
        list_tokens: ClusterClient(ListTokensRequest) -> ListTokensResponse, SHORT;
        /// Says whether a node may take replicas.
        set_availability: ClusterClient(SetAvailabilityRequest) -> SetAvailabilityResponse, SHORT;
        /// Gives a node labels, or takes back some that people gave.
        set_labels: ClusterClient(SetLabelsRequest) -> SetLabelsResponse, SHORT;
        /// Asks something of the nodes of every service that does not ask it itself.
        set_constraints: ClusterClient(SetConstraintsRequest) -> SetConstraintsResponse, SHORT;
        /// What is asked so.
        get_constraints: ClusterClient(GetConstraintsRequest) -> GetConstraintsResponse, SHORT;
        /// Lets allocations rest, or run again.
        set_disabled: ClusterClient(SetDisabledRequest) -> SetDisabledResponse, SHORT;
        /// What rests so.
        get_disabled: ClusterClient(GetDisabledRequest) -> GetDisabledResponse, SHORT;
        /// Removes the volumes that removed allocations left.
        collect_volumes: ClusterClient(CollectVolumesRequest) -> CollectVolumesResponse, LONG;
        /// Says who the cluster is at an image registry.
        store_registry: ClusterClient(StoreRegistryRequest) -> StoreRegistryResponse, SHORT;
        /// Makes it nobody there.
        remove_registry: ClusterClient(RemoveRegistryRequest) -> RemoveRegistryResponse, SHORT;
        /// Who it is where, without passwords.
        list_registries: ClusterClient(ListRegistriesRequest) -> ListRegistriesResponse, SHORT;
        /// What services have on nodes.
        allocations: QueryClient(AllocationsRequest) -> AllocationsResponse, SHORT;
        /// Says how long audit events are kept, or asks.
        set_audit_retention: ClusterClient(SetAuditRetentionRequest) -> SetAuditRetentionResponse, SHORT;
        /// Takes a node out of the cluster.
        remove_node: ClusterClient(RemoveNodeRequest) -> RemoveNodeResponse, SHORT;
        /// Says what should run.
        apply: DeployClient(ApplyRequest) -> ApplyResponse, SHORT;
        /// Says that a deployment should not run any more.
        delete: DeployClient(DeleteRequest) -> DeleteResponse, SHORT;
        /// What every node says to one more replica of a service.
        explain: PlannerClient(ExplainRequest) -> ExplainResponse, SHORT;
        /// Where the world would lead if it were different.
        whatif: PlannerClient(WhatifRequest) -> WhatifResponse, SHORT;
        /// What nodes and replicas use.
        top: PlannerClient(TopRequest) -> TopResponse, SHORT;
        /// The moves that relieve hot nodes now.
        rebalance: PlannerClient(RebalanceRequest) -> RebalanceResponse, SHORT;
        /// Which pieces of files the cluster does not have yet.
        missing_contents: DeployClient(MissingContentsRequest) -> MissingContentsResponse, SHORT;
        /// Stores pieces of files.
        put_contents: DeployClient(PutContentsRequest) -> PutContentsResponse, SHORT;
        /// Gives a config or secret of the cluster its content.
        store_content: DeployClient(StoreContentRequest) -> StoreContentResponse, SHORT;
        /// Takes a config or secret of the cluster away.
        remove_content: DeployClient(RemoveContentRequest) -> RemoveContentResponse, SHORT;
        /// The configs or secrets of the cluster.
        list_contents: DeployClient(ListContentsRequest) -> ListContentsResponse, SHORT;
        /// Wants an earlier revision again.
        rollback: DeployClient(RollbackRequest) -> RollbackResponse, SHORT;
        /// Keeps a revision, or no longer.
        pin_revision: DeployClient(PinRevisionRequest) -> PinRevisionResponse, SHORT;
        /// The revisions of one deployment that are kept.
        history: QueryClient(HistoryRequest) -> HistoryResponse, SHORT;
        /// The stored spec of one deployment.
        get_deployment: QueryClient(GetDeploymentRequest) -> GetDeploymentResponse, SHORT;
        /// Whether the audit events of the asked node are as they were written.
        verify_audit: QueryClient(VerifyAuditRequest) -> VerifyAuditResponse, SHORT;
        /// How the members are and how they reach each other.
        examine: QueryClient(ExamineRequest) -> ExamineResponse, SHORT;
        /// What the nodes say about their machines.
        node_facts: QueryClient(NodeFactsRequest) -> NodeFactsResponse, SHORT;
    }

    streaming! {
        /// What is wanted and what is there, now and after each change.
        watch: QueryClient(StatusRequest) -> StatusResponse;
        /// What the replicas of a service print.
        logs: QueryClient(LogsRequest) -> LogLine;
        /// What people said, at one state, secrets opened. The cluster audits who asks.
        backup: QueryClient(BackupRequest) -> BackupPart;
    }

    /// What happened, oldest first. Nothing is asked before the first event is.
    #[must_use]
    pub fn audit(&self, request: v1::AuditRequest) -> Events {
        Events::new(self.clone(), request)
    }

    /// The events that one node sends over one connection.
    pub(crate) async fn audit_once(
        &self,
        request: v1::AuditRequest,
    ) -> Result<Answers<v1::AuditEvent>, ClientError> {
        let send = |channel, request: Request<v1::AuditRequest>| async move {
            let mut client = QueryClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
            client.audit(request).await
        };
        let call = Call { client: self, patience: Patience::SHORT, send };
        let (endpoint, inner) = Box::pin(call.run(request)).await?;
        Ok(Answers { endpoint, inner })
    }

    /// What is wanted and what is there, at one moment.
    ///
    /// # Errors
    /// The cluster's refusal, or why nobody answered.
    pub async fn overview(
        &self,
        request: v1::StatusRequest,
    ) -> Result<v1::StatusResponse, ClientError> {
        let send = |channel, request: Request<v1::StatusRequest>| async move {
            let mut client = QueryClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
            client.status(request).await
        };
        let call = Call { client: self, patience: Patience::SHORT, send };
        Box::pin(call.run(request)).await.map(|(_, answer)| answer)
    }

    /// A connection to the first node that can be reached, and which that is.
    pub(crate) async fn any_channel(&self) -> Result<(String, Channel), ClientError> {
        let mut unreachable = None;
        for index in self.order() {
            let node = &self.nodes[index];
            match node.channel().await {
                Ok(channel) => {
                    self.answered.store(index, Ordering::Relaxed);
                    return Ok((node.endpoint.to_string(), channel));
                }
                Err(error) => unreachable = Some(error),
            }
        }
        Err(unreachable.expect("a target names at least one node"))
    }

    /// A request that carries this client's credential.
    pub(crate) fn authorized<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        request
    }

    fn met(&self) -> Met {
        match self.answered.load(Ordering::Relaxed) {
            NEVER => Met::Never,
            _ => Met::Before,
        }
    }

    /// The nodes in the order to ask them: the one that answered last, then those after it.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let first = match self.answered.load(Ordering::Relaxed) {
            NEVER => 0,
            answered => answered,
        };
        let count = self.nodes.len();
        (0..count).map(move |step| (first + step) % count)
    }

    /// Makes the next call ask another node first.
    fn pass_over(&self, node: usize) {
        let next = (node + 1) % self.nodes.len();
        // Only if the node is still the preferred one: another call may know better.
        self.answered.compare_exchange(node, next, Ordering::Relaxed, Ordering::Relaxed).ok();
    }
}

impl Node {
    async fn channel(&self) -> Result<Channel, ClientError> {
        let mut channel = self.channel.lock().await;
        if let Some(open) = channel.as_ref() {
            return Ok(open.clone());
        }
        let opened = connect(&self.endpoint).await.map_err(|source| ClientError::NoConnection {
            endpoint: self.endpoint.to_string(),
            source,
        })?;
        Ok(channel.insert(opened).clone())
    }

    async fn forget(&self) {
        *self.channel.lock().await = None;
    }
}

impl<F> Call<'_, F> {
    /// Asks until there is an answer, a final refusal, or no time left; says who answered.
    async fn run<Q, A, R>(&self, request: Q) -> Result<(String, A), ClientError>
    where
        Q: Clone,
        F: Fn(Channel, Request<Q>) -> R,
        R: Future<Output = Result<Response<A>, Status>>,
    {
        let begun = Instant::now();
        let mut backoff = Backoff::new();
        loop {
            let error = match self.round(&request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = backoff.pause();
            let in_time = begun.elapsed() + pause < self.patience.retries;
            if !in_time || !is_passing(&error, self.client.met()) {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Asks the first node that can be reached.
    async fn round<Q, A, R>(&self, request: &Q) -> Result<(String, A), ClientError>
    where
        Q: Clone,
        F: Fn(Channel, Request<Q>) -> R,
        R: Future<Output = Result<Response<A>, Status>>,
    {
        let mut unreachable = None;
        for index in self.client.order() {
            let node = &self.client.nodes[index];
            match node.channel().await {
                Ok(channel) => {
                    self.client.answered.store(index, Ordering::Relaxed);
                    let answer = self.attempt(node, channel, request).await;
                    if let Err(error) = &answer
                        && is_passing(error, Met::Before)
                    {
                        self.client.pass_over(index);
                    }
                    return answer;
                }
                Err(error) => unreachable = Some(error),
            }
        }
        Err(unreachable.expect("a target names at least one node"))
    }

    async fn attempt<Q, A, R>(
        &self,
        node: &Node,
        channel: Channel,
        request: &Q,
    ) -> Result<(String, A), ClientError>
    where
        Q: Clone,
        F: Fn(Channel, Request<Q>) -> R,
        R: Future<Output = Result<Response<A>, Status>>,
    {
        let limit = self.patience.attempt;
        let sent = (self.send)(channel, self.request(request.clone()));
        let endpoint = node.endpoint.to_string();
        let error = match tokio::time::timeout(limit, sent).await {
            Ok(Ok(answer)) => return Ok((endpoint, answer.into_inner())),
            Ok(Err(status)) => ClientError::from_status(&endpoint, &status),
            Err(_) => ClientError::TimedOut { endpoint, limit },
        };
        if matches!(error, ClientError::Lost { .. } | ClientError::TimedOut { .. }) {
            node.forget().await;
        }
        Err(error)
    }

    fn request<Q>(&self, message: Q) -> Request<Q> {
        self.client.authorized(message)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let endpoints = self.nodes.iter().map(|node| node.endpoint.to_string());
        f.debug_list().entries(endpoints).finish()
    }
}
