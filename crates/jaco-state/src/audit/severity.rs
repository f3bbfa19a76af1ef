//! What an event is to whoever is on call.

use super::event::AuditEvent;
use super::kind::AuditKind;

/// How soon an operator should look at an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// What happens every day.
    #[default]
    Info,
    /// Something that did not go as it should, and that the cluster deals with.
    Warning,
    /// Something that stays as it is until an operator looks at it.
    Critical,
}

impl Severity {
    /// All, the least severe first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// The severity as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// The severity with this text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

impl AuditEvent {
    /// What the event is to whoever is on call: by its kind, and for some kinds by a fact.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let fact = |key: &str| self.payload.get(key).map_or("", String::as_str);
        match self.kind {
            AuditKind::RolloutAborted
            | AuditKind::RolloutPaused
            | AuditKind::ReplicaExhausted
            | AuditKind::JobFailed
            | AuditKind::DomainCertificateFailed
            | AuditKind::NotifyUndelivered
            | AuditKind::ClusterRecovered => Severity::Critical,
            AuditKind::NodeStatus => match fact("to") {
                "down" | "engine_down" => Severity::Critical,
                "disk_full" => Severity::Warning,
                _ => Severity::Info,
            },
            AuditKind::BackupFailed => match fact("attempts") {
                "1" => Severity::Warning,
                _ => Severity::Critical,
            },
            AuditKind::JobRunEnded => match fact("end") {
                "failed" => Severity::Warning,
                _ => Severity::Info,
            },
            AuditKind::RolloutHeld
            | AuditKind::ReplicaRestarted
            | AuditKind::JobRunMissed
            | AuditKind::NodeDrainTimeout
            | AuditKind::RebalanceReverted
            | AuditKind::PrivilegedWorkloadAdmitted
            | AuditKind::AccessRefused
            | AuditKind::KekRotationAbandoned
            | AuditKind::AuthorityRotationAbandoned => Severity::Warning,
            AuditKind::Apply
            | AuditKind::Delete
            | AuditKind::Rollback
            | AuditKind::NodeJoin
            | AuditKind::NodeRemove
            | AuditKind::TokenIssue
            | AuditKind::TokenRevoke
            | AuditKind::TokenRotate
            | AuditKind::CertificateIssued
            | AuditKind::CertificateRenewed
            | AuditKind::RevisionPinned
            | AuditKind::RebalanceMoved
            | AuditKind::RebalanceSkipped
            | AuditKind::ClusterInit
            | AuditKind::RequestRefused
            | AuditKind::NodeAvailability
            | AuditKind::ConstraintsSet
            | AuditKind::NodeLabels
            | AuditKind::ReplicaPlaced
            | AuditKind::ReplicaReplaced
            | AuditKind::ReplicaMoved
            | AuditKind::ReplicaRemoved
            | AuditKind::ConsumerAttached
            | AuditKind::ConsumerDetached
            | AuditKind::ContentStored
            | AuditKind::ContentRemoved
            | AuditKind::ContentRead
            | AuditKind::BackupScheduleStored
            | AuditKind::BackupScheduleRemoved
            | AuditKind::BackupStored
            | AuditKind::NotifyStored
            | AuditKind::NotifyRemoved
            | AuditKind::NotifySettled
            | AuditKind::NotifyPaused
            | AuditKind::NotifyResumed
            | AuditKind::AuditChainBegun
            | AuditKind::AllocationsDisabled
            | AuditKind::AllocationsEnabled
            | AuditKind::ReplicaDisabled
            | AuditKind::ReplicaEnabled
            | AuditKind::AuditRetentionSet
            | AuditKind::VolumesCollected
            | AuditKind::ExecStarted
            | AuditKind::CopyStarted
            | AuditKind::ForwardStarted
            | AuditKind::VolumeRead
            | AuditKind::VolumeWrite
            | AuditKind::DataMoved
            | AuditKind::NetworksEnabled
            | AuditKind::NetworkCreated
            | AuditKind::NetworkRemoved
            | AuditKind::NetworkResized
            | AuditKind::NetworkKeyRotated
            | AuditKind::RouteAdded
            | AuditKind::RouteRemoved
            | AuditKind::CertificateStored
            | AuditKind::CertificateRemoved
            | AuditKind::PortAdded
            | AuditKind::PortRemoved
            | AuditKind::AcmeAccountMade
            | AuditKind::DomainCertificateIssued
            | AuditKind::DomainCertificateRenewed
            | AuditKind::PolicySet
            | AuditKind::PolicyGranted
            | AuditKind::PolicyRevoked
            | AuditKind::AuthorityRotationBegun
            | AuditKind::AuthorityRotationContinued
            | AuditKind::AuthorityRotationSettled
            | AuditKind::KekRotationBegun
            | AuditKind::KekRotationResealing
            | AuditKind::KekRotationSettled
            | AuditKind::ImagePush
            | AuditKind::ImageRemove
            | AuditKind::ImagesExpired
            | AuditKind::BackupTaken
            | AuditKind::RolloutStarted
            | AuditKind::RolloutCompleted
            | AuditKind::RolloutStepStarted
            | AuditKind::RolloutStepFinished
            | AuditKind::ImageResolved
            | AuditKind::JobCompleted
            | AuditKind::JobRunBegun
            | AuditKind::RegistryStored
            | AuditKind::RegistryRemoved => Severity::Info,
        }
    }
}

#[cfg(test)]
mod tests {
    use jaco_types::{Identity, Timestamp};

    use super::*;

    fn event(kind: AuditKind, facts: &[(&str, &str)]) -> AuditEvent {
        AuditEvent {
            kind,
            at: Timestamp(1),
            by: Identity::Scheduler,
            origin: None,
            request: None,
            payload: facts.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            previous: None,
        }
    }

    /// R-OPS-1: what stays broken without an operator is critical, and what the cluster deals with itself is not.
    #[test]
    fn severities_tell_what_waits_for_an_operator() {
        let to = |status| event(AuditKind::NodeStatus, &[("to", status)]).severity();
        assert_eq!(to("down"), Severity::Critical);
        assert_eq!(to("engine_down"), Severity::Critical);
        assert_eq!(to("disk_full"), Severity::Warning);
        assert_eq!(to("ready"), Severity::Info);
        let of = |kind| event(kind, &[]).severity();
        assert_eq!(of(AuditKind::ReplicaRestarted), Severity::Warning);
        assert_eq!(of(AuditKind::ReplicaExhausted), Severity::Critical);
        assert_eq!(of(AuditKind::Apply), Severity::Info);
        let ended = |end| event(AuditKind::JobRunEnded, &[("end", end)]).severity();
        assert_eq!((ended("failed"), ended("succeeded")), (Severity::Warning, Severity::Info));
        assert!(Severity::Info < Severity::Warning && Severity::Warning < Severity::Critical);
        for one in Severity::ALL {
            assert_eq!(Severity::parse(one.as_str()), Some(one));
        }
    }
}
