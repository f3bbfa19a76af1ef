//! Connections to the other members, over mutual TLS: one each, kept, for calls; and one for each stream
//! that may stall.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use jaco_pki::{CertificateStore, DialError, DialedConnection, Dialer};
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::exec_client::ExecClient;
use jaco_proto::v1::peer_client::PeerClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_proto::v1::{
    ConsumerRequest, ForwardRequest, HeartbeatRequest, HeartbeatResponse, ProposeRequest,
    RaftRequest,
};
use jaco_types::{ErrorCode, NodeId, Rejection};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::status::from_status;

/// The largest message that peers exchange: an entry of 4 MiB and its envelope.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Quiet connections are asked for a sign of life this often, so that a peer that vanished without
/// a word is noticed. Rare, because raft itself speaks far more often to whoever it needs.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The other members, as this node reaches them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Peers {
    store: Arc<CertificateStore>,
    channels: Arc<Mutex<BTreeMap<(NodeId, String), Channel>>>,
}

impl Peers {
    /// No connection is made before the first call.
    #[must_use]
    pub fn new(store: Arc<CertificateStore>) -> Self {
        Self { store, channels: Arc::default() }
    }

    /// A connection to this member; opened by the first call and again after a failure.
    fn channel(&self, node: NodeId, address: &str) -> Channel {
        let mut channels = self.channels.lock().expect("no holder of the lock panics");
        let key = (node, address.to_owned());
        channels.entry(key).or_insert_with(|| self.open(node, address)).clone()
    }

    fn open(&self, node: NodeId, address: &str) -> Channel {
        let dialer = Dialer::peer(Arc::clone(&self.store), node);
        let address = address.to_owned();
        let connect = tower::service_fn(move |_| {
            let (dialer, address) = (dialer.clone(), address.clone());
            async move { dialer.connect(address).await.map(TokioIo::new) }
        });
        // The URI is only a label: where to connect and whom to trust is the dialer's.
        Endpoint::from_static("http://member.internal")
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)
            .connect_with_connector_lazy(connect)
    }

    /// Forgets the connections to members that are not in `members` any more.
    pub fn retain(&self, members: &BTreeMap<NodeId, String>) {
        let mut channels = self.channels.lock().expect("no holder of the lock panics");
        channels.retain(|(node, address), _| members.get(node) == Some(address));
    }

    /// What members say to each other.
    #[must_use]
    pub fn peer(&self, node: NodeId, address: &str) -> PeerClient<Channel> {
        PeerClient::new(self.channel(node, address))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// What people ask, asked on their behalf.
    #[must_use]
    pub fn query(&self, node: NodeId, address: &str) -> QueryClient<Channel> {
        QueryClient::new(self.channel(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// What people ask of a node itself, asked on their behalf.
    #[must_use]
    pub fn cluster(&self, node: NodeId, address: &str) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Commands in containers, run on somebody's behalf. Over a connection of its own: a reader who stops
    /// taking what comes would else hold up the calls that share it.
    #[must_use]
    pub fn exec(&self, node: NodeId, address: &str) -> ExecClient<Channel> {
        ExecClient::new(self.open(node, address))
    }

    /// Lines of containers, followed on somebody's behalf. Over a connection of its own, as commands are.
    #[must_use]
    pub fn logs(&self, node: NodeId, address: &str) -> QueryClient<Channel> {
        QueryClient::new(self.open(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Opens a line for frames of the consensus protocol; it is not kept.
    ///
    /// # Errors
    /// When the member cannot be reached, or somebody else answers.
    pub async fn raft_line(
        &self,
        node: NodeId,
        address: &str,
    ) -> Result<DialedConnection, DialError> {
        Dialer::raft(Arc::clone(&self.store), node).connect(address).await
    }

    /// Sends a message of the consensus protocol.
    ///
    /// # Errors
    /// The status of the call; a missing connection is `unavailable`.
    pub async fn raft(
        &self,
        (node, address): (NodeId, &str),
        message: RaftRequest,
        deadline: Duration,
    ) -> Result<Bytes, Status> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        Ok(within(deadline, self.peer(node, address).raft(request)).await?.body)
    }

    /// Sends a proposal to the leader.
    ///
    /// # Errors
    /// The status of the call.
    pub async fn propose(
        &self,
        (node, address): (NodeId, &str),
        payload: Bytes,
        deadline: Duration,
    ) -> Result<(u64, Bytes), Status> {
        let mut request = Request::new(ProposeRequest { payload });
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).propose(request)).await?;
        Ok((answer.index, answer.outcome))
    }

    /// Sends a person's request to the leader.
    ///
    /// # Errors
    /// The leader's refusal, or `unavailable` when it cannot be reached.
    pub async fn forward(
        &self,
        (node, address): (NodeId, &str),
        message: ForwardRequest,
        deadline: Duration,
    ) -> Result<Bytes, Rejection> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).forward(request)).await;
        answer.map(|answer| answer.body).map_err(|status| from_status(&status))
    }

    /// Sends a sign of life to the leader.
    ///
    /// # Errors
    /// When the leader cannot be reached or refuses it.
    pub async fn heartbeat(
        &self,
        (node, address): (NodeId, &str),
        message: HeartbeatRequest,
        deadline: Duration,
    ) -> Result<HeartbeatResponse, Rejection> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).heartbeat(request)).await;
        answer.map_err(|status| from_status(&status))
    }

    /// Tells the leader what a consumer of endpoints acknowledges.
    ///
    /// # Errors
    /// When the leader cannot be reached or refuses it.
    pub async fn consumer(
        &self,
        (node, address): (NodeId, &str),
        message: ConsumerRequest,
        deadline: Duration,
    ) -> Result<(), Rejection> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).consumer(request)).await;
        answer.map(drop).map_err(|status| from_status(&status))
    }
}

/// The answer of a call. Its own deadline begins once there is a connection; a member that hangs takes
/// what is sent and completes no handshake, so the wait for a connection must have an end as well.
async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

/// No leader is known, so there is nobody to ask.
#[must_use]
pub fn no_leader() -> Rejection {
    Rejection::new(ErrorCode::NoLeader, "there is no leader at the moment")
}
