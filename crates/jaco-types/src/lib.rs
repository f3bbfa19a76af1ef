//! The vocabulary of JACO: ids, entities, closed enums and units.
//!
//! Nothing here has behaviour beyond validity, and no type can be serialised: what goes to disk or
//! to the wire is converted at the edge (`jaco-proto`).

pub mod acme;
pub mod allocation;
pub mod code;
pub mod content;
pub mod demand;
pub mod gpu;
pub mod id;
pub mod identity;
pub mod image;
pub mod kek;
pub mod machine;
pub mod membership;
pub mod network;
pub mod node;
pub mod observed;
pub mod origin;
pub mod port;
pub mod pushed;
pub mod registry;
pub mod rejection;
pub mod role;
pub mod rollout;
pub mod route;
pub mod router;
pub mod routing;
pub mod slot;
pub mod spec;
pub mod termination;
pub mod time;
pub mod trace;
pub mod unit;
pub mod version;
pub mod volume;

pub use acme::{ChallengeKind, RenewalWindow};
pub use allocation::{AllocationScope, Disablement};
pub use code::ErrorCode;
pub use content::{ContentId, NamedKey, NamedKind};
pub use gpu::{Gpu, GpuChoice, GpuDemand};
pub use id::{
    BackupScheduleName, CertificateName, ClusterId, ConsumerName, ContentName, DeploymentName,
    Hostname, InstanceId, InvalidName, NetworkName, NodeId, NotifyTargetName, Ordinal,
    RegistryUsername, ReplicaId, RequestId, Revision, ServiceKey, ServiceName, SpecHash,
    StateIndex, TokenId, VolumeClass,
};
pub use identity::Identity;
pub use image::{ImageDigest, ImageNeed, ImagePull, is_image_name};
pub use kek::KekId;
pub use machine::Machine;
pub use membership::voter_target;
pub use network::{InstanceAddress, Ipv4Prefix, NetworkId, NetworkReach, NetworkScope, Subnet};
pub use node::{Availability, Drain, Node, NodeFacts, NodeStatus};
pub use observed::{Exit, InstanceObserved, ReasonCode, ReplicaState};
pub use origin::{Author, Origin};
pub use port::{IngressPort, PortKey};
pub use pushed::{BlobDigest, ImageTag};
pub use registry::RegistryName;
pub use rejection::Rejection;
pub use role::{InvalidRights, Rights, Role};
pub use rollout::{
    FirstWatch, ImageReadiness, Prepull, RollbackProgress, Rollout, RolloutState, Scheduling,
    Unplaced,
};
pub use route::{Route, RouteKey};
pub use router::{NodeEdge, NodeRouter, RouterLink, TunnelBackend};
pub use routing::{Acknowledgement, Consumer, TerminatingInstance};
pub use slot::{Completion, DesiredState, Instance, RestartCount, Slot};
pub use spec::{DeploymentSpec, ServiceSpec};
pub use termination::{Termination, TerminationOutcome};
pub use time::{Millis, Timestamp};
pub use trace::{Sampled, TraceContext};
pub use version::Version;
pub use volume::VolumeDemand;
