//! How a node becomes a member: `init` creates a cluster, `join` joins one, and a restart resumes.

use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use jaco_pki::files::FilesError;
use jaco_pki::{
    CertificateAuthority, Credentials, Dialer, IdentityDir, JoinToken, KekRing, KeyEncryptionKey,
    NodeCsr, OperatorToken, TrustBundle, ca,
};
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::{self, AdmitNodeRequest};
use jaco_server::status::from_status;
use jaco_server::{Lifecycle, asked_pool, pool_info};
use jaco_state::command::{ClusterInit, NewNode};
use jaco_state::network::NetworkPool;
use jaco_state::{ClusterMeta, token};
use jaco_types::{ClusterId, ErrorCode, Identity, NodeId, Rejection, TokenId};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Mutex;
use tonic::transport::Endpoint;
use tracing::{info, warn};

use crate::config::EngineKind;
use crate::context::{IDENTITY_UNREADABLE, NodeContext};
use crate::member::{self, Founding, MemberParts};
use crate::process::Process;
use crate::router::try_router;

/// Name of the operator token that `cluster init` prints.
const FIRST_TOKEN: &str = "bootstrap";

/// The networks of a new cluster.
#[derive(Default)]
struct Networks {
    /// Absent where they are those of each node.
    pool: Option<NetworkPool>,
    /// The process that was started to try it.
    router: Option<Process>,
    /// Why they are not the cluster's although that was asked for.
    refused: String,
}

/// Makes the node a member. Clones are the same.
#[derive(Clone)]
pub(crate) struct Bootstrap {
    node: Arc<NodeContext>,
    /// Held during `init`, `join` and start-up, so that the node becomes a member only once.
    joining: Arc<Mutex<()>>,
}

#[async_trait]
impl Lifecycle for Bootstrap {
    async fn init(
        &self,
        request: v1::InitRequest,
        by: Identity,
    ) -> Result<v1::InitResponse, Rejection> {
        self.create_cluster(request, by).await
    }

    async fn join(&self, server: &str, token: &str) -> Result<v1::JoinClusterResponse, Rejection> {
        self.join_cluster(server, token).await
    }
}

impl Bootstrap {
    pub(crate) fn new(node: Arc<NodeContext>) -> Self {
        Self { node, joining: Arc::default() }
    }

    /// Resumes as the member that it was before the restart.
    pub(crate) async fn resume(&self) -> anyhow::Result<()> {
        let credentials = match self.node.identity.load(self.node.clock.now()) {
            Ok(Some(credentials)) => credentials,
            Ok(None) => {
                info!("no cluster yet, waiting for `jaco cluster init` or `jaco cluster join`");
                return Ok(());
            }
            Err(error) => return Err(error).context(IDENTITY_UNREADABLE),
        };
        if !credentials.certificate().validity().contains(self.node.clock.now()) {
            warn!(
                "certificate is not valid now: the node was off for long, or its clock is wrong; peers accept it, and it is renewed once there is a leader"
            );
        }
        let keks = KekRing::load(self.node.identity.clone()).with_context(|| self.kek_advice())?;
        let keks = keks.with_context(|| self.kek_advice())?;
        let _joining = self.joining.lock().await;
        self.start_member(credentials, keks, None).await?;
        Ok(())
    }

    async fn start_member(
        &self,
        credentials: Credentials,
        keks: KekRing,
        founding: Option<Founding>,
    ) -> anyhow::Result<()> {
        let parts = MemberParts { credentials, keks, founding };
        let lifecycle = Arc::new(self.clone());
        member::start(&self.node, parts, lifecycle).await
    }

    /// What to do about a key-encryption key that cannot be read.
    fn kek_advice(&self) -> String {
        let file = self.node.identity.kek_file();
        let file = file.display();
        format!(
            "{file}, the key-encryption key of the cluster, is missing or damaged: copy it from another node; what is \
             beside it as kek.next can be removed, the other members hand it out again"
        )
    }

    /// The keys that were just stored.
    fn stored_keks(&self) -> Result<KekRing, Rejection> {
        let keks = KekRing::load(self.node.identity.clone()).map_err(|error| internal(&error))?;
        keks.ok_or_else(|| internal(&"the key-encryption key is missing"))
    }

    /// Rejects the request if this node already belongs to a cluster.
    fn require_no_cluster(&self) -> Result<(), Rejection> {
        let Some(member) = self.node.stage.load_full() else { return Ok(()) };
        let id = member.store.read(|state| state.meta.as_ref().map(|meta| meta.id.clone()));
        let cluster = id.map(|id| id.to_string()).unwrap_or_default();
        let message = format!("this daemon already belongs to cluster {cluster}");
        Err(Rejection::new(ErrorCode::ClusterAlreadyInitialized, message))
    }

    /// Removes the log of an `init` or `join` that was interrupted. The identity is stored last, so
    /// no peer knows of it.
    fn remove_unfinished(&self) -> Result<(), Rejection> {
        match std::fs::remove_dir_all(self.node.raft_dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(internal(&error));
            }
            Ok(()) | Err(_) => {}
        }
        self.node.identity.forget_raft_log().map_err(|error| internal(&error))
    }
}

impl Bootstrap {
    async fn create_cluster(
        &self,
        request: v1::InitRequest,
        by: Identity,
    ) -> Result<v1::InitResponse, Rejection> {
        let _joining = self.joining.lock().await;
        self.require_no_cluster()?;
        let networks = self.try_networks(request.networks.as_ref()).await?;
        self.remove_unfinished()?;
        let now = self.node.clock.now();
        let cluster = fresh_cluster_id();
        let authority =
            CertificateAuthority::create(&cluster, now).map_err(|error| internal(&error))?;
        let kek = KeyEncryptionKey::generate();
        let trust = TrustBundle::new(vec![authority.certificate().clone()])
            .map_err(|error| internal(&error))?;
        let key = self.node.identity.next_key().map_err(|error| internal(&error))?;
        let csr = NodeCsr::from_der(&key.request()).map_err(|error| internal(&error))?;
        let certificate = authority
            .sign(&csr, NodeId::FIRST, ca::NODE_LIFE, now)
            .map_err(|error| internal(&error))?;
        let mut first_token = OperatorToken::mint();
        first_token.id = TokenId::new(FIRST_TOKEN).map_err(|error| internal(&error))?;
        let name = match request.name.as_str() {
            "" => format!("jaco-{}", &cluster.as_str()[..8]),
            name => name.to_owned(),
        };
        let Networks { pool, router, refused } = networks;
        let pool_info = pool.as_ref().map(pool_info);
        let founding = Founding {
            by: by.clone(),
            pool,
            router,
            command: ClusterInit::new(
                ClusterMeta {
                    id: cluster.clone(),
                    name: name.clone(),
                    ca_certificate: trust.to_pem(),
                    sealed_ca_key: authority.seal_key(&kek),
                    created_at: now,
                },
                NewNode {
                    hostname: self.node.hostname.clone(),
                    address: self.node.advertised.clone(),
                    key_fingerprint: *csr.key_fingerprint().as_bytes(),
                    facts: self.node.facts.clone(),
                },
                token::OperatorToken {
                    id: first_token.id.clone(),
                    proof: jaco_state::token::Proof::Secret(*first_token.secret.hash().as_bytes()),
                    issued_at: now,
                    issued_by: by,
                    revoked_at: None,
                    expires_at: None,
                    rights: None,
                    last_used_at: None,
                },
            )
            .into(),
        };
        let credentials = Credentials::new(key, certificate.clone(), trust.clone(), now)
            .map_err(|error| internal(&error))?;
        store_keks(&self.node.identity, &kek, None).map_err(|error| internal(&error))?;
        let keks = self.stored_keks()?;
        self.start_member(credentials, keks, Some(founding))
            .await
            .map_err(|error| failed(&error))?;
        self.node.identity.install(&certificate, &trust).map_err(|error| internal(&error))?;
        Ok(v1::InitResponse {
            cluster_id: cluster.to_string(),
            name,
            operator_token: first_token.reveal().to_string(),
            ca_certificate_pem: trust.to_pem(),
            networks: pool_info,
            networks_refused: refused,
        })
    }

    /// Whether the cluster can have networks of its own, where that is asked for: as long as nobody can do without
    /// them, a cluster that cannot place anything would be worse than one without.
    async fn try_networks(&self, asked: Option<&v1::InitNetworks>) -> Result<Networks, Rejection> {
        let Some(asked) = asked else { return Ok(Networks::default()) };
        let pool = asked_pool(&asked.pool, asked.mtu)?;
        if self.node.config.engine == EngineKind::Fake {
            let refused = "the daemon pretends its containers (`engine: fake`)".to_owned();
            return Ok(Networks { refused, ..Networks::default() });
        }
        let mut process = member::router_process(&self.node);
        match try_router(&self.node.config.net.runtime_dir, &pool, &mut process).await {
            Ok(()) => {
                let (pool, router) = (Some(pool), Some(process));
                Ok(Networks { pool, router, refused: String::new() })
            }
            Err(refused) => {
                warn!(reason = %refused, "no router can be made, networks are those of each node");
                process.stop();
                Ok(Networks { refused, ..Networks::default() })
            }
        }
    }

    async fn join_cluster(
        &self,
        server: &str,
        token: &str,
    ) -> Result<v1::JoinClusterResponse, Rejection> {
        let _joining = self.joining.lock().await;
        self.require_no_cluster()?;
        self.remove_unfinished()?;
        let token: JoinToken = token.parse().map_err(|error| {
            let message = format!("the join token is malformed: {error}");
            Rejection::new(ErrorCode::JoinTokenInvalid, message)
        })?;
        let credentials = admit(&self.node, server, &token).await?;
        let name = credentials.certificate().name().clone();
        let keks = self.stored_keks()?;
        self.start_member(credentials, keks, None).await.map_err(|error| failed(&error))?;
        Ok(v1::JoinClusterResponse { cluster_id: name.cluster.to_string(), node_id: name.node.0 })
    }
}

/// Stores the key-encryption key, and the one that replaces it if that is known; nothing is left of another one.
fn store_keks(
    identity: &IdentityDir,
    kek: &KeyEncryptionKey,
    next: Option<&KeyEncryptionKey>,
) -> Result<(), FilesError> {
    identity.store_kek(kek)?;
    match next {
        Some(next) => identity.store_next_kek(next),
        None => identity.forget_next_kek(),
    }
}

/// Has a member admit this node, and stores what makes it one: once the cluster counts on it, it must start with the
/// same identity. A repeated call has the same result.
///
/// # Errors
/// The refusal of the member, or why its answer cannot be used.
pub(crate) async fn admit(
    node: &NodeContext,
    server: &str,
    token: &JoinToken,
) -> Result<Credentials, Rejection> {
    let key = node.identity.next_key().map_err(|error| internal(&error))?;
    let admitted = ask_admission(node, server, token, key.request()).await?;
    let now = node.clock.now();
    let trust =
        TrustBundle::from_pem(&admitted.ca_certificate_pem).map_err(|error| internal(&error))?;
    let certificate = ca::certificate_from_pem(&admitted.certificate_pem)
        .ok_or_else(|| internal(&"the cluster's answer holds no certificate"))?;
    let kek = KeyEncryptionKey::from_hex(&admitted.key_encryption_key);
    let kek = kek.ok_or_else(|| internal(&"the cluster's answer holds no key"))?;
    let next = match admitted.next_key_encryption_key.as_str() {
        "" => None,
        text => KeyEncryptionKey::from_hex(text)
            .ok_or_else(|| internal(&"the cluster's answer holds a damaged key"))
            .map(Some)?,
    };
    let credentials = Credentials::new(key, certificate.clone(), trust.clone(), now)
        .map_err(|error| internal(&error))?;
    store_keks(&node.identity, &kek, next.as_ref()).map_err(|error| internal(&error))?;
    node.identity.install(&certificate, &trust).map_err(|error| internal(&error))?;
    Ok(credentials)
}

/// Requests admission from a member, over a connection pinned to the CA in the token.
async fn ask_admission(
    node: &NodeContext,
    server: &str,
    token: &JoinToken,
    csr_der: Vec<u8>,
) -> Result<v1::AdmitNodeResponse, Rejection> {
    let dialer = Dialer::joiner(token).map_err(|error| internal(&error))?;
    let address = server.to_owned();
    let connect = tower::service_fn(move |_| {
        let (dialer, address) = (dialer.clone(), address.clone());
        async move { dialer.connect(address).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://member.internal")
        .connect_with_connector(connect)
        .await
        .map_err(|error| {
            let message = format!("cannot join through {server}: {}", chain(&error));
            Rejection::new(ErrorCode::Unavailable, message)
        })?;
    let request = AdmitNodeRequest {
        token: token.reveal().to_string(),
        hostname: node.hostname.to_string(),
        address: node.advertised.clone(),
        csr_der: csr_der.into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let answer = ClusterClient::new(channel).admit_node(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| from_status(&status))
}

fn fresh_cluster_id() -> ClusterId {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    ClusterId::new(&hex::encode(bytes)).expect("16 bytes are 32 hex digits")
}

fn internal(error: &dyn std::fmt::Display) -> Rejection {
    Rejection::new(ErrorCode::Internal, error.to_string())
}

fn failed(error: &anyhow::Error) -> Rejection {
    Rejection::new(ErrorCode::Internal, format!("{error:#}"))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
