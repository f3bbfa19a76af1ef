//! The daemon's life: no cluster at first, a member from `init` or `join` on, and again after
//! every restart.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use jaco_pki::{
    CertificateAuthority, Credentials, Dialer, IdentityDir, JoinToken, KeyEncryptionKey, NodeCsr,
    OperatorToken, TrustBundle, ca,
};
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::{self, AdmitNodeRequest};
use jaco_raft::Quorum;
use jaco_server::status::from_status;
use jaco_server::{Lifecycle, Stage, serve};
use jaco_state::command::NewNode;
use jaco_state::{ClusterMeta, Command, Outcome, token};
use jaco_store::{Clock, Proposal, Store, SystemClock};
use jaco_types::{ClusterId, ErrorCode, Hostname, Identity, NodeFacts, NodeId, Rejection, TokenId};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::UnixListener;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Endpoint;
use tracing::{info, warn};

use crate::config::Config;
use crate::facts::facts;
use crate::member::{Founding, MemberParts};

/// How long open requests may take to end. No loop but the agent's is waited for: whatever it was about,
/// the next daemon or the next leader does.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long the agent may take to finish what it has asked of the engine. Nothing is begun any more.
const AGENT_LIMIT: Duration = Duration::from_secs(5);

/// The name of the token that `cluster init` shows.
const FIRST_TOKEN: &str = "bootstrap";

/// The daemon.
pub(crate) struct Daemon {
    pub(crate) config: Config,
    pub(crate) hostname: Hostname,
    pub(crate) advertised: String,
    /// What it says about itself, apart from its engine's version.
    pub(crate) facts: NodeFacts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stage: Stage,
    pub(crate) shutdown: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// The agent, which has something to finish.
    pub(crate) agent: TaskTracker,
    identity: IdentityDir,
    /// Held while the node becomes a member: it can happen once only.
    becoming: Mutex<()>,
}

impl Daemon {
    /// Runs until `stop`, or until this node is removed from its cluster.
    pub(crate) async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
        let identity = IdentityDir::open(config.data_dir.join("node"))?;
        let daemon = Arc::new(Self {
            hostname: config.hostname()?,
            advertised: config.advertised()?,
            facts: facts(&config)?,
            clock: Arc::new(SystemClock),
            stage: Arc::new(ArcSwapOption::empty()),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
            agent: TaskTracker::new(),
            identity,
            becoming: Mutex::new(()),
            config,
        });
        daemon.resume().await?;
        let socket = daemon.bind_socket()?;
        let lifecycle: Arc<dyn Lifecycle> = Arc::new(Births(Arc::clone(&daemon)));
        let stage = Arc::clone(&daemon.stage);
        info!(node = %daemon.hostname, socket = %daemon.config.socket.display(), "ready");
        let serving = serve::serve_unix(socket, stage, lifecycle, daemon.shutdown.clone());
        let serving = tokio::spawn(serving);
        tokio::select! {
            () = stop.cancelled() => daemon.hand_over().await,
            () = daemon.shutdown.cancelled() => {}
        }
        let failure = daemon.failure();
        let goodbye = Instant::now() + GOODBYE;
        daemon.stop(goodbye).await;
        // Somebody who watches or follows would keep a connection open for ever.
        if let Ok(served) = tokio::time::timeout_at(goodbye, serving).await {
            served??;
        }
        match failure {
            None => Ok(()),
            Some(reason) => anyhow::bail!("consensus has failed, restart this daemon: {reason}"),
        }
    }

    /// Why consensus stopped by itself, if it did.
    fn failure(&self) -> Option<String> {
        self.stage.load().as_ref()?.store.raft().status().failure
    }

    /// Becomes the member that it was before the daemon was restarted.
    async fn resume(self: &Arc<Self>) -> anyhow::Result<()> {
        let credentials = match self.identity.load(self.clock.now()) {
            Ok(Some(credentials)) => credentials,
            Ok(None) => {
                info!("no cluster yet: waiting for `jaco cluster init` or `jaco cluster join`");
                return Ok(());
            }
            Err(error) => return Err(error).context("this node's identity cannot be used"),
        };
        let kek = self.identity.kek()?.context("this node's key-encryption key is missing")?;
        let _becoming = self.becoming.lock().await;
        self.start_member(credentials, kek, None).await?;
        Ok(())
    }

    fn bind_socket(&self) -> anyhow::Result<UnixListener> {
        use std::os::unix::fs::PermissionsExt;
        let path = &self.config.socket;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        // A socket that a killed daemon left behind. Two living daemons are told apart by the lock
        // on the data folder, not by this.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        if let Some(group) = self.config.socket_group {
            std::os::unix::fs::chown(path, None, Some(group))?;
        }
        Ok(listener)
    }

    /// Gives leadership away while everything still runs: who takes over has to reach this node.
    async fn hand_over(&self) {
        let Some(member) = self.stage.load_full().filter(|member| member.store.leads()) else {
            return;
        };
        if member.store.raft().status().quorum == Quorum::Lost {
            info!("leadership was not handed over: too few voters answer");
            return;
        }
        if let Err(error) = member.store.raft().transfer_leader().await {
            // The others elect a leader by themselves, only later.
            info!(%error, "leadership was not handed over");
        }
    }

    async fn stop(&self, goodbye: Instant) {
        self.shutdown.cancel();
        self.tasks.close();
        self.agent.close();
        if tokio::time::timeout_at(goodbye, self.tasks.wait()).await.is_err() {
            info!("open requests were cut off");
        }
        if tokio::time::timeout(AGENT_LIMIT, self.agent.wait()).await.is_err() {
            info!("the engine is still busy with what it was asked for");
        }
        if let Some(member) = self.stage.load_full()
            && let Err(error) = member.store.raft().shutdown().await
        {
            warn!(%error, "consensus did not stop in good order");
        }
        info!("stopped");
    }

    /// Runs one of the member's loops. It is left where it is when the daemon stops: it may be waiting
    /// for the answer of a quorum that is not there.
    pub(crate) fn run_until_shutdown(&self, service: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move { shutdown.run_until_cancelled_owned(service).await });
    }

    pub(crate) fn raft_dir(&self) -> PathBuf {
        self.config.data_dir.join("raft")
    }

    pub(crate) fn identity(&self) -> &IdentityDir {
        &self.identity
    }

    async fn start_member(
        self: &Arc<Self>,
        credentials: Credentials,
        kek: KeyEncryptionKey,
        founding: Option<Founding>,
    ) -> anyhow::Result<()> {
        let parts = MemberParts { credentials, kek, founding };
        crate::member::start(self, parts).await
    }

    /// Refuses when the node is a member already.
    fn check_unborn(&self) -> Result<(), Rejection> {
        let Some(member) = self.stage.load_full() else { return Ok(()) };
        let id = member.store.read(|state| state.meta.as_ref().map(|meta| meta.id.clone()));
        let cluster = id.map(|id| id.to_string()).unwrap_or_default();
        let message = format!("this daemon already belongs to cluster {cluster}");
        Err(Rejection::new(ErrorCode::ClusterAlreadyInitialized, message))
    }

    /// What an `init` or `join` that was cut short left behind. Nobody was told of that cluster:
    /// the identity is stored last.
    fn clear_unfinished(&self) -> Result<(), Rejection> {
        match std::fs::remove_dir_all(self.raft_dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(internal(&error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Turns the daemon into a member, at somebody's word.
pub(crate) struct Births(pub(crate) Arc<Daemon>);

#[async_trait]
impl Lifecycle for Births {
    async fn init(&self, name: &str, by: Identity) -> Result<v1::InitResponse, Rejection> {
        self.0.init(name, by).await
    }

    async fn join(&self, server: &str, token: &str) -> Result<v1::JoinClusterResponse, Rejection> {
        self.0.join(server, token).await
    }
}

impl Daemon {
    async fn init(
        self: &Arc<Self>,
        name: &str,
        by: Identity,
    ) -> Result<v1::InitResponse, Rejection> {
        let _becoming = self.becoming.lock().await;
        self.check_unborn()?;
        self.clear_unfinished()?;
        let now = self.clock.now();
        let cluster = fresh_cluster_id();
        let authority =
            CertificateAuthority::create(&cluster, now).map_err(|error| internal(&error))?;
        let kek = KeyEncryptionKey::generate();
        let trust = TrustBundle::new(vec![authority.certificate().clone()])
            .map_err(|error| internal(&error))?;
        let key = self.identity.next_key().map_err(|error| internal(&error))?;
        let csr = NodeCsr::from_der(&key.request()).map_err(|error| internal(&error))?;
        let certificate = authority
            .sign(&csr, NodeId::FIRST, ca::NODE_LIFE, now)
            .map_err(|error| internal(&error))?;
        let mut first_token = OperatorToken::mint();
        first_token.id = TokenId::new(FIRST_TOKEN).map_err(|error| internal(&error))?;
        let name = if name.is_empty() {
            format!("jaco-{}", &cluster.as_str()[..8])
        } else {
            name.to_owned()
        };
        let founding = Founding {
            by: by.clone(),
            command: Command::ClusterInit {
                meta: ClusterMeta {
                    id: cluster.clone(),
                    name: name.clone(),
                    ca_certificate: trust.to_pem(),
                    sealed_ca_key: authority.seal_key(&kek),
                    created_at: now,
                },
                node: NewNode {
                    hostname: self.hostname.clone(),
                    address: self.advertised.clone(),
                    key_fingerprint: *csr.key_fingerprint().as_bytes(),
                    facts: self.facts.clone(),
                },
                token: token::OperatorToken {
                    id: first_token.id.clone(),
                    secret_hash: *first_token.secret.hash().as_bytes(),
                    issued_at: now,
                    issued_by: by,
                    revoked_at: None,
                },
            },
        };
        let credentials = Credentials::new(key, certificate.clone(), trust.clone(), now)
            .map_err(|error| internal(&error))?;
        self.identity.store_kek(&kek).map_err(|error| internal(&error))?;
        self.start_member(credentials, kek, Some(founding))
            .await
            .map_err(|error| failed(&error))?;
        self.identity.install(&certificate, &trust).map_err(|error| internal(&error))?;
        Ok(v1::InitResponse {
            cluster_id: cluster.to_string(),
            name,
            operator_token: first_token.reveal().to_string(),
            ca_certificate_pem: trust.to_pem(),
        })
    }

    async fn join(
        self: &Arc<Self>,
        server: &str,
        token: &str,
    ) -> Result<v1::JoinClusterResponse, Rejection> {
        let _becoming = self.becoming.lock().await;
        self.check_unborn()?;
        self.clear_unfinished()?;
        let token: JoinToken = token.parse().map_err(|error| {
            let message = format!("the join token is malformed: {error}");
            Rejection::new(ErrorCode::JoinTokenInvalid, message)
        })?;
        let key = self.identity.next_key().map_err(|error| internal(&error))?;
        let admitted = ask_admission(self, server, &token, key.request()).await?;
        let now = self.clock.now();
        let trust = TrustBundle::from_pem(&admitted.ca_certificate_pem)
            .map_err(|error| internal(&error))?;
        let certificate = ca::certificate_from_pem(&admitted.certificate_pem)
            .ok_or_else(|| internal(&"the cluster's answer holds no certificate"))?;
        let kek = KeyEncryptionKey::from_hex(&admitted.key_encryption_key);
        let kek = kek.ok_or_else(|| internal(&"the cluster's answer holds no key"))?;
        let credentials = Credentials::new(key, certificate.clone(), trust.clone(), now)
            .map_err(|error| internal(&error))?;
        // Stored before it takes part: once the cluster counts on it, it must come back as itself.
        self.identity.store_kek(&kek).map_err(|error| internal(&error))?;
        self.identity.install(&certificate, &trust).map_err(|error| internal(&error))?;
        self.start_member(credentials, kek, None).await.map_err(|error| failed(&error))?;
        Ok(v1::JoinClusterResponse { cluster_id: admitted.cluster_id, node_id: admitted.node_id })
    }
}

/// Asks a member for admission, over a connection that is pinned to the authority in the token.
async fn ask_admission(
    daemon: &Daemon,
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
        hostname: daemon.hostname.to_string(),
        address: daemon.advertised.clone(),
        csr_der: csr_der.into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let answer = ClusterClient::new(channel).admit_node(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| from_status(&status))
}

/// Proposes the first command of a new cluster.
pub(crate) async fn found(store: &dyn Store, founding: Founding) -> anyhow::Result<()> {
    let Founding { by, command } = founding;
    let applied = store.propose(Proposal { by, request: None, command }).await?;
    anyhow::ensure!(
        applied.outcome == Outcome::NodeAdmitted { id: NodeId::FIRST },
        "the new cluster did not take its first command: {:?}",
        applied.outcome
    );
    Ok(())
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
