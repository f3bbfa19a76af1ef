//! What the scheduler needs to know about a service, as plain data.
//!
//! Integers, ordered collections and closed enums only: the same input gives the same facts on
//! every machine. Changing a fact that is not part of the container never recreates one.

mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU32};

use jaco_types::port::{PortRange, ProxyProtocol};
use jaco_types::route::DrainTime;
use jaco_types::spec::{
    Affinity, Constraint, Dependency, Healthcheck, OnNodeLoss, Placement, Privilege, Protocol,
    PullPolicy, Reach, RestartPolicy, Schedule, Scoring, ServiceMode, SpreadCriterion, Storage,
    UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{IngressPort, ServiceName, VolumeDemand};

pub use network::{Dns, NetworkAttachment, NetworkFacts, NetworkOwner, NetworkReach};

/// Everything that a scheduling decision about a service depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The image of its containers.
    pub image: String,
    /// When a node pulls the image.
    pub pull: PullPolicy,
    /// How nodes are chosen.
    pub placement: Placement,
    /// The number of replicas; 1 and of no effect with [`Placement::Global`].
    pub replicas: u32,
    /// The smallest number of replicas that an apply accepts.
    pub min_allocations: u32,
    /// The largest number of replicas on one node; `None` is as many as fit.
    pub max_replicas_per_node: Option<NonZeroU32>,
    /// The ports that it publishes.
    pub ports: Vec<PublishedPort>,
    /// What follows when one of its containers ends.
    pub restart: RestartPolicy,
    /// Whether its containers serve, or run to their end.
    pub mode: ServiceMode,
    /// When the job is run; `None` for what is no job, or runs once for each spec.
    pub schedule: Option<Schedule>,
    /// Services that its replicas wait for, sorted by name.
    pub depends_on: Vec<Dependency>,
    /// Services whose namespaces its replicas share, which must be on the same node.
    pub shares_namespaces_with: BTreeSet<ServiceName>,
    /// Services whose volumes are mounted: its replicas go to nodes that run one of their replicas.
    pub volumes_from: BTreeSet<ServiceName>,
    /// What each replica reserves on its node; zero reserves nothing.
    pub reservation: Resources,
    /// Bounds within which the reservation may be set; zero is no bound.
    pub bounds: Bounds,
    /// The most that the engine lets each replica use; zero is unlimited.
    pub limit: Resources,
    /// Whether a replica keeps data on its node.
    pub storage: Storage,
    /// Whether a health check decides when a replica counts as running. One that only the image
    /// declares is not known here.
    pub healthcheck: Healthcheck,
    /// How a change is rolled out and rolled back.
    pub update: UpdatePolicy,
    /// What happens to replicas whose node is lost.
    pub on_node_loss: OnNodeLoss,
    /// How long requests that a replica has got may go on once it leaves the endpoints; `None` is the default.
    pub drain: Option<DrainTime>,
    /// How replicas are spread; the service's criteria, then the deployment's.
    pub spread: Vec<SpreadCriterion>,
    /// Constraints of the service.
    pub constraints: Constraints,
    /// Constraints of the deployment, which those of the service override key by key.
    pub deployment_constraints: Constraints,
    /// Weighted preferences for nodes.
    pub affinities: Vec<Affinity>,
    /// Labels that a node must all carry.
    pub selectors: BTreeSet<String>,
    /// How eligible nodes are ranked.
    pub scoring: Scoring,
    /// GPUs and other devices that each replica requests.
    pub gpus: Vec<GpuRequest>,
    /// The volumes of a class that it mounts, by name.
    pub volumes: Vec<VolumeDemand>,
    /// What its containers reach of their nodes.
    pub reaches: BTreeSet<Reach>,
    /// The names that resolve to it on each of its networks: its own, `SERVICE.DEPLOYMENT`, its `container_name`,
    /// its `hostname`.
    pub names: BTreeSet<String>,
    /// The networks that its containers are attached to, in order: the first one gives the default route.
    pub networks: Vec<NetworkAttachment>,
    /// How its containers resolve names of the outside.
    pub dns: Dns,
}

/// A port of nodes, or a range from which one is taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedPort {
    /// First port; the same as `last` for one port; 0 to 0 leaves the choice open.
    pub first: u16,
    /// Last port.
    pub last: u16,
    /// Transport.
    pub protocol: Protocol,
    /// The node's address; `None` is every address.
    pub host_ip: Option<String>,
    /// The port in the container.
    pub target: u16,
    /// Which nodes answer on it.
    pub mode: PortMode,
    /// Whether the container is told who the client is.
    pub proxy_protocol: ProxyProtocol,
}

/// Which nodes answer on a published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortMode {
    /// The one that runs the replica, which takes the port for itself.
    Host,
    /// All.
    Ingress,
}

impl PublishedPort {
    /// The port as edges serve it, if all nodes answer on it.
    #[must_use]
    pub fn ingress(&self) -> Option<IngressPort> {
        let port = IngressPort {
            transport: self.protocol.transport()?,
            target: NonZeroU16::new(self.target)?,
            published: match (self.first, self.last) {
                (0, 0) => PortRange::ANY,
                (first, last) => PortRange::new(first, last).ok()?,
            },
            address: self.host_ip.as_deref().and_then(|address| address.parse().ok()),
            proxy_protocol: self.proxy_protocol,
        };
        (self.mode == PortMode::Ingress).then_some(port)
    }

    /// The one port that is certainly taken, if it is one.
    #[must_use]
    pub fn fixed(&self) -> Option<u16> {
        (self.first == self.last && self.first != 0).then_some(self.first)
    }
}

impl Facts {
    /// The privileges on the node that a revision records.
    #[must_use]
    pub fn privileges(&self) -> BTreeSet<Privilege> {
        self.reaches.iter().filter_map(Reach::privilege).collect()
    }
}

/// Bounds of a reservation; zero is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Least memory.
    pub memory_min: Bytes,
    /// Most memory.
    pub memory_max: Bytes,
    /// Least processor time.
    pub cpu_min: MilliCores,
    /// Most processor time.
    pub cpu_max: MilliCores,
}

/// What nodes must have: Juju's pairs and Nomad's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constraints {
    /// `cpu=2`, `ram=3G`, `zone=a`. An empty value goes back to the built-in default.
    pub pairs: BTreeMap<String, String>,
    /// Rules over attributes and labels.
    pub rules: Vec<Constraint>,
}

/// A request for devices, as the engine takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRequest {
    /// How many; `None` is all, or the ones in `device_ids`.
    pub count: Option<u32>,
    /// Which ones.
    pub device_ids: Vec<String>,
    /// The driver.
    pub driver: Option<String>,
    /// What they must be able to do.
    pub capabilities: Vec<String>,
}
