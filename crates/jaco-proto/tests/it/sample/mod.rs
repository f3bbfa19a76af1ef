//! One instance of each thing that is stored. The frozen bytes are of these; a field that is new
//! gets the value here that it is read as from bytes of before.

mod acme;
mod backup;
mod changes;
mod commands;
mod entities;
mod history;
mod images;
mod job;
mod kek;
mod networks;
mod notify;
mod ports;
mod routes;
mod specs;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use jaco_proto::storage::Payload;
use jaco_state::acme::{Acme, AcmeAccount, AcmeChallenge, IssueAttempt, IssuedCertificate};
use jaco_state::audit::Digest;
use jaco_state::audit::RefusalCount;
use jaco_state::audit::{AuditClock, AuditEvent, AuditKey, AuditKind, Retention};
use jaco_state::command::{
    AcmeNote, AuditNote, AuditRetention, AuthorityAbandon, AuthorityContinue, AuthorityReport,
    AuthorityRotate, AuthoritySettle, Batch, CertificateIssue, CertificateRemove, CertificateStore,
    ClusterInit, ConstraintsSet, ConsumerAttach, ConsumerDetach, ContentPut, DataMove,
    DeploymentApply, DeploymentDelete, DeploymentRollback, DisabledSet, Disabling, EdgeBegin,
    JoinTokenIssue, JoinTokenRevoke, NamedContentPut, NamedContentRemove, NetworkBegin,
    NetworkCreate, NetworkRemove, NetworkResize, NewInstance, NewNode, NodeAdmit, NodeDrain,
    NodeRemove, NodeReport, NodeSetAvailability, NodeSetLabels, Observe, OpenJoinTokens,
    OperatorTokenIssue, OperatorTokenRevoke, OperatorTokenRotate, PolicyAllow, PolicyRevoke,
    PolicySet, Previous, Rebalance, RebalanceMove, RebalanceRevert, RegistryRemove, RegistryStore,
    ReplaceCause, RevertedMove, RevisionPin, SpecChange, TokensUsed,
};
use jaco_state::contents::{
    Content, ContentTerms, ContentUsers, Expiry, Form, FormerContent, Hold, NamedContent, Piece,
    PieceBytes,
};
use jaco_state::deployment::{Pin, RevisionRecord};
use jaco_state::edge::{Certificate, Edges, RouteClaim, SealedKey};
use jaco_state::network::{Network, NetworkPool, Networks, Quarantine};
use jaco_state::policy::{Policy, PolicyMode};
use jaco_state::registries::{RegistryLogin, SealedPassword};
use jaco_state::rotation::{AuthorityRotation, RotatedAuthority, RotationPhase, RotationStep};
use jaco_state::token::{JoinToken, OperatorToken, Proof};
use jaco_state::{
    Change, ClusterMeta, ClusterState, Command, Deployment, DisabledAllocations, Outcome,
};
use jaco_types::route::{
    AllowedSources, AllowedUsers, BodyLimit, DrainTime, ForwardedPath, HeaderName, HeaderRules,
    HeaderValue, HstsAge, IpRange, PasswordHash, Redirect, RedirectRest, RedirectStatus,
    RedirectTarget, RevisionWeights, RouteAction, RouteDomain, RouteHeaders, RoutePath,
    RouteProtocol, RouteTimeout, RouteTls, SessionAffinity, Upstream, UserName,
};
use jaco_types::slot::{Exhausted, SlotData};
use jaco_types::spec::{
    Attachment, Dependency, DependencyCondition, DependencyRequirement, DeploymentSpec,
    FailureAction, Healthcheck, HostPort, NetworkRef, NetworkSpec, OnNodeLoss, Placement,
    Privilege, Protocol, PullPolicy, Reach, ReachKind, RestartPolicy, RollbackFailureAction,
    RollbackPolicy, SchedulingPolicy, Scoring, ServiceMode, ServiceSpec, Storage, UpdateOrder,
    UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    AllocationScope, Author, Availability, CertificateName, ChallengeKind, ClusterId, Consumer,
    ConsumerName, ContentId, ContentName, DeploymentName, DesiredState, Disablement, Drain,
    ErrorCode, Exit, FirstWatch, Gpu, GpuChoice, GpuDemand, Hostname, Identity, ImageDigest,
    Instance, InstanceAddress, InstanceId, InstanceObserved, Machine, Millis, NamedKey, NamedKind,
    NetworkId, NetworkName, NetworkReach, NetworkScope, Node, NodeEdge, NodeFacts, NodeId,
    NodeRouter, NodeStatus, Ordinal, Origin, Prepull, ReasonCode, RegistryName, RegistryUsername,
    Rejection, RenewalWindow, ReplicaId, ReplicaState, RequestId, RestartCount, Revision, Rights,
    RollbackProgress, Rollout, RolloutState, Route, RouteKey, RouterLink, Sampled, Scheduling,
    ServiceKey, ServiceName, Slot, SpecHash, StateIndex, Subnet, TerminatingInstance, Termination,
    TerminationOutcome, Timestamp, TokenId, TraceContext, TunnelBackend, Unplaced, VolumeClass,
    VolumeDemand,
};

pub(crate) use self::acme::*;
pub(crate) use self::backup::*;
pub(crate) use self::changes::*;
pub(crate) use self::commands::*;
pub(crate) use self::entities::*;
pub(crate) use self::history::*;
pub(crate) use self::images::*;
pub(crate) use self::job::*;
pub(crate) use self::kek::*;
pub(crate) use self::networks::*;
pub(crate) use self::notify::*;
pub(crate) use self::ports::*;
pub(crate) use self::routes::*;
pub(crate) use self::specs::*;
pub(crate) use self::states::*;
