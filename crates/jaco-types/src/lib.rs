//! The words of JACO: ids, entities, closed enums and units.
//!
//! Nothing here has behaviour beyond validity, and no type can be serialised: what goes to disk or
//! to the wire is converted at the edge (`jaco-proto`).

pub mod allocation;
pub mod code;
pub mod content;
pub mod demand;
pub mod ending;
pub mod gpu;
pub mod id;
pub mod identity;
pub mod image;
pub mod machine;
pub mod node;
pub mod observed;
pub mod origin;
pub mod registry;
pub mod rejection;
pub mod rollout;
pub mod routing;
pub mod slot;
pub mod spec;
pub mod time;
pub mod unit;

pub use allocation::{AllocationScope, Rest};
pub use code::ErrorCode;
pub use content::{ContentId, NamedKey, NamedKind};
pub use ending::{Aftermath, Ending};
pub use gpu::{Gpu, GpuChoice, GpuDemand};
pub use id::{
    ClusterId, ConsumerName, ContentName, DeploymentName, Hostname, InstanceId, InvalidName,
    NodeId, RegistryUsername, ReplicaId, RequestId, Revision, ServiceKey, ServiceName, SpecHash,
    StateIndex, TokenId,
};
pub use identity::Identity;
pub use image::{ImageDigest, ImageNeed};
pub use machine::Machine;
pub use node::{Availability, Drain, Node, NodeFacts, NodeStatus};
pub use observed::{Exit, InstanceObserved, ReasonCode, ReplicaState};
pub use origin::{Author, Origin};
pub use registry::RegistryName;
pub use rejection::Rejection;
pub use rollout::{
    GoingBack, ImageReadiness, Preparing, Rollout, RolloutState, Scheduling, Unplaced,
};
pub use routing::{Consumer, Leaving};
pub use slot::{Instance, Ordinal, RestartCount, Slot, Standing};
pub use spec::{DeploymentSpec, ServiceSpec};
pub use time::{Millis, Timestamp};
