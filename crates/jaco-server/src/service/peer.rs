//! What nodes say to each other. Each method checks that the sender is a member, by its
//! certificate, before it looks at the message.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jaco_pki::{NodeCsr, ca};
use jaco_proto::v1::peer_server::Peer;
use jaco_proto::{storage, v1};
use jaco_raft::{HandleError, claimed_sender};
use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::rebalance::{Load, Share};
use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_store::Store;
use jaco_types::{
    ConsumerName, ErrorCode, Identity, ImageDigest, ImageNeed, ImageReadiness, InstanceId, NodeId,
    Rejection, ReplicaId, SpecHash, StateIndex,
};
use tonic::{Request, Response, Status};

use super::cluster::open_authority;
use super::{Context, caller, origin};
use crate::auth;
use crate::member::{Member, Write};
use crate::peers::no_leader;
use crate::status::{from_propose_error, invalid, to_status};

/// The service.
#[derive(Debug)]
pub struct PeerService {
    context: Context,
}

impl PeerService {
    /// The service over this context.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    fn sender<T>(&self, request: &Request<T>) -> Result<(Arc<Member>, NodeId), Status> {
        let member = self.context.member().map_err(|rejection| to_status(&rejection))?;
        let caller = caller(request)?;
        let node = member.store.read(|state| auth::identify_node(state, caller));
        match node {
            Ok(node) => Ok((member, node)),
            Err(rejection) => {
                member.refusals.note(&origin(caller), &rejection);
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
        let body = forward(&member, request.into_inner()).await;
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
            (false, _) => EngineSignal::Down(message.engine_error),
        };
        let now = member.clock.now();
        if message.prepares {
            member.signals.record_images(sender, readiness(message.images));
        }
        member.signals.record(sender, engine, now);
        if let Some(load) = message.load {
            let (node, instances) = measured(load).map_err(|rejection| to_status(&rejection))?;
            member.rebalance.record(sender, node, instances, now);
        }
        Ok(Response::new(v1::HeartbeatResponse { has_quorum: member.store.has_quorum() }))
    }

    async fn consumer(
        &self,
        request: Request<v1::ConsumerRequest>,
    ) -> Result<Response<v1::ConsumerResponse>, Status> {
        let (member, _) = self.sender(&request)?;
        let message = request.into_inner();
        if !member.store.leads() {
            return Err(to_status(&no_leader()));
        }
        let name = ConsumerName::new(&message.consumer);
        let name = name.map_err(|error| to_status(&invalid(error)))?;
        let (session, acknowledged) =
            (StateIndex(message.session), StateIndex(message.acknowledged));
        member.signals.record_consumer(name, session, acknowledged, member.clock.now());
        Ok(Response::new(v1::ConsumerResponse {}))
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

/// What a node measured of itself.
fn measured(load: v1::NodeLoad) -> Result<(Load, BTreeMap<InstanceId, Load>), Rejection> {
    let shares = |cpu, memory| Load { cpu: Share(cpu), memory: Share(memory) };
    let mut instances = BTreeMap::new();
    for one in load.instances {
        let replica = ReplicaId::parse(&one.replica).map_err(invalid)?;
        let id = InstanceId { replica, raft_index: StateIndex(one.raft_index) };
        instances.insert(id, shares(one.cpu, one.memory));
    }
    Ok((shares(load.cpu, load.memory), instances))
}

/// Hands a message to consensus, if its certificate's node is the one it claims to be from.
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

/// A member proposes in its own name. The planner's proposals of a leader that was just replaced,
/// and refusals of strangers, pass through members too; a person's requests do not: they are passed
/// on as requests, and decided on here.
fn check_author(sender: NodeId, by: &Identity) -> Result<(), Rejection> {
    match by {
        Identity::Node { id } if *id == sender => Ok(()),
        Identity::Scheduler | Identity::Anonymous => Ok(()),
        Identity::Node { .. } | Identity::Local { .. } | Identity::Operator { .. } => {
            let message = format!("node {sender} cannot propose in the name of {by}");
            Err(Rejection::new(ErrorCode::PermissionDenied, message))
        }
    }
}

/// What a node says about images; what cannot be read of it is as if it were not said.
fn readiness(images: Vec<v1::PreparedImage>) -> BTreeMap<ImageNeed, ImageReadiness> {
    let read = |image: v1::PreparedImage| {
        let spec = SpecHash(<[u8; 32]>::try_from(&*image.spec_hash).ok()?);
        let digest = match image.wanted_digest.as_str() {
            "" => None,
            wanted => Some(ImageDigest::parse(wanted)?),
        };
        let reason = image.reason;
        let readiness = match (image.ready, image.failed) {
            (true, _) => ImageReadiness::Ready { digest: ImageDigest::parse(&image.digest) },
            (false, true) => ImageReadiness::Failed { reason },
            (false, false) => ImageReadiness::Waiting { reason },
        };
        Some((ImageNeed { spec, digest }, readiness))
    };
    images.into_iter().filter_map(read).collect()
}

fn claim_refused(sender: NodeId, claimed: u64) -> Rejection {
    let message = format!("the certificate is node {sender}'s, the message claims node {claimed}");
    Rejection::new(ErrorCode::CertificateInvalid, message)
}

/// Executes a person's request that another member passed on. Which methods can be passed on is
/// listed here and nowhere else.
async fn forward(member: &Member, message: v1::ForwardRequest) -> Result<bytes::Bytes, Rejection> {
    let by = storage::decode_author(&message.identity).map_err(invalid)?;
    let body = &message.body;
    match message.method.as_str() {
        v1::ApplyRequest::METHOD => member.execute_forwarded::<v1::ApplyRequest>(by, body).await,
        v1::RollbackRequest::METHOD => {
            member.execute_forwarded::<v1::RollbackRequest>(by, body).await
        }
        v1::PinRevisionRequest::METHOD => {
            member.execute_forwarded::<v1::PinRevisionRequest>(by, body).await
        }
        v1::DeleteRequest::METHOD => member.execute_forwarded::<v1::DeleteRequest>(by, body).await,
        v1::PutContentsRequest::METHOD => {
            member.execute_forwarded::<v1::PutContentsRequest>(by, body).await
        }
        v1::StoreContentRequest::METHOD => {
            member.execute_forwarded::<v1::StoreContentRequest>(by, body).await
        }
        v1::RemoveContentRequest::METHOD => {
            member.execute_forwarded::<v1::RemoveContentRequest>(by, body).await
        }
        v1::AdmitNodeRequest::METHOD => {
            member.execute_forwarded::<v1::AdmitNodeRequest>(by, body).await
        }
        v1::IssueJoinTokenRequest::METHOD => {
            member.execute_forwarded::<v1::IssueJoinTokenRequest>(by, body).await
        }
        v1::IssueOperatorTokenRequest::METHOD => {
            member.execute_forwarded::<v1::IssueOperatorTokenRequest>(by, body).await
        }
        v1::RevokeOperatorTokenRequest::METHOD => {
            member.execute_forwarded::<v1::RevokeOperatorTokenRequest>(by, body).await
        }
        v1::SetAvailabilityRequest::METHOD => {
            member.execute_forwarded::<v1::SetAvailabilityRequest>(by, body).await
        }
        v1::SetLabelsRequest::METHOD => {
            member.execute_forwarded::<v1::SetLabelsRequest>(by, body).await
        }
        v1::SetConstraintsRequest::METHOD => {
            member.execute_forwarded::<v1::SetConstraintsRequest>(by, body).await
        }
        v1::SetDisabledRequest::METHOD => {
            member.execute_forwarded::<v1::SetDisabledRequest>(by, body).await
        }
        v1::SetAuditRetentionRequest::METHOD => {
            member.execute_forwarded::<v1::SetAuditRetentionRequest>(by, body).await
        }
        v1::StoreRegistryRequest::METHOD => {
            member.execute_forwarded::<v1::StoreRegistryRequest>(by, body).await
        }
        v1::RemoveRegistryRequest::METHOD => {
            member.execute_forwarded::<v1::RemoveRegistryRequest>(by, body).await
        }
        v1::RemoveNodeRequest::METHOD => {
            member.execute_forwarded::<v1::RemoveNodeRequest>(by, body).await
        }
        v1::ExplainRequest::METHOD => {
            member.execute_forwarded::<v1::ExplainRequest>(by, body).await
        }
        v1::TopRequest::METHOD => member.execute_forwarded::<v1::TopRequest>(by, body).await,
        v1::RebalanceRequest::METHOD => {
            member.execute_forwarded::<v1::RebalanceRequest>(by, body).await
        }
        v1::NoteRequest::METHOD => member.execute_forwarded::<v1::NoteRequest>(by, body).await,
        v1::WhatifRequest::METHOD => member.execute_forwarded::<v1::WhatifRequest>(by, body).await,
        unknown => Err(invalid(format!("method {unknown:?} cannot be passed on"))),
    }
}

/// A new certificate for a member. The key may be a new one; the id stays.
async fn renew(
    member: &Member,
    sender: NodeId,
    csr_der: &[u8],
) -> Result<v1::RenewCertificateResponse, Rejection> {
    let csr = NodeCsr::from_der(csr_der)
        .map_err(|error| Rejection::new(ErrorCode::CsrInvalid, error.to_string()))?;
    let known =
        member.store.read(|state| state.nodes.get(&sender).map(|node| node.key_fingerprint));
    if known != Some(*csr.key_fingerprint().as_bytes()) {
        let message =
            format!("the request is not signed with the key that node {sender} joined with");
        return Err(Rejection::new(ErrorCode::CertificateInvalid, message));
    }
    let authority = member.store.read(|state| open_authority(state, member))?;
    let certificate = authority
        .sign(&csr, sender, ca::NODE_LIFE, member.clock.now())
        .map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
    let payload = [("node_id".to_owned(), sender.to_string())].into();
    let command = Command::AuditNote { kind: AuditKind::CertificateRenewed, payload };
    let by = Identity::Node { id: sender };
    let proposal = jaco_store::Proposal { by, request: None, command };
    member.store.propose(proposal).await.map_err(|error| from_propose_error(&error))?;
    let trust = member.store.read(|state| {
        state.meta.as_ref().map(|meta| meta.ca_certificate.clone()).unwrap_or_default()
    });
    Ok(v1::RenewCertificateResponse {
        certificate_pem: ca::certificate_pem(&certificate),
        ca_certificate_pem: trust,
    })
}
