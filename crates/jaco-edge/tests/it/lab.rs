//! An edge with a plan that is changed step by step, and sockets of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use jaco_dataplane::edge::{
    EdgeEndpoint, EdgePlan, EdgeService, EndpointReadiness, Forwarding, Listener, ListenerKey,
    Locality, PlannedRoute, ProxyProtocol, Target, Transport,
};
use jaco_edge::{Certificates, Edge, EdgeStatus, Options};
use jaco_types::route::{RouteAction, RouteTls, Upstream};
use jaco_types::{
    DeploymentName, InstanceId, Millis, ReplicaId, Revision, Route, RouteKey, ServiceKey,
    ServiceName, StateIndex,
};
use tokio::net::TcpStream;

/// The port on which every instance of the tests listens, each at an address of its own.
pub(crate) const PORT: u16 = 8080;

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An edge, its plan and its ports.
pub(crate) struct Lab {
    pub(crate) edge: Arc<Edge>,
    pub(crate) plan: EdgePlan,
    pub(crate) certificates: Certificates,
    version: u64,
    pub(crate) clear: SocketAddr,
    pub(crate) tls: SocketAddr,
}

impl Lab {
    /// With the options that the product has.
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let mut lab = Self {
            edge: Arc::new(Edge::new(options).unwrap()),
            plan: EdgePlan::default(),
            certificates: Certificates::default(),
            version: 0,
            clear: ([127, 0, 0, 1], 0).into(),
            tls: ([127, 0, 0, 1], 0).into(),
        };
        lab.clear = lab.listen(80, Listener::Http);
        lab.tls = lab.listen(443, Listener::Https);
        lab
    }

    /// A TCP socket that stands for a published port.
    pub(crate) fn listen(&mut self, port: u16, listener: Listener) -> SocketAddr {
        let key = ListenerKey { transport: Transport::Tcp, address: None, port };
        self.plan.listeners.insert(key, listener);
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        self.edge.add_listener(key, socket).unwrap();
        address
    }

    /// A UDP socket that stands for a published port.
    pub(crate) fn listen_udp(&mut self, port: u16, forwarding: Forwarding) -> SocketAddr {
        self.listen_udp_at((Ipv4Addr::LOCALHOST, 0).into(), port, forwarding)
    }

    /// A UDP socket at this address that stands for a published port.
    pub(crate) fn listen_udp_at(
        &mut self,
        address: SocketAddr,
        port: u16,
        forwarding: Forwarding,
    ) -> SocketAddr {
        let key = ListenerKey { transport: Transport::Udp, address: None, port };
        self.plan.listeners.insert(key, Listener::Forward(forwarding));
        let socket = std::net::UdpSocket::bind(address).unwrap();
        let address = socket.local_addr().unwrap();
        self.edge.add_listener(key, socket).unwrap();
        address
    }

    /// A route to `web` in clear, changed by `change`.
    pub(crate) fn route(&mut self, domain: &str, path: &str, change: impl FnOnce(&mut Route)) {
        let mut planned = to_web();
        change(&mut planned.route);
        self.plan.routes.insert(route_key(domain, path), planned);
    }

    /// The instances of `web`, by number and address, with a drain time.
    pub(crate) fn instances(
        &mut self,
        drain: Duration,
        ready: &[(u64, Ipv4Addr)],
        leaving: &[(u64, Ipv4Addr)],
    ) {
        let endpoint = |(number, address): &(u64, Ipv4Addr), readiness| {
            let endpoint = EdgeEndpoint {
                address: *address,
                revision: Revision(1),
                locality: Locality::Here,
                readiness,
            };
            (instance(*number), endpoint)
        };
        let ready = ready.iter().map(|one| endpoint(one, EndpointReadiness::Ready));
        let leaving = leaving.iter().map(|one| endpoint(one, EndpointReadiness::Leaving));
        let drain = Millis(u64::try_from(drain.as_millis()).unwrap());
        let service = EdgeService { endpoints: ready.chain(leaving).collect(), drain };
        self.plan.services.insert(web(), Arc::new(service));
    }

    /// These are ready, and nobody leaves.
    pub(crate) fn ready(&mut self, addresses: &[Ipv4Addr]) {
        let numbered: Vec<_> = (1..).zip(addresses.iter().copied()).collect();
        self.instances(Duration::from_secs(10), &numbered, &[]);
    }

    /// Applies the plan as it is; gives its version.
    pub(crate) fn apply(&mut self) -> StateIndex {
        self.version += 1;
        let version = StateIndex(self.version);
        self.edge.apply(version, Arc::new(self.plan.clone()), Arc::new(self.certificates.clone()));
        assert_eq!(self.status().applied, Some(version));
        version
    }

    pub(crate) fn status(&self) -> EdgeStatus {
        self.edge.status().borrow().clone()
    }

    /// Waits for a state of the edge.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&EdgeStatus) -> bool) -> EdgeStatus {
        let mut status = self.edge.status();
        let found = tokio::time::timeout(PATIENCE, status.wait_for(condition));
        found.await.expect("the edge comes to this state").unwrap().clone()
    }

    /// A connection in clear.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.clear).await.unwrap()
    }
}

/// The service of the tests.
pub(crate) fn web() -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new("shop").unwrap(),
        service: ServiceName::new("web").unwrap(),
    }
}

/// An instance of `web`.
pub(crate) fn instance(number: u64) -> InstanceId {
    InstanceId {
        replica: ReplicaId::parse(&format!("shop-web-{number}")).unwrap(),
        raft_index: StateIndex(100 + number),
    }
}

/// The port of `web`.
pub(crate) fn forwarding(proxy_protocol: ProxyProtocol) -> Forwarding {
    Forwarding { target: Target { service: web(), port: PORT }, proxy_protocol }
}

pub(crate) fn route_key(domain: &str, path: &str) -> RouteKey {
    RouteKey { domain: domain.parse().unwrap(), path: path.parse().unwrap() }
}

/// A route to `web` in clear.
pub(crate) fn to_web() -> PlannedRoute {
    let ServiceKey { deployment, service } = web();
    let upstream = Upstream::new(service, PORT.try_into().unwrap());
    let route = Route::new(RouteAction::Forward(upstream));
    PlannedRoute { deployment, route: Route { tls: RouteTls::Off, ..route } }
}

/// Waits until something is true that nobody tells of.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}
