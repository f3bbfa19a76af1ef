//! Where replicas can be reached, for what sends traffic to them; and the word of those who are
//! waited for, on its way to the leader. Answered by any node from its own state.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;
use jaco_proto::v1;
use jaco_proto::v1::routing_request::Kind;
use jaco_proto::v1::routing_server::Routing;
use jaco_state::view::{Endpoint, endpoints};
use jaco_state::{ClusterState, Command, Outcome};
use jaco_store::{Proposal, Store};
use jaco_types::{
    ConsumerName, DeploymentName, ErrorCode, Identity, Millis, Rejection, ServiceKey, StateIndex,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::debug;

use super::Context;
use crate::member::Member;
use crate::status::{from_propose_error, invalid, to_status};
use crate::view::hostname;

/// Versions that may wait for a slow consumer. A newer one makes the older ones worthless, but the
/// consumer has to see that each of them is there.
const VERSIONS_BUFFER: usize = 4;

/// How long the silence of a consumer that names no lease is borne.
const LEASE: Millis = Millis(5000);

/// How often the leader is told that a consumer lives: well within the shortest lease.
const BEAT: Duration = Duration::from_millis(300);

/// How long telling the leader may take.
const DEADLINE: Duration = Duration::from_secs(1);

type Versions = Pin<Box<dyn Stream<Item = Result<v1::RoutingResponse, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub struct RoutingService {
    context: Context,
}

impl RoutingService {
    /// The service over this context.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Routing for RoutingService {
    type WatchStream = Versions;

    async fn watch(
        &self,
        request: Request<Streaming<v1::RoutingRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let mut requests = request.into_inner();
        let Some(v1::RoutingRequest { kind: Some(Kind::Attach(attach)) }) =
            requests.message().await?
        else {
            return Err(to_status(&invalid("the first message must attach")));
        };
        member.recovered().await;
        let follower = Follower::attach(member, &attach).await;
        let follower = follower.map_err(|rejection| to_status(&rejection))?;
        let (sender, receiver) = mpsc::channel(VERSIONS_BUFFER);
        tokio::spawn(follower.run(requests, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// One that follows the endpoints over one stream.
struct Follower {
    member: Arc<Member>,
    deployment: Option<DeploymentName>,
    /// Under which it is waited for; absent for one that only looks.
    attached: Option<Attached>,
    /// The last list that was sent, and since which state it is the list.
    sent: Option<(StateIndex, Endpoints)>,
    /// The newest state that is known to have that list.
    current: StateIndex,
    /// The version that the consumer follows.
    acknowledged: StateIndex,
}

type Endpoints = BTreeMap<ServiceKey, Vec<Endpoint>>;

#[derive(Clone)]
struct Attached {
    name: ConsumerName,
    session: StateIndex,
}

/// What can happen to a follower.
enum Event {
    State,
    Acknowledged(u64),
    Beat,
    /// The consumer ended the stream by itself.
    Left,
    /// The connection is lost, or the daemon stops: the consumer may go on with what it has.
    Lost,
}

impl Follower {
    async fn attach(member: Arc<Member>, attach: &v1::RoutingAttach) -> Result<Self, Rejection> {
        let deployment = match attach.deployment.as_str() {
            "" => None,
            name => Some(DeploymentName::new(name).map_err(invalid)?),
        };
        let attached = match attach.consumer.as_str() {
            "" => None,
            name => {
                let name = ConsumerName::new(name).map_err(invalid)?;
                let lease = if attach.lease_ms == 0 { LEASE } else { Millis(attach.lease_ms) };
                let node = member.id;
                let command = Command::ConsumerAttach { name: name.clone(), node, lease };
                let session = propose(&member, command).await?;
                Some(Attached { name, session })
            }
        };
        let (current, acknowledged) = (StateIndex(0), StateIndex(0));
        Ok(Self { member, deployment, attached, sent: None, current, acknowledged })
    }

    async fn run(
        mut self,
        mut requests: Streaming<v1::RoutingRequest>,
        versions: mpsc::Sender<Result<v1::RoutingResponse, Status>>,
    ) {
        let mut index = self.member.store.watch_index();
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut event = Event::State;
        loop {
            match event {
                Event::State => {
                    if let Some(rejection) = self.replaced() {
                        versions.send(Err(to_status(&rejection))).await.ok();
                        return;
                    }
                    index.borrow_and_update();
                    if let Some(version) = self.look()
                        && versions.send(Ok(version)).await.is_err()
                    {
                        return;
                    }
                    self.tell_if_awaited().await;
                }
                Event::Acknowledged(version) => {
                    self.acknowledged = self.acknowledged.max(StateIndex(version));
                    self.tell().await;
                }
                Event::Beat => self.tell().await,
                Event::Left => return self.detach().await,
                Event::Lost => return,
            }
            event = tokio::select! {
                changed = index.changed() => match changed {
                    Ok(()) => Event::State,
                    Err(_) => Event::Lost,
                },
                request = requests.message() => match request {
                    Ok(Some(v1::RoutingRequest { kind: Some(Kind::Acknowledge(known)) })) => {
                        Event::Acknowledged(known.version)
                    }
                    Ok(Some(_)) => {
                        let rejection = invalid("a stream attaches once");
                        versions.send(Err(to_status(&rejection))).await.ok();
                        Event::Left
                    }
                    Ok(None) => Event::Left,
                    Err(_) => Event::Lost,
                },
                _ = beats.tick() => Event::Beat,
                () = versions.closed() => Event::Lost,
            };
        }
    }

    /// Why this stream ends, if the attachment did. The attachment may not be here yet.
    fn replaced(&self) -> Option<Rejection> {
        let Attached { name, session } = self.attached.as_ref()?;
        let state = self.member.store.read(|state| {
            (state.index, state.consumers.get(name).map(|consumer| consumer.session))
        });
        let (index, known) = state;
        if index < *session || known == Some(*session) {
            return None;
        }
        let message = match known {
            Some(_) => format!("another consumer attached as {name}"),
            None => format!("consumer {name} was silent for longer than its lease: attach again"),
        };
        Some(Rejection::new(ErrorCode::StalePlan, message))
    }

    /// The endpoints, if they differ from those sent last.
    fn look(&mut self) -> Option<v1::RoutingResponse> {
        let state = self.member.store.snapshot();
        self.current = state.index;
        let now = endpoints(&state, self.deployment.as_ref());
        if self.sent.as_ref().is_some_and(|(_, sent)| *sent == now) {
            return None;
        }
        let services = now.iter().map(|(key, endpoints)| routed(&state, key, endpoints)).collect();
        self.sent = Some((state.index, now));
        Some(v1::RoutingResponse { version: state.index.0, services })
    }

    /// The newest state whose endpoints the consumer follows: where it has acknowledged the list that
    /// was sent last, that is every state since which had the same list.
    fn follows(&self) -> StateIndex {
        match &self.sent {
            Some((version, _)) if self.acknowledged >= *version => self.current,
            Some(_) | None => self.acknowledged.min(self.current),
        }
    }

    /// Tells the leader at once where a replica may be waiting for it.
    async fn tell_if_awaited(&self) {
        if self.attached.is_none() {
            return;
        }
        let follows = self.follows();
        let is_awaited = self
            .member
            .store
            .read(|state| state.leaving.values().any(|leaving| leaving.left_at <= follows));
        if is_awaited {
            self.tell().await;
        }
    }

    async fn tell(&self) {
        let Some(Attached { name, session }) = self.attached.clone() else { return };
        let (member, acknowledged) = (&self.member, self.follows());
        if member.store.leads() {
            let now = member.clock.now();
            return member.signals.record_consumer(name, session, acknowledged, now);
        }
        let Some((node, address)) = member.store.leader_elsewhere() else { return };
        let message = v1::ConsumerRequest {
            consumer: name.to_string(),
            session: session.0,
            acknowledged: acknowledged.0,
        };
        if let Err(error) = member.peers.consumer((node, &address), message, DEADLINE).await {
            // The leader may just be changing; it is told again at the next beat.
            debug!(leader = %node, consumer = %name, %error, "a consumer's word was not taken");
        }
    }

    async fn detach(&self) {
        let Some(Attached { name, session }) = self.attached.clone() else { return };
        let command = Command::ConsumerDetach { name: name.clone(), session };
        if let Err(error) = propose(&self.member, command).await {
            debug!(consumer = %name, %error, "could not be detached; its lease runs out");
        }
    }
}

/// Writes a command in this node's own name; the entry that it became.
async fn propose(member: &Member, command: Command) -> Result<StateIndex, Rejection> {
    let by = Identity::Node { id: member.id };
    let applied = member.store.propose(Proposal { by, request: None, command }).await;
    let applied = applied.map_err(|error| from_propose_error(&error))?;
    match applied.outcome {
        Outcome::Rejected(rejection) => Err(rejection),
        Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => {
            Ok(applied.index)
        }
    }
}

fn routed(state: &ClusterState, key: &ServiceKey, endpoints: &[Endpoint]) -> v1::RoutedService {
    let endpoint = |endpoint: &Endpoint| v1::RoutedEndpoint {
        replica: endpoint.id.replica.to_string(),
        raft_index: endpoint.id.raft_index.0,
        node: hostname(state, endpoint.node),
        container_id: endpoint.container_id.clone(),
        ports: endpoint.ports.iter().map(|(port, at)| (u32::from(*port), at.clone())).collect(),
    };
    v1::RoutedService {
        deployment: key.deployment.to_string(),
        service: key.service.to_string(),
        endpoints: endpoints.iter().map(endpoint).collect(),
    }
}
