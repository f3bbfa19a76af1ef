//! Arbitrary values of everything that is stored. Struct expressions are whole on purpose: a new
//! field does not compile until it is generated here, and so is part of every round trip.

mod acme;
mod backup;
mod commands;
mod contents;
mod entities;
mod images;
mod job;
mod kek;
mod networks;
mod notify;
mod ports;
mod routes;
mod specs;
mod states;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use jaco_proto::storage::Payload;
use jaco_state::acme::{Acme, AcmeAccount, AcmeChallenge, IssueAttempt, IssuedCertificate};
use jaco_state::audit::Digest;
use jaco_state::audit::RefusalCount;
use jaco_state::audit::{AuditClock, AuditEvent, AuditKey, AuditKind, AuditLog, Retention};
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
use jaco_state::requests::RequestLog;
use jaco_state::rotation::{AuthorityRotation, RotatedAuthority, RotationPhase, RotationStep};
use jaco_state::token::{JoinToken, OperatorToken, Proof};
use jaco_state::{
    Change, ClusterMeta, ClusterState, Command, Deployment, DisabledAllocations, Outcome, Table,
};
use jaco_types::route::{
    AllowedSources, AllowedUsers, BodyLimit, DrainTime, ForwardedPath, HeaderName, HeaderRules,
    HeaderValue, HstsAge, IpRange, PasswordHash, Redirect, RedirectRest, RedirectStatus,
    RedirectTarget, RevisionWeights, RouteAction, RouteDomain, RouteHeaders, RoutePath,
    RouteProtocol, RouteTimeout, RouteTls, SessionAffinity, Upstream, UserName,
};
use jaco_types::slot::{Exhausted, SlotData};
use jaco_types::spec::{
    Affinity, Attachment, Constraint, Dependency, DependencyCondition, DependencyRequirement,
    DeploymentSpec, FailureAction, Healthcheck, HostPort, NetworkRef, NetworkSpec, OnNodeLoss,
    Operator, Placement, Privilege, Protocol, PullPolicy, Reach, ReachKind, RestartPolicy,
    RollbackFailureAction, RollbackPolicy, SchedulingPolicy, Scoring, ServiceMode, ServiceSpec,
    SpreadCriterion, SpreadTarget, Storage, UpdateOrder, UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    AllocationScope, Author, Availability, CertificateName, ChallengeKind, ClusterId, Completion,
    Consumer, ConsumerName, ContentId, ContentName, DeploymentName, DesiredState, Disablement,
    Drain, ErrorCode, Exit, FirstWatch, Gpu, GpuChoice, GpuDemand, Hostname, Identity, ImageDigest,
    Instance, InstanceAddress, InstanceId, InstanceObserved, Ipv4Prefix, Machine, Millis, NamedKey,
    NamedKind, NetworkId, NetworkName, NetworkReach, NetworkScope, Node, NodeEdge, NodeFacts,
    NodeId, NodeRouter, NodeStatus, Ordinal, Origin, Prepull, ReasonCode, RegistryName,
    RegistryUsername, Rejection, RenewalWindow, ReplicaId, ReplicaState, RequestId, RestartCount,
    Revision, Rights, RollbackProgress, Rollout, RolloutState, Route, RouteKey, RouterLink,
    Sampled, Scheduling, ServiceKey, ServiceName, Slot, SpecHash, StateIndex, Subnet,
    TerminatingInstance, Termination, TerminationOutcome, Timestamp, TokenId, TraceContext,
    TunnelBackend, Unplaced, VolumeClass, VolumeDemand,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) use self::acme::*;
pub(crate) use self::backup::*;
pub(crate) use self::commands::*;
pub(crate) use self::contents::*;
pub(crate) use self::entities::*;
pub(crate) use self::images::*;
pub(crate) use self::job::*;
pub(crate) use self::kek::*;
pub(crate) use self::networks::*;
pub(crate) use self::notify::*;
pub(crate) use self::ports::*;
pub(crate) use self::routes::*;
pub(crate) use self::specs::*;
pub(crate) use self::states::*;
pub(crate) use self::values::*;
