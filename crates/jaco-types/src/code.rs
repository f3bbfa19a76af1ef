//! The closed set of error codes. Each has a page, `docs/errors/<code>.md`, and an exit code.

use std::fmt;

/// What the process exits with for an error (R-CLI-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitCode {
    /// Converged, or nothing to do.
    Converged = 0,
    /// Something that should not happen.
    Unexpected = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The manifest or the request was refused; nothing changed.
    Rejected = 3,
    /// Changes are pending (`plan --exit-code`).
    ChangesPending = 4,
    /// Not everything can be placed.
    CannotPlace = 5,
    /// The rollout was rolled back.
    RolledBack = 6,
    /// The timeout has passed; the work continues in the cluster.
    TimedOut = 7,
    /// The plan is stale.
    StalePlan = 8,
    /// No leader, no quorum, or no connection.
    Unreachable = 9,
    /// Not authorised.
    NotAuthorised = 10,
    /// What was asked to survive a loss would not (`--require-survive`).
    WouldNotSurvive = 11,
    /// Interrupted by the user; the work continues in the cluster.
    Interrupted = 130,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal, $exit:ident;)*) => {
        /// A stable name for a cause.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as users see it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// What a command that fails with it exits with.
            #[must_use]
            pub const fn exit_code(self) -> ExitCode {
                match self {
                    $(Self::$variant => ExitCode::$exit,)*
                }
            }
        }
    };
}

error_codes! {
    /// A defect in JACO, or a failure it has no name for.
    Internal => "internal", Unexpected;
    /// The daemon has no cluster yet.
    ClusterUninitialized => "cluster_uninitialized", Unreachable;
    /// The daemon already belongs to a cluster.
    ClusterAlreadyInitialized => "cluster_already_initialized", Rejected;
    /// There is no leader at the moment.
    NoLeader => "no_leader", Unreachable;
    /// Too few voters answer to agree on anything.
    QuorumLost => "quorum_lost", Unreachable;
    /// The node has not caught up with the cluster since its start.
    NotCaughtUp => "not_caught_up", Unreachable;
    /// The key-encryption key of the node is not the cluster's.
    KekMismatch => "kek_mismatch", Rejected;
    /// No connection to a daemon.
    Unavailable => "unavailable", Unreachable;
    /// The daemon has too many requests in progress.
    Overloaded => "overloaded", Unreachable;
    /// The disks of a majority of the voters are full.
    DiskFull => "disk_full", Rejected;
    /// The time given for a request ran out; whether it took effect is not known.
    TimedOut => "timed_out", TimedOut;
    /// The request carries no credential.
    Unauthenticated => "unauthenticated", NotAuthorised;
    /// The credential does not allow this.
    PermissionDenied => "permission_denied", NotAuthorised;
    /// The operator token is not one of this cluster's.
    TokenInvalid => "token_invalid", NotAuthorised;
    /// The operator token was revoked.
    TokenRevoked => "token_revoked", NotAuthorised;
    /// The operator token has expired.
    TokenExpired => "token_expired", NotAuthorised;
    /// No token has this id.
    TokenNotFound => "token_not_found", Rejected;
    /// A token of this name exists.
    TokenExists => "token_exists", Rejected;
    /// The join token is not one of this cluster's.
    JoinTokenInvalid => "join_token_invalid", NotAuthorised;
    /// The join token has expired.
    JoinTokenExpired => "join_token_expired", NotAuthorised;
    /// The join token was used before.
    JoinTokenConsumed => "join_token_consumed", NotAuthorised;
    /// The certificate does not belong to this cluster or to the sender it claims.
    CertificateInvalid => "certificate_invalid", NotAuthorised;
    /// The certificate request of a joining node is malformed.
    CsrInvalid => "csr_invalid", Rejected;
    /// The manifest breaks a rule; every problem is listed with its place.
    InvalidManifest => "invalid_manifest", Rejected;
    /// The request is malformed.
    InvalidRequest => "invalid_request", Rejected;
    /// The manifest names a host that is not a member.
    UnknownHost => "unknown_host", Rejected;
    /// More replicas are asked for than hosts are named.
    ReplicasExceedPinnedHosts => "replicas_exceed_pinned_hosts", Rejected;
    /// Two services want the same port of the host.
    PortConflict => "port_conflict", Rejected;
    /// Two services would give their replicas the same names.
    ReplicaIdConflict => "replica_id_conflict", Rejected;
    /// There is no network of this name.
    NetworkNotFound => "network_not_found", Rejected;
    /// A network of this name exists.
    NetworkExists => "network_exists", Rejected;
    /// Something is attached to the network, or was until a minute ago, or a deployment names it.
    NetworkInUse => "network_in_use", Rejected;
    /// The cluster's networks are not enabled, or cannot be.
    NetworksNotEnabled => "networks_not_enabled", Rejected;
    /// The pool of addresses has no room for another network.
    NetworkPoolExhausted => "network_pool_exhausted", Rejected;
    /// A service reaches for what of its node is not granted to the deployment.
    PolicyRefused => "policy_refused", Rejected;
    /// There is no deployment of this name.
    DeploymentNotFound => "deployment_not_found", Rejected;
    /// The deployment has no revision of this number any more.
    RevisionNotFound => "revision_not_found", Rejected;
    /// The node cannot make the state at this index again.
    IndexNotKept => "index_not_kept", Rejected;
    /// There is no earlier revision to roll back to.
    NoPreviousRevision => "no_previous_revision", Rejected;
    /// The deployment has no service of this name.
    ServiceNotFound => "service_not_found", Rejected;
    /// No image of this name was pushed.
    ImageNotFound => "image_not_found", Rejected;
    /// A deployment uses the pushed image.
    ImageInUse => "image_in_use", Rejected;
    /// Fewer nodes than asked for hold the pushed image so far.
    ImageNotHeld => "image_not_held", Rejected;
    /// The image store of the node has no room for the image.
    ImageStoreFull => "image_store_full", Rejected;
    /// There is no volume of this name.
    VolumeNotFound => "volume_not_found", Rejected;
    /// The node has a volume of this name.
    VolumeExists => "volume_exists", Rejected;
    /// Containers use the volume.
    VolumeInUse => "volume_in_use", Rejected;
    /// There is no replica of this name.
    ReplicaNotFound => "replica_not_found", Rejected;
    /// The replica has no container that runs.
    ReplicaNotRunning => "replica_not_running", Rejected;
    /// There is nothing at this path of the container.
    PathNotFound => "path_not_found", Rejected;
    /// Nothing answers at this port of the container.
    PortUnreachable => "port_unreachable", Rejected;
    /// There is no node of this name.
    NodeNotFound => "node_not_found", Rejected;
    /// A node of this name is a member already.
    NodeAlreadyMember => "node_already_member", Rejected;
    /// The node cannot be removed in its present state.
    NodeNotRemovable => "node_not_removable", Rejected;
    /// The request is larger than the daemon takes.
    TooLarge => "too_large", Rejected;
    /// Contents of files that the change refers to are not in the cluster.
    ContentMissing => "content_missing", Rejected;
    /// The cluster keeps no config or secret of this name.
    ContentNotFound => "content_not_found", Rejected;
    /// Deployments use the config or secret.
    ContentInUse => "content_in_use", Rejected;
    /// Audit events are not as they were written.
    AuditChainBroken => "audit_chain_broken", Rejected;
    /// The file is no backup, or is not as it was written.
    BackupInvalid => "backup_invalid", Rejected;
    /// Some of a backup was refused.
    RestoreIncomplete => "restore_incomplete", Rejected;
    /// What was to be enabled stays disabled as part of something wider.
    StillDisabled => "still_disabled", Rejected;
    /// Some member runs a version that does not know what was asked for.
    MembersOutdated => "members_outdated", Rejected;
    /// The rotation of the authority waits for something, or is in another phase.
    RotationHeld => "rotation_held", Rejected;
    /// Another deployment has the route, or another setting for its domain.
    RouteConflict => "route_conflict", Rejected;
    /// There is no certificate of that name.
    CertificateNotFound => "certificate_not_found", Rejected;
    /// A route names the certificate.
    CertificateInUse => "certificate_in_use", Rejected;
    /// What was given is no certificate that an edge could use.
    CertificateUnusable => "certificate_unusable", Rejected;
    /// What the change was based on has moved.
    StalePlan => "stale_plan", StalePlan;
    /// Not every replica can be placed.
    CannotPlace => "cannot_place", CannotPlace;
    /// The loss of one node or zone would leave replicas without a place.
    WouldNotSurvive => "would_not_survive", WouldNotSurvive;
    /// A replica exhausted its restart budget.
    RestartExhausted => "restart_exhausted", Unexpected;
    /// A rollout was aborted; the previous revision serves.
    RolledBack => "rolled_back", RolledBack;
    /// A rollout is paused after a failed step, until the next apply or rollback.
    RolloutPaused => "rollout_paused", Unexpected;
    /// Another request cancelled what this one waited for.
    CalledOff => "called_off", Unexpected;
    /// The container engine failed.
    EngineError => "engine_error", Unexpected;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for ErrorCode {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let found = Self::ALL.iter().find(|code| code.as_str() == text);
        found.copied().ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

/// A text that is no error code, for example one of a newer version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown error code {0:?}")]
pub struct UnknownCode(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-8: the set is closed, and no two codes share a name.
    #[test]
    fn codes_are_distinct_and_read_back() {
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
    }
}
