//! The peer service. Each method verifies by the certificate that the sender is a member before it reads the
//! message.

pub(super) mod edge;
mod heartbeat;
mod kek;
pub(super) mod probe;
mod renew;

use std::sync::Arc;

use async_trait::async_trait;
use jaco_proto::v1::peer_server::Peer;
use jaco_proto::{storage, v1};
use jaco_raft::{HandleError, claimed_sender};
use jaco_scheduler::input::EngineSignal;
use jaco_types::{
    Acknowledgement, ConsumerName, ErrorCode, Identity, InstanceId, InvalidName, NodeId, Rejection,
    ReplicaId, StateIndex,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::context::Context;
use crate::auth::{self, address, caller};
use crate::forward::execute_forwarded;
use crate::member::Member;
use crate::peers::no_leader;
use crate::pulls;
use crate::status::{from_propose_error, invalid, to_status};
use heartbeat::{measured, readiness};
use renew::renew;

/// The service.
#[derive(Debug)]
pub(crate) struct PeerService {
    context: Context,
}

impl PeerService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }

    fn sender<T>(&self, request: &Request<T>) -> Result<(Arc<Member>, NodeId), Status> {
        let member = self.context.member().map_err(|rejection| to_status(&rejection))?;
        let caller = caller(request)?;
        let node = member.store.read(|state| auth::identify_node(state, caller));
        match node {
            Ok(node) => Ok((member, node)),
            Err(rejection) => {
                member.refusals.note(&address(caller), &Identity::Anonymous, &rejection);
                Err(to_status(&rejection))
            }
        }
    }
}

#[async_trait]
impl Peer for PeerService {
    async fn raft(
        &self,
        request: Request<v1::RaftRequest>,
    ) -> Result<Response<v1::RaftResponse>, Status> {
        let (member, sender) = self.sender(&request)?;
        raft(&member, sender, request.into_inner()).await.map(Response::new)
    }

    async fn propose(
        &self,
        request: Request<v1::ProposeRequest>,
    ) -> Result<Response<v1::ProposeResponse>, Status> {
        let (member, sender) = self.sender(&request)?;
        if !member.store.leads() {
            return Err(to_status(&no_leader()));
        }
        let payload = storage::decode_payload(&request.into_inner().payload);
        let payload = payload.map_err(|error| to_status(&invalid(error)))?;
        check_author(sender, &payload.by).map_err(|rejection| to_status(&rejection))?;
        let applied = member.store.propose_for(payload).await;
        let applied = applied.map_err(|error| to_status(&from_propose_error(&error)))?;
        Ok(Response::new(v1::ProposeResponse {
            index: applied.index.0,
            outcome: storage::encode_outcome(&applied.outcome),
        }))
    }

    async fn forward(
        &self,
        request: Request<v1::ForwardRequest>,
    ) -> Result<Response<v1::ForwardResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        let body = execute_forwarded(&member, request.into_inner()).await;
        let body = body.map_err(|rejection| to_status(&rejection))?;
        Ok(Response::new(v1::ForwardResponse { body }))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        let (member, sender) = self.sender(&request)?;
        let message = request.into_inner();
        if NodeId(message.node) != sender {
            return Err(to_status(&claim_refused(sender, message.node)));
        }
        if !member.store.leads() {
            return Err(to_status(&no_leader()));
        }
        let engine = match (message.engine_up, message.disk_full.is_empty()) {
            (true, true) => EngineSignal::Up,
            (true, false) => EngineSignal::DiskFull(message.disk_full),
            (false, _) if message.engine_unknown => EngineSignal::Unknown,
            (false, _) => EngineSignal::Down(message.engine_error),
        };
        let now = member.clock.now();
        if message.prepulls {
            member.signals.record_images(sender, readiness(message.images));
        }
        member.signals.record_pulls(sender, pulls::read(message.pulls));
        member.signals.record(sender, engine, now);
        if let Some(load) = message.load {
            let (node, instances) = measured(load).map_err(|rejection| to_status(&rejection))?;
            member.rebalance.record(sender, node, instances, now);
        }
        Ok(Response::new(v1::HeartbeatResponse {
            has_quorum: member.store.has_quorum(),
            cluster_time_ms: member.clock.now().0,
        }))
    }

    async fn pulls(
        &self,
        request: Request<v1::PullsRequest>,
    ) -> Result<Response<v1::PullsResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        if !member.store.leads() {
            return Err(to_status(&no_leader()));
        }
        let nodes = request.into_inner().nodes.into_iter().map(NodeId).collect();
        let nodes = member.signals.pulls(&nodes).into_iter().map(|(node, pulls)| v1::NodePulls {
            node: node.0,
            pulls: pulls.iter().map(pulls::message).collect(),
        });
        Ok(Response::new(v1::PullsResponse { nodes: nodes.collect() }))
    }

    async fn acknowledge_endpoints(
        &self,
        request: Request<v1::AcknowledgeEndpointsRequest>,
    ) -> Result<Response<v1::AcknowledgeEndpointsResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        let message = request.into_inner();
        if !member.store.leads() {
            return Err(to_status(&no_leader()));
        }
        let name = ConsumerName::new(&message.consumer);
        let name = name.map_err(|error| to_status(&invalid(error)))?;
        let busy = message.busy.iter().map(|busy| {
            let replica = ReplicaId::parse(&busy.replica)?;
            Ok(InstanceId { replica, raft_index: StateIndex(busy.raft_index) })
        });
        let busy = busy.collect::<Result<_, InvalidName>>();
        let busy = busy.map_err(|error| to_status(&invalid(error)))?;
        let session = StateIndex(message.session);
        let said = Acknowledgement { index: StateIndex(message.acknowledged), busy };
        member.signals.record_consumer(name, session, said, member.clock.now());
        Ok(Response::new(v1::AcknowledgeEndpointsResponse {}))
    }

    async fn probe_router(
        &self,
        request: Request<v1::ProbeRouterRequest>,
    ) -> Result<Response<v1::ProbeRouterResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        Ok(Response::new(probe::probe(&member, request.into_inner()).await))
    }

    async fn edge_traffic(
        &self,
        request: Request<v1::EdgeTrafficRequest>,
    ) -> Result<Response<v1::EdgeTrafficResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        Ok(Response::new(edge::traffic(&member).await))
    }

    async fn probe_edge(
        &self,
        request: Request<v1::ProbeEdgeRequest>,
    ) -> Result<Response<v1::ProbeEdgeResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        Ok(Response::new(edge::probe(&member, request.into_inner()).await))
    }

    async fn fetch_kek(
        &self,
        request: Request<v1::FetchKekRequest>,
    ) -> Result<Response<v1::FetchKekResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        let fetched = kek::fetch(&member, request.get_ref());
        fetched.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    type ReadBlobStream = ReceiverStream<Result<v1::BlobPiece, Status>>;

    async fn read_blob(
        &self,
        request: Request<v1::ReadBlobRequest>,
    ) -> Result<Response<Self::ReadBlobStream>, Status> {
        let (member, _) = self.sender(&request)?;
        let pieces = member.images.serve(request.get_ref()).await;
        let pieces = pieces.map_err(|rejection| to_status(&rejection))?;
        Ok(Response::new(ReceiverStream::new(pieces)))
    }

    async fn renew_certificate(
        &self,
        request: Request<v1::RenewCertificateRequest>,
    ) -> Result<Response<v1::RenewCertificateResponse>, Status> {
        let (member, sender) = self.sender(&request)?;
        let renewed = renew(&member, sender, &request.into_inner().csr_der).await;
        renewed.map(Response::new).map_err(|rejection| to_status(&rejection))
    }
}

/// Handles a raft message, if its claimed sender is the node of the certificate.
async fn raft(
    member: &Member,
    sender: NodeId,
    message: v1::RaftRequest,
) -> Result<v1::RaftResponse, Status> {
    let claimed = claimed_sender(&message.body).map_err(|error| handle_status(&error))?;
    if NodeId(claimed) != sender {
        return Err(to_status(&claim_refused(sender, claimed)));
    }
    match member.store.raft().handle(message.body).await {
        Ok(body) => Ok(v1::RaftResponse { body }),
        Err(error) => Err(handle_status(&error)),
    }
}

fn handle_status(error: &HandleError) -> Status {
    Status::failed_precondition(error.to_string())
}

/// A member proposes in its own name. Plans of a leader that was just replaced and refusals of unauthenticated
/// senders arrive as proposals too. Requests of users do not: they are forwarded as requests and decided here.
fn check_author(sender: NodeId, by: &Identity) -> Result<(), Rejection> {
    match by {
        Identity::Node { id } if *id == sender => Ok(()),
        Identity::Scheduler | Identity::Anonymous => Ok(()),
        Identity::Node { .. } | Identity::Local { .. } | Identity::Operator { .. } => {
            let message = format!("node {sender} may not propose in the name of {by}");
            Err(Rejection::new(ErrorCode::PermissionDenied, message))
        }
    }
}

fn claim_refused(sender: NodeId, claimed: u64) -> Rejection {
    let message = format!(
        "the certificate is of node {sender}, the message claims to be from node {claimed}"
    );
    Rejection::new(ErrorCode::CertificateInvalid, message)
}
