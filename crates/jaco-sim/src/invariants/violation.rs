//! What can be found broken.

use std::net::Ipv4Addr;

use jaco_agent::engine::ContainerId;
use jaco_state::command::ReplaceCause;
use jaco_types::{
    DeploymentName, Hostname, ImageDigest, InstanceId, Millis, NodeId, ReplicaId, RequestId,
    Revision, ServiceKey, StateIndex, Timestamp,
};

/// A broken law, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The simulated time.
    pub at: Timestamp,
    /// What is broken, and by what.
    pub broken: InvariantViolation,
}

/// Something that must never be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant is described by its message and by its law's file")]
pub enum InvariantViolation {
    #[error("{}", .0.subject)]
    State(jaco_state::invariants::Violation),
    #[error("{host} holds another state at index {index}")]
    StatesDiffer { host: Hostname, index: StateIndex },
    #[error("{count} containers of {slot} run on machine {machine}")]
    TooManyLive { slot: ReplicaId, machine: usize, count: usize },
    #[error("{instance} was started as {first} and again as {second}")]
    StartedTwice { instance: InstanceId, first: ContainerId, second: ContainerId },
    #[error("{container} was to be ended, as {instance}")]
    ForeignEnded { container: ContainerId, instance: InstanceId },
    #[error("{instance} serves and was dropped, cause {}", .cause.as_str())]
    ServingDropped { instance: InstanceId, cause: ReplaceCause },
    #[error("{instance} serves and its handover was ended, and its successor does not serve")]
    HandoverEndedEarly { instance: InstanceId },
    #[error("{slot} goes back to an instance that does not serve, from one that does")]
    RevertedToFailed { slot: ReplicaId },
    #[error("{} stopped serving at once because their agents ended them", join(.slots))]
    StoppedAtOnce { slots: Vec<ReplicaId> },
    #[error("{slot} was removed: {left} are left and {wanted} wanted")]
    WantedRemoved { slot: ReplicaId, left: usize, wanted: usize },
    #[error("{slot} was removed, and its node keeps it")]
    GlobalRemoved { slot: ReplicaId },
    #[error("a plan of machine {by} was written at {index} while machine {leader} leads")]
    FollowerPlanned { by: usize, leader: usize, index: StateIndex },
    #[error("{deployment}: revision {acknowledged} was acknowledged, and there is {known:?}")]
    AcknowledgedLost { deployment: DeploymentName, acknowledged: Revision, known: Option<Revision> },
    #[error("request {request} took effect at {first} and again at {second}")]
    EffectTwice { request: RequestId, first: StateIndex, second: StateIndex },
    #[error("{}", .wrong.join("; "))]
    NotConverged { wrong: Vec<String> },
    #[error("{entries} entries were written while nothing happened")]
    WroteWhileIdle { entries: usize },
    #[error("{instance} was to be ended, and its node wants it")]
    WantedEnded { instance: InstanceId },
    #[error("{events} events happened at one moment; next: {next}")]
    TimeStandsStill { events: u32, next: String },
    #[error("{instance} runs on machine {machine} beside the instance that replaced it")]
    IsolatedStillRuns { instance: InstanceId, machine: usize },
    #[error("{instance} was started, and is disabled")]
    DisabledStarted { instance: InstanceId },
    #[error("{slot} was disabled, and no user disabled it")]
    DisabledUnasked { slot: ReplicaId },
    #[error("{instance} was to be ended, and traffic is sent to it")]
    RoutedEnded { instance: InstanceId },
    #[error("{instance} runs {image} instead of {digest}")]
    OtherImage { instance: InstanceId, image: String, digest: ImageDigest },
    #[error("{instance} was started, and its replica has completed that before")]
    FinishedStarted { instance: InstanceId },
    #[error("what was due of {service} at {} ms began a second run", .due.0)]
    DueTwice { service: ServiceKey, due: Timestamp },
    #[error("{instance} was started while {other} runs there, of a job")]
    RunsOverlap { instance: InstanceId, other: InstanceId },
    #[error("a run of {service} is late by {by}")]
    RunLate { service: ServiceKey, by: Millis },
    #[error("{instance} was placed on node {node}, whose disk is full")]
    PlacedOnFullDisk { instance: InstanceId, node: NodeId },
    #[error("packets of {from} reach {to}, and they share no network")]
    ReachedWithoutNetwork { from: InstanceId, to: InstanceId },
    #[error("{subject}")]
    NotReached { subject: String },
    #[error("{name} leads to {address} on machine {machine}, and no way to it stands")]
    NamedWithoutWay { name: String, address: Ipv4Addr, machine: usize },
    #[error("names lead to {instance}, which is not attached to its networks")]
    NamedApart { instance: InstanceId },
    #[error("{subject}")]
    OtherReached { subject: String },
    #[error("the router of machine {machine} does not hold its plan: {missing}")]
    PlanNotHeld { machine: usize, missing: String },
    #[error(
        "{instance} may stop, and the router of machine {machine} leads to it, or did until now"
    )]
    ReleasedWhileNamed { instance: InstanceId, machine: usize },
}

impl InvariantViolation {
    /// The law that is broken, as ARCHITECTURE.md calls it.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::State(violation) => violation.law.id(),
            Self::StatesDiffer { .. } => "SIM-1",
            Self::TooManyLive { .. } => "SIM-2",
            Self::StartedTwice { .. } => "SIM-3",
            Self::ForeignEnded { .. } => "SIM-4",
            Self::ServingDropped { .. }
            | Self::HandoverEndedEarly { .. }
            | Self::RevertedToFailed { .. } => "SIM-5",
            Self::StoppedAtOnce { .. } => "SIM-6",
            Self::WantedRemoved { .. } | Self::GlobalRemoved { .. } => "SIM-7",
            Self::FollowerPlanned { .. } => "SIM-8",
            Self::AcknowledgedLost { .. } => "SIM-9",
            Self::EffectTwice { .. } => "SIM-10",
            Self::NotConverged { .. } => "SIM-11",
            Self::WroteWhileIdle { .. } => "SIM-12",
            Self::WantedEnded { .. } => "SIM-13",
            Self::TimeStandsStill { .. } => "SIM-14",
            Self::IsolatedStillRuns { .. } => "SIM-15",
            Self::DisabledStarted { .. } | Self::DisabledUnasked { .. } => "SIM-16",
            Self::RoutedEnded { .. } => "SIM-17",
            Self::OtherImage { .. } => "SIM-18",
            Self::FinishedStarted { .. } => "SIM-19",
            Self::DueTwice { .. } | Self::RunsOverlap { .. } | Self::RunLate { .. } => "SIM-20",
            Self::PlacedOnFullDisk { .. } => "SIM-21",
            Self::ReachedWithoutNetwork { .. } | Self::NotReached { .. } => "NET-7",
            Self::NamedWithoutWay { .. } | Self::NamedApart { .. } => "NET-8",
            Self::OtherReached { .. } => "NET-9",
            Self::PlanNotHeld { .. } => "NET-12",
            Self::ReleasedWhileNamed { .. } => "NET-14",
        }
    }
}

fn join(slots: &[ReplicaId]) -> String {
    let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
    slots.join(", ")
}
