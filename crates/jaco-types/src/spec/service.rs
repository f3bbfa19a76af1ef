//! One service: what its containers are, and how many of them are wanted.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::dependency::Dependency;
use super::network::Attachment;
use super::placement::{OnNodeLoss, Placement};
use super::schedule::Schedule;
use super::scheduling::SchedulingPolicy;
use super::update::UpdatePolicy;
use crate::gpu::GpuDemand;
use crate::id::{ServiceName, SpecHash};
use crate::port::{IngressPort, Transport};
use crate::route::DrainTime;
use crate::unit::Resources;
use crate::volume::VolumeDemand;

/// Most replicas of a deployment. Each is planned for in every pass and kept by every node: this many
/// take the memory of a node in hundreds of megabytes.
pub const MAX_REPLICAS: u32 = 10_000;

/// The spec of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Its name in the deployment.
    pub name: ServiceName,
    /// The image its containers run.
    pub image: Arc<str>,
    /// When a node pulls the image.
    pub pull: PullPolicy,
    /// How nodes are chosen.
    pub placement: Placement,
    /// How many replicas are wanted; of no effect with [`Placement::Global`].
    pub replicas: u32,
    /// Ports of the host that each replica takes for itself.
    pub host_ports: Vec<HostPort>,
    /// Ports that every node answers and forwards to ready replicas. They bind no replica to a node.
    pub ingress_ports: BTreeSet<IngressPort>,
    /// What follows when one of its containers ends.
    pub restart: RestartPolicy,
    /// Whether its containers serve, or run to their end.
    pub mode: ServiceMode,
    /// When the job is run; none for what runs once per spec, and for what serves.
    pub schedule: Option<Schedule>,
    /// What must be up before its replicas start.
    pub depends_on: Vec<Dependency>,
    /// What each replica has reserved on its node.
    pub reservation: Resources,
    /// What the engine lets each replica use at most; zero is unlimited.
    pub limit: Resources,
    /// The GPUs that each replica has for itself; none asks for none.
    pub gpus: Option<GpuDemand>,
    /// The volumes of a class that its containers mount, by name; volumes without a class are on any node.
    pub volumes: Vec<VolumeDemand>,
    /// Whether data on the node belongs to a replica.
    pub storage: Storage,
    /// Whether `running` waits for a healthcheck.
    pub healthcheck: Healthcheck,
    /// How a change is rolled out.
    pub update: UpdatePolicy,
    /// What narrows and weighs the choice of nodes.
    pub scheduling: SchedulingPolicy,
    /// What becomes of its replicas whose node becomes unreachable. An instance keeps the one that it was
    /// started under.
    pub on_node_loss: OnNodeLoss,
    /// The networks of the cluster that its containers are attached to, the first with the default route.
    /// None where the networks are those of each node, or the container has no network of its own.
    pub networks: Vec<Attachment>,
    /// The DNS servers that the resolver of its networks asks about names that are not the cluster's, in this order; none
    /// are those of the node.
    pub resolvers: Vec<IpAddr>,
    /// How long requests that a replica has got may go on once it leaves the endpoints; none is
    /// [`DrainTime::DEFAULT`].
    pub drain: Option<DrainTime>,
    /// Canonical JSON of all that changes the container.
    pub container: Arc<str>,
    /// SHA-256 of `container` (R-HASH-1).
    pub hash: SpecHash,
}

/// What follows when a container ends (R-JOB-1). Not part of the container: a change of the policy recreates
/// nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RestartPolicy {
    /// A restart, whatever its exit code, within the restart budget (R-HEAL-1).
    #[default]
    Always,
    /// An exit with 0 is its completion; a restart follows a failure.
    OnFailure {
        /// How many restarts at most, as long as it has not completed; `None` is what the restart budget
        /// allows.
        retries: Option<u32>,
    },
    /// No restart: an exit with 0 is its completion, another one its failure.
    Never,
}

impl RestartPolicy {
    /// Whether an exit with 0 is a completion, also of what is no job.
    #[must_use]
    pub const fn may_complete(self) -> bool {
        match self {
            Self::Always => false,
            Self::OnFailure { .. } | Self::Never => true,
        }
    }
}

/// Whether the containers of a service serve, or run to their end (R-JOB-1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceMode {
    /// They serve: the end of one is a failure, unless its restart policy says otherwise.
    #[default]
    Service,
    /// They run to their end once: `replicated-job` and `global-job`.
    Job,
}

/// When a node pulls an image. Not part of the container: a change of the policy recreates nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PullPolicy {
    /// When the image is not on the node.
    #[default]
    Missing,
    /// Before each start of a container.
    Always,
    /// Never: a replica does not start on a node without the image.
    Never,
}

/// A port of the host that a container takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The port's number on the host.
    pub port: u16,
    /// The transport it belongs to.
    pub protocol: Protocol,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// What edges forward of it; nothing of SCTP.
    #[must_use]
    pub const fn transport(self) -> Option<Transport> {
        match self {
            Self::Tcp => Some(Transport::Tcp),
            Self::Udp => Some(Transport::Udp),
            Self::Sctp => None,
        }
    }
}

/// Whether data on the node belongs to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// Nothing of it stays on the node.
    Stateless,
    /// It has a named volume or a bind mount: its data does not follow it.
    Stateful,
}

/// Whether `running` waits for a healthcheck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Healthcheck {
    /// A started container counts as running.
    None,
    /// The engine's health state decides.
    Declared,
}
