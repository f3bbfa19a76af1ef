//! A change of a plan, or a whole plan as a change of nothing, as it is said over the socket.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use data_encoding::BASE64;
use jaco_dataplane::edge::{
    EdgeEndpoint, EdgeService, EndpointReadiness, Forwarding, Listener, Locality, PlannedRoute,
    ProxyProtocol, Target,
};
use jaco_proto::storage::{decode_route, encode_route};
use jaco_types::{
    InstanceId, Millis, ReplicaId, Revision, Route, RouteKey, ServiceKey, StateIndex,
};
use serde::{Deserialize, Serialize};

use crate::change::EdgeChange;
use crate::tls::CertificatePem;

/// A change of the plan of the state `base`, or of an empty one. In a table, `None` removes. Keys are text.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangeMessage {
    pub(super) base: Option<u64>,
    /// The state of the plan that it leads to.
    pub(super) index: u64,
    listeners: Vec<(String, Option<ListenerMessage>)>,
    /// By domain and path.
    routes: Vec<(String, String, Option<RouteMessage>)>,
    /// By deployment and name.
    services: Vec<(String, String, Option<ServiceMessage>)>,
    challenges: BTreeMap<String, Option<String>>,
    trusted_proxies: Option<Vec<String>>,
    certificates_by_name: Vec<(String, Option<PemMessage>)>,
    certificates_by_domain: Vec<(String, Option<PemMessage>)>,
    certificates_of_challenges: Vec<(String, Option<PemMessage>)>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ListenerMessage {
    Http,
    Https,
    Forward { deployment: String, service: String, port: u16, proxy_protocol: bool },
}

/// A route as the storage format has it, in base 64. There are hashes of passwords in it.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct RouteMessage {
    deployment: String,
    route: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ServiceMessage {
    drain_ms: u64,
    endpoints: Vec<EndpointMessage>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EndpointMessage {
    instance: (String, u64),
    address: Ipv4Addr,
    revision: u64,
    here: bool,
    ready: bool,
}

/// A certificate and its private key, in base 64.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct PemMessage {
    chain: String,
    key: String,
}

impl ChangeMessage {
    pub(super) fn new(base: Option<StateIndex>, index: StateIndex, change: &EdgeChange) -> Self {
        let routes = change.routes.iter().map(|(key, planned)| {
            let message = planned.as_ref().map(|planned| RouteMessage::new(key, planned));
            (key.domain.to_string(), key.path.to_string(), message)
        });
        let services = change.services.iter().map(|(key, service)| {
            let message = service.as_ref().map(|service| ServiceMessage::new(service));
            (key.deployment.to_string(), key.service.to_string(), message)
        });
        let trusted = change.trusted_proxies.as_ref();
        Self {
            base: base.map(|base| base.0),
            index: index.0,
            listeners: listed(&change.listeners, ListenerMessage::new),
            routes: routes.collect(),
            services: services.collect(),
            challenges: change.challenges.clone(),
            trusted_proxies: trusted.map(|all| all.iter().map(ToString::to_string).collect()),
            certificates_by_name: listed(&change.certificates_by_name, PemMessage::new),
            certificates_by_domain: listed(&change.certificates_by_domain, PemMessage::new),
            certificates_of_challenges: listed(&change.certificates_of_challenges, PemMessage::new),
        }
    }

    /// The change; `None` if anything in it is not what a plan can hold.
    pub(super) fn change(&self) -> Option<EdgeChange> {
        let routes = self.routes.iter().map(|(domain, path, message)| {
            let key = RouteKey { domain: domain.parse().ok()?, path: path.parse().ok()? };
            let planned = read(message.as_ref(), |message| message.planned(&key))?;
            Some((key, planned))
        });
        let services = self.services.iter().map(|(deployment, service, message)| {
            let key = service_key(deployment, service)?;
            Some((key, read(message.as_ref(), ServiceMessage::service)?))
        });
        let trusted = read(self.trusted_proxies.as_ref(), |all| {
            all.iter().map(|range| range.parse().ok()).collect()
        });
        Some(EdgeChange {
            listeners: read_all(&self.listeners, ListenerMessage::listener)?,
            routes: routes.collect::<Option<_>>()?,
            services: services.collect::<Option<_>>()?,
            challenges: self.challenges.clone(),
            trusted_proxies: trusted?,
            certificates_by_name: read_all(&self.certificates_by_name, PemMessage::pem)?,
            certificates_by_domain: read_all(&self.certificates_by_domain, PemMessage::pem)?,
            certificates_of_challenges: read_all(
                &self.certificates_of_challenges,
                PemMessage::pem,
            )?,
        })
    }
}

impl ListenerMessage {
    fn new(listener: &Listener) -> Self {
        match listener {
            Listener::Http => Self::Http,
            Listener::Https => Self::Https,
            Listener::Forward(Forwarding { target, proxy_protocol }) => Self::Forward {
                deployment: target.service.deployment.to_string(),
                service: target.service.service.to_string(),
                port: target.port,
                proxy_protocol: *proxy_protocol == ProxyProtocol::V2,
            },
        }
    }

    fn listener(&self) -> Option<Listener> {
        Some(match self {
            Self::Http => Listener::Http,
            Self::Https => Listener::Https,
            Self::Forward { deployment, service, port, proxy_protocol } => {
                let service = service_key(deployment, service)?;
                let proxy_protocol = match proxy_protocol {
                    true => ProxyProtocol::V2,
                    false => ProxyProtocol::Off,
                };
                let target = Target { service, port: *port };
                Listener::Forward(Forwarding { target, proxy_protocol })
            }
        })
    }
}

impl RouteMessage {
    fn new(key: &RouteKey, planned: &PlannedRoute) -> Self {
        let route = BASE64.encode(&encode_route(key, &planned.route));
        Self { deployment: planned.deployment.to_string(), route }
    }

    fn planned(&self, key: &RouteKey) -> Option<Arc<PlannedRoute>> {
        let bytes = BASE64.decode(self.route.as_bytes()).ok()?;
        let (encoded, route): (RouteKey, Route) = decode_route(&bytes).ok()?;
        let deployment = self.deployment.parse().ok()?;
        (encoded == *key).then(|| Arc::new(PlannedRoute { deployment, route }))
    }
}

impl ServiceMessage {
    fn new(service: &EdgeService) -> Self {
        let endpoints = service.endpoints.iter().map(|(id, endpoint)| EndpointMessage {
            instance: (id.replica.to_string(), id.raft_index.0),
            address: endpoint.address,
            revision: endpoint.revision.0,
            here: endpoint.locality == Locality::Here,
            ready: endpoint.readiness == EndpointReadiness::Ready,
        });
        Self { drain_ms: service.drain.0, endpoints: endpoints.collect() }
    }

    fn service(&self) -> Option<Arc<EdgeService>> {
        let endpoints = self.endpoints.iter().map(EndpointMessage::endpoint);
        let endpoints: Option<BTreeMap<_, _>> = endpoints.collect();
        Some(Arc::new(EdgeService { endpoints: endpoints?, drain: Millis(self.drain_ms) }))
    }
}

impl EndpointMessage {
    fn endpoint(&self) -> Option<(InstanceId, EdgeEndpoint)> {
        let endpoint = EdgeEndpoint {
            address: self.address,
            revision: Revision(self.revision),
            locality: if self.here { Locality::Here } else { Locality::Elsewhere },
            readiness: match self.ready {
                true => EndpointReadiness::Ready,
                false => EndpointReadiness::Leaving,
            },
        };
        Some((instance_id(&self.instance)?, endpoint))
    }
}

impl PemMessage {
    fn new(pem: &Arc<CertificatePem>) -> Self {
        Self { chain: BASE64.encode(&pem.chain), key: BASE64.encode(&pem.key) }
    }

    fn pem(&self) -> Option<Arc<CertificatePem>> {
        let chain = BASE64.decode(self.chain.as_bytes()).ok()?;
        Some(Arc::new(CertificatePem { chain, key: BASE64.decode(self.key.as_bytes()).ok()? }))
    }
}

/// Whoever prints a message sees no password, not even hashed.
impl fmt::Debug for RouteMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteMessage").field("deployment", &self.deployment).finish_non_exhaustive()
    }
}

/// Whoever prints a message sees no key.
impl fmt::Debug for PemMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PemMessage").finish_non_exhaustive()
    }
}

/// An instance by its replica and the entry that made it.
pub(super) fn instance_id((replica, raft_index): &(String, u64)) -> Option<InstanceId> {
    let replica = ReplicaId::parse(replica).ok()?;
    Some(InstanceId { replica, raft_index: StateIndex(*raft_index) })
}

fn service_key(deployment: &str, service: &str) -> Option<ServiceKey> {
    Some(ServiceKey { deployment: deployment.parse().ok()?, service: service.parse().ok()? })
}

/// Reads what may be absent. `None` if it is there and not readable.
fn read<M: ?Sized, V>(
    message: Option<&M>,
    value: impl FnOnce(&M) -> Option<V>,
) -> Option<Option<V>> {
    match message {
        Some(message) => value(message).map(Some),
        None => Some(None),
    }
}

fn listed<K: ToString, V, M>(
    table: &BTreeMap<K, Option<V>>,
    message: impl Fn(&V) -> M,
) -> Vec<(String, Option<M>)> {
    table.iter().map(|(key, value)| (key.to_string(), value.as_ref().map(&message))).collect()
}

fn read_all<K: std::str::FromStr + Ord, M, V>(
    table: &[(String, Option<M>)],
    value: impl Fn(&M) -> Option<V>,
) -> Option<BTreeMap<K, Option<V>>> {
    let rows = table
        .iter()
        .map(|(key, message)| Some((key.parse().ok()?, read(message.as_ref(), &value)?)));
    rows.collect()
}

#[cfg(test)]
mod tests {
    use jaco_dataplane::edge::EdgePlan;
    use proptest::prelude::*;

    use super::super::message::{Order, receive, send};
    use super::super::random::{Planned, planned};
    use super::*;
    use crate::tls::Certificates;

    fn arrives(message: ChangeMessage) -> ChangeMessage {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut wire = Vec::new();
        let frame = runtime.block_on(async {
            send(&mut wire, &Order::Hold(Box::new(message))).await.unwrap();
            receive(&mut wire.as_slice()).await.unwrap().unwrap()
        });
        let Order::Hold(read) = serde_json::from_slice(&frame).unwrap() else { panic!() };
        *read
    }

    proptest! {
        /// Law: a change leads from the one plan to the other and arrives as it was; what is the same is in no change.
        #[test]
        fn a_change_makes_the_new_plan_of_the_old_one(old in planned(), new in planned()) {
            let change = EdgeChange::between(old.both(), new.both());
            let message = ChangeMessage::new(Some(StateIndex(41)), StateIndex(42), &change);
            let read = arrives(message);
            prop_assert_eq!((read.base, read.index), (Some(41), 42));
            let read = read.change();
            prop_assert_eq!(read.as_ref(), Some(&change));
            let Planned { plan, certificates } = old.clone();
            let (mut plan, mut certificates) = (plan, certificates);
            change.apply(&mut plan, &mut certificates);
            prop_assert_eq!((&plan, &certificates), new.both());
            prop_assert_eq!(change.is_empty(), old.both() == new.both());
            prop_assert!(EdgeChange::between(new.both(), (&plan, &certificates)).is_empty());
        }

        /// Law: a whole plan is a change of nothing.
        #[test]
        fn a_plan_arrives_as_it_was(new in planned()) {
            let nothing = (EdgePlan::default(), Certificates::default());
            let change = EdgeChange::between((&nothing.0, &nothing.1), new.both());
            let read = arrives(ChangeMessage::new(None, StateIndex(1), &change));
            let (mut plan, mut certificates) = nothing;
            read.change().unwrap().apply(&mut plan, &mut certificates);
            prop_assert_eq!((&plan, &certificates), new.both());
        }

        /// No secret is printed, whoever prints what.
        #[test]
        fn messages_and_changes_print_no_secrets(new in planned()) {
            let nothing = (EdgePlan::default(), Certificates::default());
            let change = EdgeChange::between((&nothing.0, &nothing.1), new.both());
            let message = ChangeMessage::new(None, StateIndex(1), &change);
            let printed = format!("{change:?}\n{:?}\n{new:?}", Order::Hold(Box::new(message)));
            for secret in super::super::random::SECRETS {
                prop_assert!(!printed.contains(secret));
                prop_assert!(!printed.contains(&BASE64.encode(secret.as_bytes())));
            }
        }
    }

    #[test]
    fn what_no_plan_holds_is_refused() {
        let nothing = EdgeChange::default();
        let mut message = ChangeMessage::new(None, StateIndex(1), &nothing);
        assert_eq!(message.change(), Some(nothing));
        message.trusted_proxies = Some(vec!["10.0.0.1/8".to_owned()]);
        assert_eq!(message.change(), None);
    }
}
