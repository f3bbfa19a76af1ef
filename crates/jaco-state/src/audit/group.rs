//! Which events belong together, by a name that users give.

use super::event::AuditEvent;
use super::kind::AuditKind;
use super::severity::Severity;

/// A group of events. Each kind is in one of them; `wake` takes what is critical from all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventGroup {
    /// What wakes an operator: whatever is critical.
    Wake,
    /// Changes of deployments by users, with their routes, ports and volumes.
    Deployments,
    /// Rollouts.
    Rollouts,
    /// Replicas: placed, restarted, moved, exhausted.
    Replicas,
    /// Jobs and their runs.
    Jobs,
    /// Nodes, and who consumes endpoints.
    Nodes,
    /// Certificates of routes.
    Certificates,
    /// Who got in, who was refused, what was read, and the keys.
    Access,
    /// Settings and what the cluster stores.
    Cluster,
}

impl EventGroup {
    /// Every group.
    pub const ALL: [Self; 9] = [
        Self::Wake,
        Self::Deployments,
        Self::Rollouts,
        Self::Replicas,
        Self::Jobs,
        Self::Nodes,
        Self::Certificates,
        Self::Access,
        Self::Cluster,
    ];

    /// The group as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Deployments => "deployments",
            Self::Rollouts => "rollouts",
            Self::Replicas => "replicas",
            Self::Jobs => "jobs",
            Self::Nodes => "nodes",
            Self::Certificates => "certificates",
            Self::Access => "access",
            Self::Cluster => "cluster",
        }
    }

    /// The group with this text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Whether an event is in the group.
    #[must_use]
    pub fn has(self, event: &AuditEvent) -> bool {
        if self == Self::Wake {
            return event.severity() == Severity::Critical;
        }
        Self::of(event.kind) == self
    }

    /// The group of a kind. A new kind does not compile before it has one.
    #[must_use]
    pub const fn of(kind: AuditKind) -> Self {
        match kind {
            AuditKind::Apply
            | AuditKind::Delete
            | AuditKind::Rollback
            | AuditKind::RevisionPinned
            | AuditKind::PrivilegedWorkloadAdmitted
            | AuditKind::RouteAdded
            | AuditKind::RouteRemoved
            | AuditKind::PortAdded
            | AuditKind::PortRemoved
            | AuditKind::AllocationsDisabled
            | AuditKind::AllocationsEnabled
            | AuditKind::VolumesCollected
            | AuditKind::DataMoved => Self::Deployments,
            AuditKind::RolloutStarted
            | AuditKind::RolloutCompleted
            | AuditKind::RolloutAborted
            | AuditKind::RolloutPaused
            | AuditKind::RolloutStepStarted
            | AuditKind::RolloutStepFinished
            | AuditKind::RolloutHeld
            | AuditKind::ImageResolved => Self::Rollouts,
            AuditKind::ReplicaPlaced
            | AuditKind::ReplicaReplaced
            | AuditKind::ReplicaRestarted
            | AuditKind::ReplicaMoved
            | AuditKind::ReplicaRemoved
            | AuditKind::ReplicaExhausted
            | AuditKind::ReplicaDisabled
            | AuditKind::ReplicaEnabled
            | AuditKind::RebalanceMoved
            | AuditKind::RebalanceSkipped
            | AuditKind::RebalanceReverted => Self::Replicas,
            AuditKind::JobCompleted
            | AuditKind::JobFailed
            | AuditKind::JobRunBegun
            | AuditKind::JobRunEnded
            | AuditKind::JobRunMissed => Self::Jobs,
            AuditKind::NodeJoin
            | AuditKind::NodeRemove
            | AuditKind::NodeStatus
            | AuditKind::NodeAvailability
            | AuditKind::NodeDrainTimeout
            | AuditKind::NodeLabels
            | AuditKind::ConsumerAttached
            | AuditKind::ConsumerDetached
            | AuditKind::ClusterRecovered
            | AuditKind::CertificateIssued
            | AuditKind::CertificateRenewed => Self::Nodes,
            AuditKind::CertificateStored
            | AuditKind::CertificateRemoved
            | AuditKind::AcmeAccountMade
            | AuditKind::DomainCertificateIssued
            | AuditKind::DomainCertificateRenewed
            | AuditKind::DomainCertificateFailed => Self::Certificates,
            AuditKind::TokenIssue
            | AuditKind::TokenRevoke
            | AuditKind::TokenRotate
            | AuditKind::AccessRefused
            | AuditKind::RequestRefused
            | AuditKind::ExecStarted
            | AuditKind::CopyStarted
            | AuditKind::ForwardStarted
            | AuditKind::VolumeRead
            | AuditKind::VolumeWrite
            | AuditKind::ContentRead
            | AuditKind::BackupTaken
            | AuditKind::PolicySet
            | AuditKind::PolicyGranted
            | AuditKind::PolicyRevoked
            | AuditKind::AuthorityRotationBegun
            | AuditKind::AuthorityRotationContinued
            | AuditKind::AuthorityRotationSettled
            | AuditKind::AuthorityRotationAbandoned
            | AuditKind::KekRotationBegun
            | AuditKind::KekRotationResealing
            | AuditKind::KekRotationSettled
            | AuditKind::KekRotationAbandoned => Self::Access,
            AuditKind::ClusterInit
            | AuditKind::ConstraintsSet
            | AuditKind::ContentStored
            | AuditKind::ContentRemoved
            | AuditKind::RegistryStored
            | AuditKind::RegistryRemoved
            | AuditKind::ImagePush
            | AuditKind::ImageRemove
            | AuditKind::ImagesExpired
            | AuditKind::NetworksEnabled
            | AuditKind::NetworkCreated
            | AuditKind::NetworkRemoved
            | AuditKind::NetworkResized
            | AuditKind::NetworkKeyRotated
            | AuditKind::AuditChainBegun
            | AuditKind::AuditRetentionSet
            | AuditKind::BackupScheduleStored
            | AuditKind::BackupScheduleRemoved
            | AuditKind::BackupFailed
            | AuditKind::BackupStored
            | AuditKind::NotifyStored
            | AuditKind::NotifyRemoved
            | AuditKind::NotifyUndelivered
            | AuditKind::NotifySettled
            | AuditKind::NotifyPaused
            | AuditKind::NotifyResumed => Self::Cluster,
        }
    }
}
