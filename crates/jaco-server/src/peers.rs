//! Connections to the other members, over mutual TLS: a kept one to each for calls, and one for each stream
//! that its reader may stall.

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
use jaco_proto::v1::volume_writes_client::VolumeWritesClient;
use jaco_proto::v1::volumes_client::VolumesClient;
use jaco_proto::v1::{
    AcknowledgeEndpointsRequest, EdgeTrafficRequest, EdgeTrafficResponse, FetchKekRequest,
    FetchKekResponse, ForwardRequest, HeartbeatRequest, HeartbeatResponse, ProbeEdgeRequest,
    ProbeEdgeResponse, ProbeRouterRequest, ProbeRouterResponse, ProposeRequest, PullsRequest,
    PullsResponse, RaftRequest,
};
use jaco_raft::StreamRenewal;
use jaco_types::{ErrorCode, KekId, NodeId, Rejection};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::status::from_status;

/// Maximum size of a message between peers: an entry of 4 MiB and its envelope.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Interval of HTTP/2 pings on an idle connection, so that a dead peer is noticed. Long, because raft itself
/// sends far more often.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Length of the frames that others may answer in. Each is encrypted and sent by itself, so short ones cost a call of the
/// system for every 16 KiB of a volume.
const FRAME_BYTES: u32 = 128 << 10;

/// Connections of this node to the other members. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Peers {
    store: Arc<CertificateStore>,
    channels: Arc<Mutex<BTreeMap<(NodeId, String), Channel>>>,
    streams: StreamRenewal,
}

impl Peers {
    /// Connects at the first call.
    #[must_use]
    pub fn new(store: Arc<CertificateStore>) -> Self {
        Self { store, channels: Arc::default(), streams: StreamRenewal::default() }
    }

    /// What this node shows to the others and trusts, and the connections that it has opened.
    #[must_use]
    pub fn certificates(&self) -> &CertificateStore {
        &self.store
    }

    /// When raft streams are to be replaced.
    #[must_use]
    pub fn streams(&self) -> &StreamRenewal {
        &self.streams
    }

    /// Gives all kept connections up: each ends with its last answer, and the next call opens a new one.
    pub fn reopen(&self) {
        self.channels.lock().expect("no holder of the lock panics").clear();
    }

    /// The kept connection to a member, opened by the first call and again after a failure.
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
        // The URI is a label only: the dialer has the address and the identity.
        Endpoint::from_static("http://member.internal")
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)
            .max_frame_size(FRAME_BYTES)
            .connect_with_connector_lazy(connect)
    }

    /// Closes connections to nodes that are not in `members`, or have another address there.
    pub fn retain(&self, members: &BTreeMap<NodeId, String>) {
        let mut channels = self.channels.lock().expect("no holder of the lock panics");
        channels.retain(|(node, address), _| members.get(node) == Some(address));
    }

    /// The peer service of a member.
    #[must_use]
    pub fn peer(&self, node: NodeId, address: &str) -> PeerClient<Channel> {
        PeerClient::new(self.channel(node, address))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The query service of a member.
    #[must_use]
    pub fn query(&self, node: NodeId, address: &str) -> QueryClient<Channel> {
        QueryClient::new(self.channel(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The query service of a member, over a connection of its own: a kept one may be dead without either side knowing
    /// it, as after a pause of one of the machines, and says nothing about whether the member can be reached now.
    #[must_use]
    pub fn probe(&self, node: NodeId, address: &str) -> QueryClient<Channel> {
        QueryClient::new(self.open(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The cluster service of a member.
    #[must_use]
    pub fn cluster(&self, node: NodeId, address: &str) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The exec service of a member, over a connection of its own: a stalled reader would otherwise block the
    /// calls that share the connection.
    #[must_use]
    pub fn exec(&self, node: NodeId, address: &str) -> ExecClient<Channel> {
        ExecClient::new(self.open(node, address))
    }

    /// The volumes service of a member.
    #[must_use]
    pub fn volumes(&self, node: NodeId, address: &str) -> VolumesClient<Channel> {
        VolumesClient::new(self.channel(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// As [`Self::volumes`], over a connection of its own, as for [`Self::exec`].
    #[must_use]
    pub fn volume_reads(&self, node: NodeId, address: &str) -> VolumesClient<Channel> {
        VolumesClient::new(self.open(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The service of a member for writes of volumes, over a connection of its own, as for [`Self::exec`].
    #[must_use]
    pub fn volume_writes(&self, node: NodeId, address: &str) -> VolumeWritesClient<Channel> {
        VolumeWritesClient::new(self.open(node, address))
    }

    /// The query service of a member for log streams, over a connection of its own, as for [`Self::exec`].
    #[must_use]
    pub fn logs(&self, node: NodeId, address: &str) -> QueryClient<Channel> {
        QueryClient::new(self.open(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The peer service of a member for blobs of images, over a connection of its own, as for [`Self::exec`].
    #[must_use]
    pub fn blobs(&self, node: NodeId, address: &str) -> PeerClient<Channel> {
        PeerClient::new(self.open(node, address)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Opens a raft stream. The connection is not kept.
    ///
    /// # Errors
    /// When the member is unreachable, or another node answers.
    pub async fn raft_stream(
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

    /// Forwards a request to the leader.
    ///
    /// # Errors
    /// The refusal of the leader, or `unavailable` when it is unreachable.
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

    /// Sends a heartbeat to the leader.
    ///
    /// # Errors
    /// When the leader is unreachable or refuses it.
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

    /// Asks the leader for the image pulls of nodes.
    ///
    /// # Errors
    /// When the leader is unreachable or leads no more.
    pub async fn pulls(
        &self,
        (node, address): (NodeId, &str),
        message: PullsRequest,
        deadline: Duration,
    ) -> Result<PullsResponse, Rejection> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).pulls(request)).await;
        answer.map_err(|status| from_status(&status))
    }

    /// Asks a member what its router holds and reaches.
    ///
    /// # Errors
    /// When the member is unreachable, or runs a version without this question.
    pub async fn probe_router(
        &self,
        (node, address): (NodeId, &str),
        message: ProbeRouterRequest,
        deadline: Duration,
    ) -> Result<ProbeRouterResponse, Rejection> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).probe_router(request)).await;
        answer.map_err(|status| from_status(&status))
    }

    /// Asks a member for a key of a rotation in progress.
    ///
    /// # Errors
    /// When the member is unreachable, or does not have it.
    pub async fn fetch_kek(
        &self,
        (node, address): (NodeId, &str),
        key: KekId,
        deadline: Duration,
    ) -> Result<FetchKekResponse, Rejection> {
        let mut request = Request::new(FetchKekRequest { key: key.0.to_vec().into() });
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).fetch_kek(request)).await;
        answer.map_err(|status| from_status(&status))
    }

    /// Asks a member what its edge has answered lately.
    ///
    /// # Errors
    /// When the member is unreachable, or runs a version without this question.
    pub async fn edge_traffic(
        &self,
        (node, address): (NodeId, &str),
        deadline: Duration,
    ) -> Result<EdgeTrafficResponse, Rejection> {
        let mut request = Request::new(EdgeTrafficRequest {});
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).edge_traffic(request)).await;
        answer.map_err(|status| from_status(&status))
    }

    /// Asks a member what a request would meet at its edge.
    ///
    /// # Errors
    /// When the member is unreachable, or runs a version without this question.
    pub async fn probe_edge(
        &self,
        (node, address): (NodeId, &str),
        message: ProbeEdgeRequest,
        deadline: Duration,
    ) -> Result<ProbeEdgeResponse, Rejection> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer = within(deadline, self.peer(node, address).probe_edge(request)).await;
        answer.map_err(|status| from_status(&status))
    }

    /// Reports the acknowledgement of an endpoint consumer to the leader.
    ///
    /// # Errors
    /// When the leader is unreachable or refuses it.
    pub async fn acknowledge_endpoints(
        &self,
        (node, address): (NodeId, &str),
        message: AcknowledgeEndpointsRequest,
        deadline: Duration,
    ) -> Result<(), Rejection> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer =
            within(deadline, self.peer(node, address).acknowledge_endpoints(request)).await;
        answer.map(drop).map_err(|status| from_status(&status))
    }
}

/// The response of a call. The deadline of the request begins with the connection; a hung member accepts
/// bytes but completes no handshake, so connecting needs a deadline as well.
async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("no response before the deadline")),
    }
}

/// The refusal of a request while there is no leader.
#[must_use]
pub(crate) fn no_leader() -> Rejection {
    Rejection::new(
        ErrorCode::NoLeader,
        "the cluster has no leader at the moment: try again in a few seconds",
    )
}
