//! The laws that hold of every state that `apply` can produce: a check for each. Property tests and the
//! simulation call [`violations`] after every entry. ARCHITECTURE.md states the laws.

mod audit;
mod backup;
mod contents;
mod deployments;
mod disabled;
mod edge;
mod images;
mod job;
mod kek;
mod members;
pub mod network;
mod notify;
mod port;
mod rotation;
mod slots;

use std::fmt;

use crate::state::ClusterState;

/// A law about states, by the id that it has in ARCHITECTURE.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Law {
    /// ST-5: the desired revision is kept.
    DesiredRevisionKept,
    /// ST-6: a slot is named after its service and ordinal.
    SlotName,
    /// ST-7: a retiring instance is older than the current one.
    RetiringIsOlder,
    /// ST-8: nothing is newer than the state.
    NotFromTheFuture,
    /// ST-9: every node was admitted.
    NodeAdmitted,
    /// ST-10: bounds of the audit log and of the outcomes of requests.
    LogBounds,
    /// ST-11: a terminating instance is in no slot.
    TerminatingInNoSlot,
    /// ST-12: contents are kept exactly if they are referred to, within bounds.
    Contents,
    /// ST-13: the hash chain of the audit log has no break.
    AuditChain,
    /// ST-14: disabled scopes name what exists.
    DisabledExists,
    /// ST-15: a disabled slot retires nothing.
    DisabledRunsNothing,
    /// ST-16: digests belong to services of their revision.
    Digests,
    /// ST-17: bounds of registry credentials.
    RegistryBounds,
    /// NET-1: an address has one holder.
    AddressHeldOnce,
    /// NET-2: addresses lie in their networks, and subnets in the pool, apart from each other.
    AddressInNetwork,
    /// NET-3: an address is in quarantine after its holder is gone.
    AddressQuarantined,
    /// NET-4: an instance has exactly the networks of its revision, or joined those of its deployment while it ran.
    NetworksOfRevision,
    /// NET-5: a route and a published port have one owner each, whose desired spec has it and the service that it
    /// goes to; a certificate that a route names is there.
    RouteOwned,
    /// NET-6: nodes have addresses of their own in the mesh.
    MeshAddress,
    /// NET-16: challenges and failed orders are of domains that a route orders a certificate for, within bounds.
    OrdersWanted,
    /// ST-18: a finished slot retires nothing, and one that succeeded has not exhausted its retries.
    FinishedRunsNothing,
    /// ST-19: a phase of a rotation was left after each member's report.
    PhaseLeftByReports,
    /// ST-20: the cluster's record has the authorities of the phase.
    PhaseTrusts,
    /// ST-21: a phase of a rotation of the key-encryption key was left after each member's report.
    KekPhaseLeftByReports,
    /// ST-22: each envelope is of a key that the phase opens with.
    EnvelopesOpen,
    /// ST-23: runs of a job are counted and dealt with once.
    RunsOnce,
    /// ST-24: a job with a schedule waits exactly between its runs.
    WaitsBetweenRuns,
    /// ST-30: bounds of pushed images; names and reports lead to images that are there.
    PushedImages,
    /// ST-31: bounds of notifications; what was given up belongs to a target, and is behind its cursor.
    Notifications,
    /// ST-32: bounds of backup schedules; a due time is dealt with before its backup is taken.
    BackupSchedules,
}

impl Law {
    /// Its id.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::DesiredRevisionKept => "ST-5",
            Self::SlotName => "ST-6",
            Self::RetiringIsOlder => "ST-7",
            Self::NotFromTheFuture => "ST-8",
            Self::NodeAdmitted => "ST-9",
            Self::LogBounds => "ST-10",
            Self::TerminatingInNoSlot => "ST-11",
            Self::Contents => "ST-12",
            Self::AuditChain => "ST-13",
            Self::DisabledExists => "ST-14",
            Self::DisabledRunsNothing => "ST-15",
            Self::Digests => "ST-16",
            Self::RegistryBounds => "ST-17",
            Self::FinishedRunsNothing => "ST-18",
            Self::PhaseLeftByReports => "ST-19",
            Self::PhaseTrusts => "ST-20",
            Self::KekPhaseLeftByReports => "ST-21",
            Self::EnvelopesOpen => "ST-22",
            Self::RunsOnce => "ST-23",
            Self::WaitsBetweenRuns => "ST-24",
            Self::PushedImages => "ST-30",
            Self::Notifications => "ST-31",
            Self::BackupSchedules => "ST-32",
            Self::AddressHeldOnce => "NET-1",
            Self::AddressInNetwork => "NET-2",
            Self::AddressQuarantined => "NET-3",
            Self::NetworksOfRevision => "NET-4",
            Self::RouteOwned => "NET-5",
            Self::MeshAddress => "NET-6",
            Self::OrdersWanted => "NET-16",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// A broken law, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The law.
    pub law: Law,
    /// The entity that breaks it, and how.
    pub subject: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.subject)
    }
}

/// Returns every violation; empty if the state is sound. The chain of the audit log (ST-13) is not
/// checked here: it would hash all events for each entry. [`crate::audit::AuditLog::verify`] does it.
#[must_use]
pub fn violations(state: &ClusterState) -> Vec<Violation> {
    let mut found = Violations::default();
    deployments::check(state, &mut found);
    slots::check(state, &mut found);
    members::check(state, &mut found);
    audit::check(state, &mut found);
    disabled::check(state, &mut found);
    contents::check(state, &mut found);
    network::check(state, &mut found);
    edge::check(state, &mut found);
    port::check(state, &mut found);
    rotation::check(state, &mut found);
    kek::check(state, &mut found);
    job::check(state, &mut found);
    images::check(state, &mut found);
    notify::check(state, &mut found);
    backup::check(state, &mut found);
    found.0
}

/// The violations that the checks have found so far.
#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, law: Law, subject: String) {
        self.0.push(Violation { law, subject });
    }
}
