//! The cluster itself: creating it, joining it, its members and tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jaco_pki::{
    CaCertificate, CertificateAuthority, JoinToken, JoinTokenRecord, NodeCsr, OperatorToken,
    Revocation, SecretHash, TokenKind, TrustBundle, admit_join, ca,
};
use jaco_proto::v1::cluster_server::Cluster;
use jaco_proto::v1::{self};
use jaco_raft::Quorum;
use jaco_state::command::NewNode;
use jaco_state::{ClusterMeta, ClusterState, Command, Outcome, token};
use jaco_store::Store;
use jaco_types::{
    Author, Availability, ErrorCode, Hostname, Identity, Millis, NodeFacts, NodeId, Rejection,
    Timestamp, TokenId,
};
use tonic::{Request, Response, Status};

use super::{Context, asked_from, caller, collect, constraints, disabled, origin, registries};
use crate::connection::Caller;
use crate::member::{Lifecycle, Member, Write, name_if_unnamed};
use crate::status::{from_propose_error, invalid, to_status};
use crate::view;

/// A join token lives this long unless its issuer says otherwise.
const JOIN_TOKEN_LIFE: Millis = Millis::from_secs(3600);

/// No join token lives longer, or is good for more joins.
const JOIN_TOKEN_LIFE_MAX: Millis = Millis::from_secs(7 * 24 * 3600);
const JOIN_TOKEN_USES_MAX: u32 = 1000;

/// The service.
#[allow(missing_debug_implementations, reason = "holds a trait object that has nothing to show")]
pub struct ClusterService {
    context: Context,
    lifecycle: Arc<dyn Lifecycle>,
}

impl ClusterService {
    /// The service over this context; `lifecycle` turns the node into a member.
    #[must_use]
    pub fn new(context: Context, lifecycle: Arc<dyn Lifecycle>) -> Self {
        Self { context, lifecycle }
    }

    async fn write<W: Write>(&self, request: Request<W>) -> Result<Response<W::Answer>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let answer = member.write(by, request.into_inner()).await;
        answer.map(Response::new).map_err(|rejection| to_status(&rejection))
    }
}

#[async_trait]
impl Cluster for ClusterService {
    async fn init(
        &self,
        request: Request<v1::InitRequest>,
    ) -> Result<Response<v1::InitResponse>, Status> {
        let by = local_only(&request)?;
        let done = self.lifecycle.init(&request.into_inner().name, by).await;
        done.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn join_cluster(
        &self,
        request: Request<v1::JoinClusterRequest>,
    ) -> Result<Response<v1::JoinClusterResponse>, Status> {
        local_only(&request)?;
        let request = request.into_inner();
        let done = self.lifecycle.join(&request.server, &request.token).await;
        done.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn admit_node(
        &self,
        request: Request<v1::AdmitNodeRequest>,
    ) -> Result<Response<v1::AdmitNodeResponse>, Status> {
        let member = self.context.member().map_err(|rejection| to_status(&rejection))?;
        let caller = caller(&request)?;
        let from = origin(caller);
        let nobody =
            Author { by: Identity::Anonymous, origin: Some(asked_from(caller, member.id)) };
        // The token in the request is the credential; nothing else is asked for.
        let admitted = member.write(nobody, request.into_inner()).await;
        admitted.map(Response::new).map_err(|rejection| {
            member.refusals.note(&from, &rejection);
            to_status(&rejection)
        })
    }

    async fn status(
        &self,
        request: Request<v1::ClusterStatusRequest>,
    ) -> Result<Response<v1::ClusterStatusResponse>, Status> {
        let uninitialized = v1::ClusterStatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..v1::ClusterStatusResponse::default()
        };
        if self.context.member().is_err() {
            return Ok(Response::new(uninitialized));
        }
        let (member, _) = self.context.identify(&request)?;
        Ok(Response::new(cluster_status(&member)))
    }

    async fn issue_join_token(
        &self,
        request: Request<v1::IssueJoinTokenRequest>,
    ) -> Result<Response<v1::IssueJoinTokenResponse>, Status> {
        self.write(request).await
    }

    async fn issue_operator_token(
        &self,
        request: Request<v1::IssueOperatorTokenRequest>,
    ) -> Result<Response<v1::IssueOperatorTokenResponse>, Status> {
        self.write(request).await
    }

    async fn revoke_operator_token(
        &self,
        request: Request<v1::RevokeOperatorTokenRequest>,
    ) -> Result<Response<v1::RevokeOperatorTokenResponse>, Status> {
        self.write(request).await
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let tokens = member.store.read(list_tokens);
        Ok(Response::new(v1::ListTokensResponse { tokens }))
    }

    async fn set_availability(
        &self,
        request: Request<v1::SetAvailabilityRequest>,
    ) -> Result<Response<v1::SetAvailabilityResponse>, Status> {
        self.write(request).await
    }

    async fn set_labels(
        &self,
        request: Request<v1::SetLabelsRequest>,
    ) -> Result<Response<v1::SetLabelsResponse>, Status> {
        self.write(request).await
    }

    async fn remove_node(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> Result<Response<v1::RemoveNodeResponse>, Status> {
        self.write(request).await
    }

    async fn set_constraints(
        &self,
        request: Request<v1::SetConstraintsRequest>,
    ) -> Result<Response<v1::SetConstraintsResponse>, Status> {
        self.write(request).await
    }

    async fn set_disabled(
        &self,
        request: Request<v1::SetDisabledRequest>,
    ) -> Result<Response<v1::SetDisabledResponse>, Status> {
        self.write(request).await
    }

    async fn get_disabled(
        &self,
        request: Request<v1::GetDisabledRequest>,
    ) -> Result<Response<v1::GetDisabledResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let disabled = member.store.read(disabled::of_cluster);
        Ok(Response::new(v1::GetDisabledResponse { disabled }))
    }

    async fn collect_volumes(
        &self,
        request: Request<v1::CollectVolumesRequest>,
    ) -> Result<Response<v1::CollectVolumesResponse>, Status> {
        let (member, by) = self.context.identify(&request)?;
        member.recovered().await;
        let collected = collect::collect(&member, by, request.into_inner()).await;
        collected.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn get_constraints(
        &self,
        request: Request<v1::GetConstraintsRequest>,
    ) -> Result<Response<v1::GetConstraintsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let pairs = member.store.read(constraints::of_cluster);
        Ok(Response::new(v1::GetConstraintsResponse { pairs }))
    }

    async fn store_registry(
        &self,
        request: Request<v1::StoreRegistryRequest>,
    ) -> Result<Response<v1::StoreRegistryResponse>, Status> {
        self.write(request).await
    }

    async fn remove_registry(
        &self,
        request: Request<v1::RemoveRegistryRequest>,
    ) -> Result<Response<v1::RemoveRegistryResponse>, Status> {
        self.write(request).await
    }

    async fn list_registries(
        &self,
        request: Request<v1::ListRegistriesRequest>,
    ) -> Result<Response<v1::ListRegistriesResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let registries = member.store.read(registries::list);
        Ok(Response::new(v1::ListRegistriesResponse { registries }))
    }

    async fn set_audit_retention(
        &self,
        request: Request<v1::SetAuditRetentionRequest>,
    ) -> Result<Response<v1::SetAuditRetentionResponse>, Status> {
        self.write(request).await
    }
}

/// Only a person on the machine may give the machine to a cluster.
fn local_only<T>(request: &Request<T>) -> Result<Identity, Status> {
    match caller(request)? {
        Caller::Unix { uid } => Ok(Identity::Local { uid: *uid }),
        Caller::Tls { .. } => {
            let message = "this is only possible over the unix socket of the node itself";
            Err(to_status(&Rejection::new(ErrorCode::PermissionDenied, message)))
        }
    }
}

fn cluster_status(member: &Member) -> v1::ClusterStatusResponse {
    let raft = member.store.raft().status();
    let mut suffrage = BTreeMap::new();
    suffrage.extend(raft.learners.iter().map(|id| (NodeId(*id), "learner")));
    suffrage.extend(raft.voters.iter().map(|id| (NodeId(*id), "voter")));
    let leader = raft.leader.as_ref().map(|leader| NodeId(leader.id));
    member.store.read(|state| v1::ClusterStatusResponse {
        initialized: true,
        cluster_id: state.meta.as_ref().map(|meta| meta.id.to_string()).unwrap_or_default(),
        name: state.meta.as_ref().map(|meta| meta.name.clone()).unwrap_or_default(),
        leader: leader.map(|id| view::hostname(state, id)).unwrap_or_default(),
        term: raft.term,
        raft_index: state.index.0,
        nodes: view::node_infos(state, &suffrage),
        answered_by: member.hostname.to_string(),
        quorum_lost: raft.quorum == Quorum::Lost,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn list_tokens(state: &ClusterState) -> Vec<v1::TokenInfo> {
    let operators = state.operator_tokens.values().map(|token| v1::TokenInfo {
        id: token.id.to_string(),
        role: "operator".to_owned(),
        issued_at_ms: view::millis(token.issued_at),
        issued_by: token.issued_by.to_string(),
        expires_at_ms: 0,
        revoked_at_ms: token.revoked_at.map_or(0, view::millis),
        uses_left: 0,
    });
    let joins = state.join_tokens.values().map(|token| v1::TokenInfo {
        id: token.id.to_string(),
        role: "join".to_owned(),
        issued_at_ms: view::millis(token.issued_at),
        issued_by: token.issued_by.to_string(),
        expires_at_ms: view::millis(token.expires_at),
        revoked_at_ms: 0,
        uses_left: token.uses_left,
    });
    operators.chain(joins).collect()
}

#[async_trait]
impl Write for v1::AdmitNodeRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/AdmitNode";
    type Answer = v1::AdmitNodeResponse;

    fn name(&mut self, _fresh: &dyn Fn() -> String) {
        // The key in the certificate request names it: the same key gets the same id.
    }

    async fn execute(
        self,
        member: &Member,
        nobody: Author,
    ) -> Result<v1::AdmitNodeResponse, Rejection> {
        let now = member.clock.now();
        let csr = NodeCsr::from_der(&self.csr_der)
            .map_err(|error| Rejection::new(ErrorCode::CsrInvalid, error.to_string()))?;
        let token: JoinToken = self.token.parse().map_err(|error| {
            let message = format!("the join token is malformed: {error}");
            Rejection::new(ErrorCode::JoinTokenInvalid, message)
        })?;
        // Whoever knocks is nobody yet: what this node knows already must be enough to turn a wrong
        // token away, before a round of consensus is spent on it.
        let fingerprint = *csr.key_fingerprint().as_bytes();
        member.store.read(|state| check_join_token(state, &token, fingerprint, now))?;
        // What decides must be as new as anything that was agreed on: a token used a moment ago
        // through another leader is used.
        member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
        let authority = member.store.read(|state| -> Result<_, Rejection> {
            check_join_token(state, &token, fingerprint, now)?;
            open_authority(state, member)
        })?;
        let node = NewNode {
            hostname: Hostname::new(&self.hostname).map_err(invalid)?,
            address: checked_address(&self.address)?,
            key_fingerprint: fingerprint,
            facts: NodeFacts { version: self.version.clone(), ..NodeFacts::default() },
        };
        let command = Command::NodeAdmit { node, token: token.id.clone() };
        let applied = member.commit(nobody, "", command).await?;
        let Outcome::NodeAdmitted { id } = applied.outcome else {
            return Err(Rejection::new(ErrorCode::Internal, "admission has no node id"));
        };
        let certificate = authority
            .sign(&csr, id, ca::NODE_LIFE, now)
            .map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
        let trust = member.store.read(|state| {
            let meta = state.meta.as_ref();
            meta.map(|meta| (meta.id.to_string(), meta.ca_certificate.clone())).unwrap_or_default()
        });
        Ok(v1::AdmitNodeResponse {
            cluster_id: trust.0,
            node_id: id.0,
            certificate_pem: ca::certificate_pem(&certificate),
            ca_certificate_pem: trust.1,
            key_encryption_key: member.key_encryption_key.to_hex().to_string(),
        })
    }
}

/// Whether this token admits this key. A key that is a member already needs no use of the token:
/// it lost the answer and asks again.
fn check_join_token(
    state: &ClusterState,
    token: &JoinToken,
    fingerprint: [u8; 32],
    now: Timestamp,
) -> Result<(), Rejection> {
    let meta = cluster_meta(state)?;
    let known = state.nodes.values().any(|node| node.key_fingerprint == fingerprint);
    let record = state.join_tokens.get(&token.id).map(|record| JoinTokenRecord {
        id: record.id.clone(),
        secret: SecretHash::from_bytes(record.secret_hash),
        expires: record.expires_at,
        uses_left: record.uses_left.saturating_add(u32::from(known)),
        revocation: Revocation::Live,
    });
    admit_join(record.as_ref(), token, &meta.id, now).map_err(|refusal| {
        let message = format!("join token {}: {refusal}", token.id);
        Rejection::new(refusal.code(TokenKind::Join), message)
    })
}

fn cluster_meta(state: &ClusterState) -> Result<&ClusterMeta, Rejection> {
    let missing = || {
        let message = "this node has not seen its cluster's state yet";
        Rejection::new(ErrorCode::ClusterUninitialized, message)
    };
    state.meta.as_ref().ok_or_else(missing)
}

/// The cluster's authority, opened with this node's key to it.
///
/// # Errors
/// `internal` when the stored authority does not open: the node's key belongs to another cluster.
pub(crate) fn open_authority(
    state: &ClusterState,
    member: &Member,
) -> Result<CertificateAuthority, Rejection> {
    let meta = cluster_meta(state)?;
    let internal = |error: &dyn std::fmt::Display| {
        Rejection::new(ErrorCode::Internal, format!("the cluster's authority: {error}"))
    };
    let trust = TrustBundle::from_pem(&meta.ca_certificate).map_err(|error| internal(&error))?;
    let certificate: CaCertificate =
        trust.authorities().first().cloned().ok_or_else(|| internal(&"no certificate"))?;
    CertificateAuthority::open(certificate, &meta.sealed_ca_key, &member.key_encryption_key)
        .map_err(|error| internal(&error))
}

/// `ip:port` or `name:port`, bounded.
fn checked_address(text: &str) -> Result<String, Rejection> {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if text.len() > 300 || port.is_none_or(|port| port == 0) {
        return Err(invalid(format!("address {text:?} is not host:port")));
    }
    Ok(text.to_owned())
}

#[async_trait]
impl Write for v1::IssueJoinTokenRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/IssueJoinToken";
    type Answer = v1::IssueJoinTokenResponse;

    fn name(&mut self, _fresh: &dyn Fn() -> String) {
        // A secret is shown once. Under a request id, a retry would show a second secret that was
        // never stored; without one it makes a second token, and the lost one expires unused.
        self.request_id.clear();
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::IssueJoinTokenResponse, Rejection> {
        let (minted, servers) = member.store.read(|state| -> Result<_, Rejection> {
            let meta = cluster_meta(state)?;
            let trust = TrustBundle::from_pem(&meta.ca_certificate)
                .map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
            let authority = trust.authorities().first().map(CaCertificate::fingerprint);
            let authority = authority
                .ok_or_else(|| Rejection::new(ErrorCode::Internal, "no authority is trusted"))?;
            let servers = state.nodes.values().map(|node| node.address.clone()).collect();
            Ok((JoinToken::mint(meta.id.clone(), authority), servers))
        })?;
        let now = member.clock.now();
        let life = match self.ttl_secs {
            0 => JOIN_TOKEN_LIFE,
            secs => Millis::from_secs(secs).min(JOIN_TOKEN_LIFE_MAX),
        };
        let expires_at = now.after(life);
        let token = token::JoinToken {
            id: minted.id.clone(),
            secret_hash: *minted.secret.hash().as_bytes(),
            issued_at: now,
            issued_by: by.by.clone(),
            expires_at,
            uses_left: self.uses.clamp(1, JOIN_TOKEN_USES_MAX),
        };
        member.commit(by, &self.request_id, Command::JoinTokenIssue { token }).await?;
        Ok(v1::IssueJoinTokenResponse {
            token: minted.reveal().to_string(),
            expires_at_ms: view::millis(expires_at),
            servers,
        })
    }
}

#[async_trait]
impl Write for v1::IssueOperatorTokenRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/IssueOperatorToken";
    type Answer = v1::IssueOperatorTokenResponse;

    fn name(&mut self, _fresh: &dyn Fn() -> String) {
        // As for join tokens. A retry finds the name taken and says so: the lost token is to be
        // revoked, since nobody knows its secret.
        self.request_id.clear();
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::IssueOperatorTokenResponse, Rejection> {
        let mut minted = OperatorToken::mint();
        minted.id = TokenId::new(&self.name).map_err(invalid)?;
        let token = token::OperatorToken {
            id: minted.id.clone(),
            secret_hash: *minted.secret.hash().as_bytes(),
            issued_at: member.clock.now(),
            issued_by: by.by.clone(),
            revoked_at: None,
        };
        member.commit(by, &self.request_id, Command::OperatorTokenIssue { token }).await?;
        Ok(v1::IssueOperatorTokenResponse { token: minted.reveal().to_string() })
    }
}

#[async_trait]
impl Write for v1::RevokeOperatorTokenRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/RevokeOperatorToken";
    type Answer = v1::RevokeOperatorTokenResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RevokeOperatorTokenResponse, Rejection> {
        let id = TokenId::new(&self.name).map_err(invalid)?;
        member.commit(by, &self.request_id, Command::OperatorTokenRevoke { id }).await?;
        Ok(v1::RevokeOperatorTokenResponse {})
    }
}

#[async_trait]
impl Write for v1::SetAvailabilityRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/SetAvailability";
    type Answer = v1::SetAvailabilityResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetAvailabilityResponse, Rejection> {
        let wanted = [Availability::Active, Availability::Cordoned, Availability::Draining];
        let availability = wanted.into_iter().find(|each| each.as_str() == self.availability);
        let availability = availability.ok_or_else(|| {
            let given = &self.availability;
            invalid(format!("availability {given:?} is none of active, cordoned, draining"))
        })?;
        let node = member.store.read(|state| find_node(state, &self.hostname))?;
        let is_so = |state: &ClusterState| {
            state.nodes.get(&node).is_some_and(|node| node.availability == availability)
        };
        // What is so already is not written once more, where this state is known to be the newest.
        if member.store.catch_up().await.is_ok() && member.store.read(is_so) {
            return Ok(v1::SetAvailabilityResponse {});
        }
        let command = match availability {
            Availability::Draining => {
                let patience = Some(Millis(self.drain_patience_ms)).filter(|given| given.0 > 0);
                Command::NodeDrain { node, patience: patience.unwrap_or(DRAIN_PATIENCE) }
            }
            Availability::Active | Availability::Cordoned => {
                Command::NodeSetAvailability { node, availability }
            }
        };
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::SetAvailabilityResponse {})
    }
}

#[async_trait]
impl Write for v1::SetLabelsRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/SetLabels";
    type Answer = v1::SetLabelsResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetLabelsResponse, Rejection> {
        let pairs = self.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let unset = self.unset.iter().map(|key| (key.as_str(), ""));
        let wrong: Vec<String> = pairs.chain(unset).filter_map(wrong_label).collect();
        if !wrong.is_empty() {
            return Err(invalid(wrong.join("; ")));
        }
        let both = self.unset.iter().find(|key| self.set.contains_key(*key));
        if let Some(key) = both {
            return Err(invalid(format!("label {key:?} is given and taken at once")));
        }
        let node = member.store.read(|state| find_node(state, &self.hostname))?;
        let set = self.set.into_iter().collect();
        let command = Command::NodeSetLabels { node, set, unset: self.unset.into_iter().collect() };
        member.commit(by, &self.request_id, command).await?;
        let labels = member.store.read(|state| {
            let node = state.nodes.get(&node);
            let labels = node.map(jaco_types::Node::all_labels).unwrap_or_default();
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        });
        Ok(v1::SetLabelsResponse { labels })
    }
}

/// The longest key, and the longest value, of a label.
const LABEL_BYTES_MAX: usize = 253;

/// What is wrong with a label, if something is: a key that could not be asked for, or no place for it.
fn wrong_label((key, value): (&str, &str)) -> Option<String> {
    let fits = |text: &str| text.len() <= LABEL_BYTES_MAX && !text.chars().any(char::is_control);
    let can_be_asked_for =
        !key.is_empty() && !key.chars().any(|c| c.is_whitespace() || "={}$".contains(c));
    let taken = ["node.hostname", "node.arch", "node.os"].contains(&key);
    if taken {
        return Some(format!("{key} is what the node is, and no label"));
    }
    (!can_be_asked_for || !fits(key) || !fits(value)).then(|| {
        format!(
            "label {key:?}: a key is without spaces, = and braces, and neither key nor value is \
             longer than {LABEL_BYTES_MAX} bytes"
        )
    })
}

#[async_trait]
impl Write for v1::RemoveNodeRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/RemoveNode";
    type Answer = v1::RemoveNodeResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveNodeResponse, Rejection> {
        let node = member.store.read(|state| {
            let node = find_node(state, &self.hostname)?;
            check_removable(state, node, &self)?;
            Ok::<_, Rejection>(node)
        })?;
        if node == member.id {
            // It cannot remove itself and then answer: the next leader does it.
            let handed_over = member.store.raft().transfer_leader().await;
            handed_over.map_err(|error| {
                let message = format!("this node leads and could not hand over: {error}");
                Rejection::new(ErrorCode::NodeNotRemovable, message)
            })?;
            return Err(crate::peers::no_leader());
        }
        member.commit(by, &self.request_id, Command::NodeRemove { node }).await?;
        Ok(v1::RemoveNodeResponse {})
    }
}

fn find_node(state: &ClusterState, hostname: &str) -> Result<NodeId, Rejection> {
    let name = Hostname::new(hostname).map_err(invalid)?;
    let node = state.node_by_hostname(&name).map(|node| node.id);
    node.ok_or_else(|| {
        let known: Vec<_> = state.nodes.values().map(|node| node.hostname.to_string()).collect();
        let message = format!("no node is called {name}; there are {}", known.join(", "));
        Rejection::new(ErrorCode::NodeNotFound, message)
    })
}

/// How long a replica may take to leave a node that is drained (R-NODE-2).
const DRAIN_PATIENCE: Millis = Millis::from_secs(5 * 60);

/// The last node stays, and a node that still has replicas leaves only by force.
fn check_removable(
    state: &ClusterState,
    node: NodeId,
    request: &v1::RemoveNodeRequest,
) -> Result<(), Rejection> {
    let refuse = |message: String| Err(Rejection::new(ErrorCode::NodeNotRemovable, message));
    if state.nodes.len() == 1 {
        return refuse(format!("{} is the last node of the cluster", request.hostname));
    }
    if request.force {
        return Ok(());
    }
    let held: Vec<_> = state
        .slots
        .values()
        .filter(|slot| slot.instances().any(|(_, instance)| instance.node == node))
        .map(|slot| slot.id.to_string())
        .collect();
    if held.is_empty() {
        return check_stopped(state, node, &request.hostname);
    }
    refuse(format!(
        "{} still has {} replicas ({}); drain it first with `jaco node drain {}`, or use --force",
        request.hostname,
        held.len(),
        held.iter().take(5).cloned().collect::<Vec<_>>().join(", "),
        request.hostname,
    ))
}

/// What ran on it is stopped first: once it is out of the cluster nobody sees it end.
fn check_stopped(state: &ClusterState, node: NodeId, hostname: &str) -> Result<(), Rejection> {
    let mut ending =
        jaco_state::view::ending(state).filter(|(_, on)| *on == node).map(|(id, _)| id);
    let Some(first) = ending.next() else { return Ok(()) };
    let message = format!(
        "{hostname} still has {} containers to stop and remove ({first}); wait for them with \
         `jaco node drain {hostname}`, or use --force",
        1 + ending.count(),
    );
    Err(Rejection::new(ErrorCode::NodeNotRemovable, message))
}
