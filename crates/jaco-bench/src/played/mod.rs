//! Nodes that are played: members with certificates of their own that send heartbeats, facts and observations as daemons
//! do. Of consensus they are learners that say yes, or nothing at all.

mod learner;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hyper_util::rt::TokioIo;
use jaco_client::Client;
use jaco_pki::{CertificateStore, Credentials, Dialer, JoinToken, NodeKey, TrustBundle, ca};
use jaco_proto::storage::{Payload, encode_payload};
use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::peer_client::PeerClient;
use jaco_state::Command;
use jaco_state::command::{NodeReport, Observe};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    DeploymentName, Identity, InstanceId, InstanceObserved, NodeFacts, NodeId, ReplicaId,
    ReplicaState, ServiceKey, StateIndex, Timestamp,
};
use tokio::task::{AbortHandle, JoinSet};
use tonic::transport::{Channel, Endpoint};

use crate::heard::Heard;
use crate::ours::Ours;

/// How often a node says that it is there.
const BEAT: Duration = Duration::from_secs(1);

/// Members that are admitted over one connection, which is closed after a while because it has no certificate.
const JOINERS_MAX: usize = 50;

/// How long all replicas may take to be placed and told.
const PATIENCE: Duration = Duration::from_secs(600);

/// Observations of an entry, as an agent reports them after a start.
const AT_A_TIME: usize = 1_000;

/// What played members are to consensus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consensus {
    /// Nobody listens at their addresses.
    Absent,
    /// They take each append and say that they have it.
    Learners,
}

/// Members that are played; their heartbeats end with this.
#[derive(Debug)]
pub(crate) struct Played {
    members: BTreeMap<String, Member>,
    /// What each of them has heard of the log, if they are learners.
    pub(crate) heard: Vec<Heard>,
    beats: BTreeMap<String, AbortHandle>,
    _beating: JoinSet<()>,
    _listening: Vec<JoinSet<()>>,
}

#[derive(Debug, Clone)]
struct Member {
    id: NodeId,
    peer: PeerClient<Channel>,
}

impl Played {
    /// Admits so many members, called `p1` and so on, by the first node, which leads.
    ///
    /// # Errors
    /// If one is not admitted.
    pub(crate) async fn join(ours: &Ours, count: usize, consensus: Consensus) -> Result<Self> {
        let leader = ours.cluster.nodes[0].address.clone();
        let request =
            v1::IssueJoinTokenRequest { uses: u32::try_from(count)?, ..Default::default() };
        let issued = ours.cluster.nodes[0].client().issue_join_token(request).await?;
        let token: JoinToken = issued.token.parse().context("the join token")?;
        let mut joiner = over_tls(Dialer::joiner(&token)?, &leader).await?;
        let (mut members, mut heard, mut beats) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let (mut beating, mut listening) = (JoinSet::new(), Vec::new());
        for number in 1..=count {
            if number % JOINERS_MAX == 0 {
                joiner = over_tls(Dialer::joiner(&token)?, &leader).await?;
            }
            let name = format!("p{number}");
            let (mut member, store) =
                admit(joiner.clone(), &leader, &issued.token, &name, number).await?;
            if consensus == Consensus::Learners {
                let hears = Heard::default();
                let listens = learner::listen(&address(number), store, hears.clone()).await?;
                listening.push(listens);
                heard.push(hears);
            }
            member.propose(NodeReport::new(member.id, address(number), facts()).into()).await?;
            beats.insert(name.clone(), beating.spawn(member.clone().beat()));
            members.insert(name, member);
        }
        Ok(Self { members, heard, beats, _beating: beating, _listening: listening })
    }

    /// Ends the heartbeats of a member, which is connected and takes appends as before.
    pub(crate) fn silence(&self, name: &str) {
        self.beats[name].abort();
    }

    /// Tells that what they are to run runs, until that is so for `wanted` replicas.
    ///
    /// # Errors
    /// If that takes longer than ten minutes.
    pub(crate) async fn settle(&self, client: &Client, wanted: usize) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let status = client.read_status(v1::StatusRequest::default()).await?;
            let running = status.replicas.iter().filter(|it| it.state == "running").count();
            if running >= wanted {
                return Ok(());
            }
            self.tell(&status.replicas).await?;
        }
        bail!("not all of {wanted} replicas run after {PATIENCE:?}")
    }

    /// Tells, each node for itself, that those of these replicas run that are to run on played members and are not said to run yet.
    async fn tell(&self, replicas: &[v1::ReplicaInfo]) -> Result<()> {
        let mut news: BTreeMap<&str, Vec<InstanceObserved>> = BTreeMap::new();
        for replica in replicas.iter().filter(|it| it.state != "running") {
            let Some(member) = self.members.get(&replica.node) else { continue };
            news.entry(&replica.node).or_default().push(running(replica, member.id)?);
        }
        let mut telling = JoinSet::new();
        for (node, observed) in news {
            let mut member = self.members[node].clone();
            telling.spawn(async move {
                for part in observed.chunks(AT_A_TIME) {
                    member.propose(Observe::new(member.id).observed(part.to_vec()).into()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(told) = telling.join_next().await {
            told.context("a played node panicked")??;
        }
        Ok(())
    }
}

impl Member {
    async fn beat(mut self) {
        let mut beats = tokio::time::interval(BEAT);
        loop {
            beats.tick().await;
            let beat =
                v1::HeartbeatRequest { node: self.id.0, engine_up: true, ..Default::default() };
            // The next one comes in a moment.
            let _missed = self.peer.heartbeat(beat).await;
        }
    }

    async fn propose(&mut self, command: Command) -> Result<()> {
        let payload = Payload {
            at: Timestamp(0),
            by: Identity::Node { id: self.id },
            origin: None,
            request: None,
            command,
        };
        let request = v1::ProposeRequest { payload: encode_payload(&payload) };
        self.peer.propose(request).await?;
        Ok(())
    }
}

async fn admit(
    joiner: Channel,
    leader: &str,
    token: &str,
    hostname: &str,
    number: usize,
) -> Result<(Member, Arc<CertificateStore>)> {
    let key = NodeKey::generate();
    let request = v1::AdmitNodeRequest {
        token: token.to_owned(),
        hostname: hostname.to_owned(),
        address: address(number),
        csr_der: key.request().into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let admitted = ClusterClient::new(joiner).admit_node(request).await?.into_inner();
    let trust = TrustBundle::from_pem(&admitted.ca_certificate_pem)?;
    let certificate = ca::certificate_from_pem(&admitted.certificate_pem);
    let certificate = certificate.context("the answer has no certificate")?;
    let credentials = Credentials::new(key, certificate, trust, now()?)?;
    let store = CertificateStore::new(credentials)?;
    // The first node leads.
    let dialer = Dialer::peer(Arc::clone(&store), NodeId::FIRST);
    let peer = PeerClient::new(over_tls(dialer, leader).await?);
    Ok((Member { id: NodeId(admitted.node_id), peer }, store))
}

async fn over_tls(dialer: Dialer, address: &str) -> Result<Channel> {
    let address = address.to_owned();
    let connector = tower::service_fn(move |_| {
        let (dialer, address) = (dialer.clone(), address.clone());
        async move { dialer.connect(address).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://member.internal");
    Ok(endpoint.connect_with_connector(connector).await?)
}

/// A loopback address that only this node has. Where nobody listens, consensus is refused there at once.
fn address(number: usize) -> String {
    format!("127.200.{}.{}:7000", number / 250, number % 250 + 1)
}

fn facts() -> NodeFacts {
    NodeFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        os: "linux".to_owned(),
        arch: "amd64".to_owned(),
        engine: "played".to_owned(),
        capacity: Resources { cpu: MilliCores(64_000), memory: Bytes(256 << 30) },
        ..NodeFacts::default()
    }
}

fn running(replica: &v1::ReplicaInfo, node: NodeId) -> Result<InstanceObserved> {
    ensure!(replica.raft_index > 0, "{} has no instance", replica.id);
    let id = InstanceId {
        replica: ReplicaId::parse(&replica.id)?,
        raft_index: StateIndex(replica.raft_index),
    };
    let service = ServiceKey {
        deployment: DeploymentName::new(&replica.deployment)?,
        service: replica.service.parse()?,
    };
    let now = now()?;
    Ok(InstanceObserved {
        container_id: format!("{:064x}", replica.raft_index),
        id,
        service,
        node,
        state: ReplicaState::Running,
        code: None,
        details: BTreeMap::new(),
        ports: BTreeMap::new(),
        started_at: Some(now),
        since: now,
        exit: None,
    })
}

fn now() -> Result<Timestamp> {
    let since = std::time::UNIX_EPOCH.elapsed()?;
    Ok(Timestamp(u64::try_from(since.as_millis())?))
}
