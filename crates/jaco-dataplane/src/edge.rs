//! What the edge of a site should do: which sockets it has, and where requests, connections and datagrams that
//! come in there go. Plain data that names no socket, no key and no clock; `jaco-edge` carries it out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use jaco_state::Table;
pub use jaco_types::port::{ProxyProtocol, Transport};
use jaco_types::route::{IpRange, Upstream};
use jaco_types::{DeploymentName, InstanceId, Millis, Revision, Route, RouteKey, ServiceKey};

/// What the edge of a site should do.
///
/// Routes and services are shared: a plan that differs in one of ten thousand routes has the others in common
/// with the one before, and who compares the two finds that out without reading them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgePlan {
    /// The sockets, and what is done with what they receive.
    pub listeners: BTreeMap<ListenerKey, Listener>,
    /// What is done with HTTP requests. Of several routes that a request is for, one of its exact domain comes before
    /// one of a wildcard, and then the longer path before the shorter.
    pub routes: Table<RouteKey, PlannedRoute>,
    /// The instances of every service that a route or a listener names.
    pub services: BTreeMap<ServiceKey, Arc<EdgeService>>,
    /// What is answered to ACME's HTTP-01 challenges: by token, the key authorization.
    pub challenges: BTreeMap<String, String>,
    /// Whose word about the client counts: `X-Forwarded-For`, `Forwarded` and the PROXY protocol are believed if
    /// the peer is in one of these ranges, and replaced otherwise.
    pub trusted_proxies: BTreeSet<IpRange>,
}

/// A socket of the edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerKey {
    /// What it speaks below.
    pub transport: Transport,
    /// The address that it is bound to; `None`: all addresses of the node.
    pub address: Option<IpAddr>,
    /// The published port.
    pub port: u16,
}

/// Why a text is no key of a listener.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no socket of an edge: write tcp/80 or udp/192.0.2.1:53")]
pub struct InvalidListenerKey {
    text: String,
}

/// What is done with what a socket receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listener {
    /// HTTP in clear: routes without TLS, challenges, and redirects to HTTPS.
    Http,
    /// HTTP over TLS.
    Https,
    /// Connections or datagrams as they are, to a service.
    Forward(Forwarding),
}

/// A published port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// Where to.
    pub target: Target,
    /// Whether the instance is told who the client is.
    pub proxy_protocol: ProxyProtocol,
}

/// A port of all instances of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The service.
    pub service: ServiceKey,
    /// The port on which its instances listen.
    pub port: u16,
}

/// A route, and the deployment that has it: what it names of services is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRoute {
    /// The deployment.
    pub deployment: DeploymentName,
    /// The route.
    pub route: Route,
}

/// The instances of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeService {
    /// Those that are ready, and those that leave and may still have something to finish.
    pub endpoints: BTreeMap<InstanceId, EdgeEndpoint>,
    /// How long an instance that leaves is waited for.
    pub drain: Millis,
}

/// An instance that is reached at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeEndpoint {
    /// Its address, in a network of the cluster.
    pub address: Ipv4Addr,
    /// The revision whose spec it runs.
    pub revision: Revision,
    /// How far it is.
    pub locality: Locality,
    /// Whether it gets anything new.
    pub readiness: EndpointReadiness,
}

/// How far an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locality {
    /// In the site of the edge.
    Here,
    /// In another site.
    Elsewhere,
}

/// Whether an instance gets anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointReadiness {
    /// It does.
    Ready,
    /// It finishes what it has, within the drain time of its service.
    Leaving,
}

impl PlannedRoute {
    /// The instances that its upstream means.
    pub fn target(&self, upstream: &Upstream) -> Target {
        Target { service: service_key(&self.deployment, upstream), port: upstream.port.get() }
    }
}

/// The service that a route of a deployment goes to.
pub(crate) fn service_key(deployment: &DeploymentName, upstream: &Upstream) -> ServiceKey {
    ServiceKey { deployment: deployment.clone(), service: upstream.service.clone() }
}

/// `tcp/80`, or `tcp/192.0.2.1:80` for one address.
impl fmt::Display for ListenerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, address, port } = *self;
        let transport = transport.as_str();
        f.pad(&match address {
            None => format!("{transport}/{port}"),
            Some(address) => format!("{transport}/{}", SocketAddr::new(address, port)),
        })
    }
}

impl FromStr for ListenerKey {
    type Err = InvalidListenerKey;

    /// Reads what is shown.
    fn from_str(text: &str) -> Result<Self, InvalidListenerKey> {
        let key = || {
            let (transport, place) = text.split_once('/')?;
            let transports = [Transport::Tcp, Transport::Udp];
            let transport = transports.into_iter().find(|one| one.as_str() == transport)?;
            if let Ok(port) = place.parse() {
                return Some(Self { transport, address: None, port });
            }
            let place: SocketAddr = place.parse().ok()?;
            Some(Self { transport, address: Some(place.ip()), port: place.port() })
        };
        key()
            .filter(|key| key.to_string() == text)
            .ok_or_else(|| InvalidListenerKey { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read_as_they_are_shown() {
        for text in ["tcp/80", "udp/53", "tcp/192.0.2.1:80", "udp/[2001:db8::1]:53"] {
            assert_eq!(text.parse::<ListenerKey>().unwrap().to_string(), text);
        }
        for text in ["", "tcp", "tcp/", "tcp/65536", "sctp/80", "tcp/+80", "tcp/a:80", "TCP/80"] {
            assert!(text.parse::<ListenerKey>().is_err(), "{text}");
        }
    }
}
