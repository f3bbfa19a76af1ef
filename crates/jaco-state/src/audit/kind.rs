//! The kinds of audit events: names and numbers that never change.

macro_rules! audit_kinds {
    ($($(#[$doc:meta])* $variant:ident => $number:literal, $text:literal;)*) => {
        /// The kinds of events: a closed set whose names and numbers are part of the interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AuditKind {
            $($(#[$doc])* $variant = $number,)*
        }

        impl AuditKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The kind as users see it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The number it has on the wire and on disk.
            #[must_use]
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// The kind with this number.
            #[must_use]
            pub fn from_number(number: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.number() == number)
            }
        }
    };
}

// 22 is reserved and never used (R-REB-7).
audit_kinds! {
    /// A deployment was created or changed.
    Apply => 1, "apply";
    /// A deployment was deleted.
    Delete => 2, "delete";
    /// A deployment was rolled back to an earlier revision.
    Rollback => 3, "rollback";
    /// A node became a member.
    NodeJoin => 4, "node_join";
    /// A node was removed.
    NodeRemove => 5, "node_remove";
    /// A token was issued.
    TokenIssue => 6, "token_issue";
    /// A token was revoked.
    TokenRevoke => 7, "token_revoke";
    /// The secret of a token was rotated.
    TokenRotate => 862, "token_rotate";
    /// A node's certificate was issued.
    CertificateIssued => 8, "certificate_issued";
    /// A node's certificate was renewed.
    CertificateRenewed => 9, "certificate_renewed";
    /// A new revision has a service with privileges on its nodes.
    PrivilegedWorkloadAdmitted => 20, "privileged_workload_admitted";
    /// A revision was pinned or unpinned.
    RevisionPinned => 12, "revision_pinned";
    /// A replica was moved off a hot node.
    RebalanceMoved => 21, "rebalance_moved";
    /// A replica was not moved off a hot node, for a new reason.
    RebalanceSkipped => 23, "rebalance_skipped";
    /// A move off a hot node was reverted: the new instance did not become ready in time.
    RebalanceReverted => 710, "rebalance_reverted";
    /// The cluster was created.
    ClusterInit => 32, "cluster_init";
    /// Access was refused: a wrong certificate, a wrong token, a token used twice.
    AccessRefused => 33, "access_refused";
    /// A request was refused by a rule; nothing changed.
    RequestRefused => 34, "request_refused";
    /// A node's status changed.
    NodeStatus => 35, "node_status";
    /// An operator changed the availability of a node.
    NodeAvailability => 36, "node_availability";
    /// A drain timed out: the node has its previous availability again.
    NodeDrainTimeout => 800, "node_drain_timeout";
    /// An operator changed the default placement constraints.
    ConstraintsSet => 37, "constraints_set";
    /// An operator changed the labels of a node.
    NodeLabels => 38, "node_labels";
    /// A replica got its first instance.
    ReplicaPlaced => 40, "replica_placed";
    /// A replica got a new instance because its spec changed.
    ReplicaReplaced => 41, "replica_replaced";
    /// A replica got a new instance because the old one failed.
    ReplicaRestarted => 42, "replica_restarted";
    /// A replica moved to another node.
    ReplicaMoved => 43, "replica_moved";
    /// A replica was removed.
    ReplicaRemoved => 44, "replica_removed";
    /// A replica exhausted its restart budget; it is not restarted before the next apply.
    ReplicaExhausted => 45, "replica_exhausted";
    /// An endpoint consumer was attached.
    ConsumerAttached => 46, "consumer_attached";
    /// An endpoint consumer was detached.
    ConsumerDetached => 47, "consumer_detached";
    /// A named config or secret was created or changed.
    ContentStored => 60, "content_stored";
    /// A named config or secret was removed.
    ContentRemoved => 61, "content_removed";
    /// The content of a named config or secret was read by a user.
    ContentRead => 420, "content_read";
    /// A schedule of backups was added or replaced.
    BackupScheduleStored => 411, "backup_schedule_stored";
    /// A schedule of backups was removed.
    BackupScheduleRemoved => 412, "backup_schedule_removed";
    /// A backup of a schedule failed: for the first time since the last that succeeded, or so often that it stays so.
    BackupFailed => 413, "backup_failed";
    /// A backup of a schedule was written and read back.
    BackupStored => 414, "backup_stored";
    /// A target of notifications was added or replaced.
    NotifyStored => 421, "notify_stored";
    /// A target of notifications was removed.
    NotifyRemoved => 422, "notify_removed";
    /// Notifications to a target were given up, for the first time since its list of them was empty.
    NotifyUndelivered => 423, "notify_undelivered";
    /// A user had undelivered notifications sent again, or cleared.
    NotifySettled => 424, "notify_settled";
    /// A user paused a target of notifications.
    NotifyPaused => 884, "notify_paused";
    /// A user resumed a target of notifications.
    NotifyResumed => 885, "notify_resumed";
    /// The hash chain was started, over all events that were kept.
    AuditChainBegun => 70, "audit_chain_begun";
    /// Allocations were disabled.
    AllocationsDisabled => 400, "allocations_disabled";
    /// Allocations were enabled.
    AllocationsEnabled => 401, "allocations_enabled";
    /// A replica was stopped because it was disabled.
    ReplicaDisabled => 402, "replica_disabled";
    /// A replica that was disabled got an instance again.
    ReplicaEnabled => 403, "replica_enabled";
    /// The age at which events are evicted was set.
    AuditRetentionSet => 700, "audit_retention_set";
    /// Volumes of removed allocations were deleted from the nodes.
    VolumesCollected => 404, "volumes_collected";
    /// A command was started in a replica's container.
    ExecStarted => 405, "exec_started";
    /// Files were copied out of a replica's container or into it.
    CopyStarted => 406, "copy_started";
    /// A port of a replica's container was forwarded to a user.
    ForwardStarted => 407, "forward_started";
    /// What is in a volume was read.
    VolumeRead => 408, "volume_read";
    /// A volume was made of an archive.
    VolumeWrite => 409, "volume_write";
    /// A disabled replica got another node, to which its volumes were copied.
    DataMoved => 410, "data_moved";
    /// Networks became the cluster's.
    NetworksEnabled => 750, "networks_enabled";
    /// A shared network was created.
    NetworkCreated => 751, "network_created";
    /// A shared network was removed.
    NetworkRemoved => 752, "network_removed";
    /// A network got a subnet of another size.
    NetworkResized => 753, "network_resized";
    /// An operator had the router of a node take another key.
    NetworkKeyRotated => 754, "network_key_rotated";
    /// A deployment got a route.
    RouteAdded => 760, "route_added";
    /// A deployment gave a route up.
    RouteRemoved => 761, "route_removed";
    /// A certificate of a user was stored or replaced.
    CertificateStored => 762, "certificate_stored";
    /// A certificate of a user was removed.
    CertificateRemoved => 763, "certificate_removed";
    /// A service got a published port.
    PortAdded => 770, "port_added";
    /// A service gave a published port up.
    PortRemoved => 771, "port_removed";
    /// The leader made an account at an authority of certificates.
    AcmeAccountMade => 780, "acme_account_made";
    /// A domain got its first certificate from an authority.
    DomainCertificateIssued => 781, "domain_certificate_issued";
    /// The certificate of a domain was renewed.
    DomainCertificateRenewed => 782, "domain_certificate_renewed";
    /// No certificate could be ordered for a domain, for the first time since its last one.
    DomainCertificateFailed => 783, "domain_certificate_failed";
    /// A survivor of a lost quorum was made the only member.
    ClusterRecovered => 901, "cluster_recovered";
    /// What happens to services that reach for what is not granted was set.
    PolicySet => 820, "policy_set";
    /// A deployment was granted what it may reach of the nodes.
    PolicyGranted => 821, "policy_granted";
    /// Grants of a deployment were taken back.
    PolicyRevoked => 822, "policy_revoked";
    /// An admin began to replace the cluster's authority.
    AuthorityRotationBegun => 840, "authority_rotation_begun";
    /// The new authority signs from now on.
    AuthorityRotationContinued => 841, "authority_rotation_continued";
    /// The old authority is not trusted any more.
    AuthorityRotationSettled => 842, "authority_rotation_settled";
    /// The old authority stays the cluster's.
    AuthorityRotationAbandoned => 843, "authority_rotation_abandoned";
    /// An admin began to replace the key-encryption key.
    KekRotationBegun => 845, "kek_rotation_begun";
    /// All members have the new key, which seals from now on.
    KekRotationResealing => 846, "kek_rotation_resealing";
    /// Nothing is sealed with the old key any more.
    KekRotationSettled => 847, "kek_rotation_settled";
    /// The old key stays the cluster's.
    KekRotationAbandoned => 848, "kek_rotation_abandoned";
    /// A name was given to a pushed image.
    ImagePush => 970, "image_push";
    /// The name of a pushed image was removed.
    ImageRemove => 971, "image_rm";
    /// Pushed images that nothing used were removed.
    ImagesExpired => 972, "images_expired";
    /// A backup was taken, with all secrets.
    BackupTaken => 900, "backup_taken";
    /// A rollout started.
    RolloutStarted => 50, "rollout_started";
    /// A rollout replaced its last replica.
    RolloutCompleted => 51, "rollout_completed";
    /// A rollout was aborted; the service rolls back.
    RolloutAborted => 52, "rollout_aborted";
    /// A rollout was paused: too many of its replicas failed.
    RolloutPaused => 53, "rollout_paused";
    /// A step of a rollout, or of its rollback, started.
    RolloutStepStarted => 54, "rollout_step_started";
    /// A step of a rollout, or of its rollback, finished.
    RolloutStepFinished => 55, "rollout_step_finished";
    /// A rollout, or its rollback, is blocked for a new reason.
    RolloutHeld => 56, "rollout_held";
    /// The image digest of a service was pinned for a revision.
    ImageResolved => 57, "image_resolved";
    /// A replica of a job ran to its end, and is not run again.
    JobCompleted => 1000, "job_completed";
    /// A replica of a job failed, and so did its retries.
    JobFailed => 1001, "job_failed";
    /// A run of a job began.
    JobRunBegun => 910, "job_run_begun";
    /// A run of a job ended.
    JobRunEnded => 911, "job_run_ended";
    /// No run of a job began at a due time, or at several.
    JobRunMissed => 912, "job_run_missed";
    /// Credentials of an image registry were stored.
    RegistryStored => 58, "registry_stored";
    /// Credentials of an image registry were removed.
    RegistryRemoved => 59, "registry_removed";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-REB-7: numbers never change, and 22 stays reserved.
    #[test]
    fn kinds_have_distinct_numbers_and_22_is_reserved() {
        for kind in AuditKind::ALL {
            assert_eq!(AuditKind::from_number(kind.number()), Some(*kind));
        }
        assert_eq!(AuditKind::from_number(22), None);
    }
}
