//! The routing service: endpoints for proxies and load balancers, and the acknowledgements of their consumers to
//! the leader. Any node answers from its own state.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;
use jaco_proto::v1;
use jaco_proto::v1::routing_request::Kind;
use jaco_proto::v1::routing_server::Routing;
use jaco_state::ClusterState;
use jaco_state::view::{Endpoint, endpoints};
use jaco_store::Store;
use jaco_types::{
    Acknowledgement, ConsumerName, DeploymentName, Millis, Rejection, Role, ServiceKey, StateIndex,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::context::Context;
use crate::auth::permission::Concern;
use crate::consumer::ConsumerSession;
use crate::member::Member;
use crate::status::{invalid, to_status};
use crate::view::{hostname, is_up};

/// Capacity of the queue of versions for a slow consumer.
const VERSIONS_BUFFER: usize = 4;

/// Default lease duration.
const LEASE: Millis = Millis(5000);

/// Interval at which the lease of a consumer is renewed at the leader, well within the shortest lease.
const RENEWAL: Duration = Duration::from_millis(300);

type Versions = Pin<Box<dyn Stream<Item = Result<v1::RoutingResponse, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub(crate) struct RoutingService {
    context: Context,
}

impl RoutingService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
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
        let (member, by) = self.context.identify(&request)?;
        let mut requests = request.into_inner();
        let Some(v1::RoutingRequest { kind: Some(Kind::Attach(attach)) }) =
            requests.message().await?
        else {
            return Err(to_status(&invalid(
                "the first message of a routing stream must be `attach`",
            )));
        };
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        if !attach.consumer.is_empty() {
            let admitted = member.admit(&by, [Concern::Role(Role::Operator)]);
            admitted.map_err(|rejection| to_status(&rejection))?;
        }
        let watcher = Watcher::attach(member, &attach).await;
        let watcher = watcher.map_err(|rejection| to_status(&rejection))?;
        let (sender, receiver) = mpsc::channel(VERSIONS_BUFFER);
        tokio::spawn(watcher.run(requests, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// A consumer that watches the endpoints over one stream.
struct Watcher {
    member: Arc<Member>,
    deployment: Option<DeploymentName>,
    /// Absent for a consumer without a name, which nothing waits for.
    attached: Option<ConsumerSession>,
    /// The endpoints that were sent last, and the first state that had them.
    sent: Option<(StateIndex, Endpoints)>,
    /// The newest state that is known to have those endpoints.
    current: StateIndex,
    /// The version that the consumer has acknowledged.
    acknowledged: StateIndex,
}

type Endpoints = BTreeMap<ServiceKey, Vec<Endpoint>>;

/// What a watcher reacts to.
enum Event {
    State,
    Acknowledged(u64),
    Renewal,
    /// The consumer ended the stream.
    Detached,
    /// The connection was lost, or the daemon shuts down: the consumer may continue with the endpoints it has.
    Lost,
}

impl Watcher {
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
                Some(ConsumerSession::attach(Arc::clone(&member), name, lease).await?)
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
        let mut renewals = tokio::time::interval(RENEWAL);
        renewals.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut event = Event::State;
        loop {
            match event {
                Event::State => {
                    if let Some(rejection) = self.replaced() {
                        versions.send(Err(to_status(&rejection))).await.ok();
                        return;
                    }
                    index.borrow_and_update();
                    if let Some(version) = self.changed()
                        && versions.send(Ok(version)).await.is_err()
                    {
                        return;
                    }
                    self.acknowledge_if_awaited().await;
                }
                Event::Acknowledged(version) => {
                    self.acknowledged = self.acknowledged.max(StateIndex(version));
                    self.acknowledge().await;
                }
                Event::Renewal => self.acknowledge().await,
                Event::Detached => return self.detach().await,
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
                        let rejection = invalid("a routing stream attaches only once");
                        versions.send(Err(to_status(&rejection))).await.ok();
                        Event::Detached
                    }
                    Ok(None) => Event::Detached,
                    Err(_) => Event::Lost,
                },
                _ = renewals.tick() => Event::Renewal,
                () = versions.closed() => Event::Lost,
            };
        }
    }

    /// Why this stream must end: the consumer was replaced or its lease has expired.
    fn replaced(&self) -> Option<Rejection> {
        self.attached.as_ref()?.ended()
    }

    /// The endpoints, if they differ from those that were sent last.
    fn changed(&mut self) -> Option<v1::RoutingResponse> {
        let state = self.member.store.snapshot();
        self.current = state.index;
        let mut now = endpoints(&state, self.deployment.as_ref());
        for endpoints in now.values_mut() {
            endpoints.retain(|endpoint| is_up(&state, endpoint.node));
        }
        if self.sent.as_ref().is_some_and(|(_, sent)| *sent == now) {
            return None;
        }
        let services = now.iter().map(|(key, endpoints)| routed(&state, key, endpoints)).collect();
        self.sent = Some((state.index, now));
        Some(v1::RoutingResponse { version: state.index.0, services })
    }

    /// The newest state whose endpoints the consumer uses. If it has acknowledged those that were sent last, that
    /// is the newest state with the same endpoints.
    fn acknowledged_state(&self) -> StateIndex {
        match &self.sent {
            Some((version, _)) if self.acknowledged >= *version => self.current,
            Some(_) | None => self.acknowledged.min(self.current),
        }
    }

    /// Acknowledges at once if a terminating instance may be waiting for it.
    async fn acknowledge_if_awaited(&self) {
        if self.attached.is_none() {
            return;
        }
        let state_index = self.acknowledged_state();
        let is_awaited = self.member.store.read(|state| {
            state.terminating.values().any(|terminating| terminating.left_at <= state_index)
        });
        if is_awaited {
            self.acknowledge().await;
        }
    }

    async fn acknowledge(&self) {
        let Some(attached) = &self.attached else { return };
        // What is not delivered is repeated at the next renewal.
        let said = Acknowledgement::of(self.acknowledged_state());
        let _delivered = attached.acknowledge(&said).await;
    }

    async fn detach(&self) {
        if let Some(attached) = &self.attached {
            attached.detach().await;
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
