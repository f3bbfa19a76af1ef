//! What happened, in order. Written by `apply` as part of the change it describes, so that no
//! change can be without its event.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::{Identity, Millis, Origin, RequestId, StateIndex, Timestamp};

use crate::audit_chain::Digest;
use crate::audit_refusals::RefusalCount;
use crate::table::Table;

/// How many events the replicated state keeps. At about 300 bytes each this is 3 MB, and at one
/// change a minute a week.
pub const KEPT_EVENTS: usize = 10_000;

/// How many go at once when there are too many: each node puts them into its archive, with one
/// `fsync` for all of them.
pub const CUT_EVENTS: usize = 500;

/// How old events may get unless people say otherwise.
pub const DEFAULT_AGE: Millis = Millis::from_secs(90 * 24 * 3600);

/// The least and the most that people may say: an hour, so that a slip of the keyboard does not empty
/// the log of the day, and ten years.
pub const AGE_MIN: Millis = CUT_STEP;
/// See [`AGE_MIN`].
pub const AGE_MAX: Millis = Millis::from_secs(3650 * 24 * 3600);

/// Age is counted in whole steps of this, so that events do not go one by one.
const CUT_STEP: Millis = Millis::from_secs(3600);

/// The most recent events, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditLog {
    /// The events by their place; bounded by [`KEPT_EVENTS`] and by [`Retention::age`].
    pub events: Table<AuditKey, AuditEvent>,
    /// The hash of the newest event; absent until the chain is begun ([`crate::audit_chain`]).
    pub head: Option<Digest>,
    /// How long events are kept; absent until the leader has written it.
    pub retention: Option<Retention>,
    /// Who was refused of late, and how often; empty until `retention` is there.
    pub refusals: Table<Identity, RefusalCount>,
}

/// How long events are kept, and what was let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// An event that is older goes with the next entry.
    pub age: Millis,
    /// No event up to here is kept, and all after it are. Absent where none was ever let go of.
    pub cut: Option<AuditKey>,
}

/// Events that an entry let go of, oldest first: what an archive must have before anything is made of
/// the state after that entry.
pub type LetGo = Vec<(AuditKey, Arc<AuditEvent>)>;

/// The place of an event: its entry, and its number among that entry's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditKey {
    /// The entry that caused it.
    pub index: StateIndex,
    /// Its number among the entry's events, from 0.
    pub number: u32,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// What kind of thing.
    pub kind: AuditKind,
    /// When, by the leader's clock.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: Identity,
    /// From where; absent in events of older versions.
    pub origin: Option<Origin>,
    /// The request it belongs to, if its sender named it.
    pub request: Option<RequestId>,
    /// The facts, by name.
    pub payload: BTreeMap<String, String>,
    /// The hash of the event before; absent until the chain is begun.
    pub previous: Option<Digest>,
}

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
    /// A deployment went back to an earlier revision.
    Rollback => 3, "rollback";
    /// A node became a member.
    NodeJoin => 4, "node_join";
    /// A node is no member any more.
    NodeRemove => 5, "node_remove";
    /// A token was issued.
    TokenIssue => 6, "token_issue";
    /// A token was revoked.
    TokenRevoke => 7, "token_revoke";
    /// A node's certificate was issued.
    CertificateIssued => 8, "certificate_issued";
    /// A node's certificate was renewed.
    CertificateRenewed => 9, "certificate_renewed";
    /// A service that reaches its nodes was let in, with a new revision of its deployment.
    PrivilegedWorkloadAdmitted => 20, "privileged_workload_admitted";
    /// Somebody pinned a revision, or let go of one.
    RevisionPinned => 12, "revision_pinned";
    /// The planner moved a replica off a hot node.
    RebalanceMoved => 21, "rebalance_moved";
    /// The planner left a replica where it is, for a new reason.
    RebalanceSkipped => 23, "rebalance_skipped";
    /// A move off a hot node was taken back: its successor did not run in time.
    RebalanceReverted => 710, "rebalance_reverted";
    /// The cluster was created.
    ClusterInit => 32, "cluster_init";
    /// Somebody was refused: a wrong certificate, a wrong token, a token used twice.
    AccessRefused => 33, "access_refused";
    /// A request was refused by a rule; nothing changed.
    RequestRefused => 34, "request_refused";
    /// A node's status changed.
    NodeStatus => 35, "node_status";
    /// People changed whether a node takes replicas.
    NodeAvailability => 36, "node_availability";
    /// A drain took too long: the node is what it was before.
    NodeDrainTimeout => 800, "node_drain_timeout";
    /// People changed what the cluster asks of nodes.
    ConstraintsSet => 37, "constraints_set";
    /// People gave a node labels, or took some back.
    NodeLabels => 38, "node_labels";
    /// A replica got its first instance.
    ReplicaPlaced => 40, "replica_placed";
    /// A replica got a new instance because its spec changed.
    ReplicaReplaced => 41, "replica_replaced";
    /// A replica got a new instance because the old one failed.
    ReplicaRestarted => 42, "replica_restarted";
    /// A replica moved to another node.
    ReplicaMoved => 43, "replica_moved";
    /// A replica is not wanted any more.
    ReplicaRemoved => 44, "replica_removed";
    /// A replica failed too often and is left alone until the next apply.
    ReplicaExhausted => 45, "replica_exhausted";
    /// Somebody follows the endpoints from now on.
    ConsumerAttached => 46, "consumer_attached";
    /// It does not any more.
    ConsumerDetached => 47, "consumer_detached";
    /// A config or secret of the cluster got a content.
    ContentStored => 60, "content_stored";
    /// A config or secret of the cluster was removed.
    ContentRemoved => 61, "content_removed";
    /// From here on, and of all that was kept by then, each event carries the hash of the one before.
    AuditChainBegun => 70, "audit_chain_begun";
    /// People want allocations to rest.
    AllocationsDisabled => 400, "allocations_disabled";
    /// People want allocations that rested to run again.
    AllocationsEnabled => 401, "allocations_enabled";
    /// A replica runs nothing any more, because people want it to rest.
    ReplicaDisabled => 402, "replica_disabled";
    /// A replica that rested got an instance again.
    ReplicaEnabled => 403, "replica_enabled";
    /// How long events are kept was set.
    AuditRetentionSet => 700, "audit_retention_set";
    /// What removed allocations left on the nodes was removed for good.
    VolumesCollected => 404, "volumes_collected";
    /// Somebody runs a command in a replica's container.
    ExecStarted => 405, "exec_started";
    /// Somebody took a backup, with all secrets in it.
    BackupTaken => 900, "backup_taken";
    /// A rollout began.
    RolloutStarted => 50, "rollout_started";
    /// A rollout replaced its last replica.
    RolloutCompleted => 51, "rollout_completed";
    /// A rollout was given up.
    RolloutAborted => 52, "rollout_aborted";
    /// Too much of a rollout failed, and nothing more of it is done.
    RolloutPaused => 53, "rollout_paused";
    /// A step of a rollout, or of its way back, began.
    RolloutStepStarted => 54, "rollout_step_started";
    /// It is over.
    RolloutStepFinished => 55, "rollout_step_finished";
    /// A rollout, or its way back, waits for something, for a reason not given before.
    RolloutHeld => 56, "rollout_held";
    /// What an image is was settled for a revision.
    ImageResolved => 57, "image_resolved";
    /// The cluster got credentials of an image registry, or others than before.
    RegistryStored => 58, "registry_stored";
    /// The cluster has no credentials of an image registry any more.
    RegistryRemoved => 59, "registry_removed";
}

impl AuditLog {
    /// Whether the steps of rollouts are told: not as long as members of an older version may be about,
    /// who know neither the events nor what they are made from.
    #[must_use]
    pub fn tells_steps(&self) -> bool {
        self.retention.is_some()
    }

    /// Adds an event, to the chain if there is one; the oldest go when there are too many.
    pub(crate) fn push(&mut self, key: AuditKey, event: AuditEvent, gone: &mut LetGo) {
        let event = AuditEvent { previous: self.head, ..event };
        self.head = self.head.map(|_| Digest::of(key, &event));
        self.events.insert(key, event);
        if self.events.len() > KEPT_EVENTS {
            // One by one as long as other versions may be about, which do it that way.
            let room = if self.retention.is_some() { CUT_EVENTS } else { 0 };
            while self.events.len() > KEPT_EVENTS - room {
                self.let_go_of_oldest(gone);
            }
        }
    }

    /// Lets go of what is too old at this moment, in whole steps.
    pub(crate) fn expire(&mut self, now: Timestamp, gone: &mut LetGo) {
        let Some(Retention { age, .. }) = self.retention else { return };
        let oldest = now.0.saturating_sub(age.0) / CUT_STEP.0 * CUT_STEP.0;
        while self.events.values().next().is_some_and(|event| event.at.0 < oldest) {
            self.let_go_of_oldest(gone);
        }
    }

    fn let_go_of_oldest(&mut self, gone: &mut LetGo) {
        let Some((key, event)) = self.events.pop_first() else { return };
        if let Some(retention) = &mut self.retention {
            retention.cut = Some(key);
        }
        gone.push((key, event));
    }

    /// Sets how long events are kept; what was set before, if anything was.
    ///
    /// What is older than the oldest that is kept may have been let go of before this was counted.
    pub(crate) fn set_age(&mut self, age: Millis) -> Option<Millis> {
        let before = self.retention;
        let cut = match before {
            Some(retention) => retention.cut,
            None if self.events.len() < KEPT_EVENTS => None,
            None => self.events.keys().next().map(AuditKey::before),
        };
        self.retention = Some(Retention { age, cut });
        before.map(|retention| retention.age)
    }
}

impl AuditKey {
    /// The last place before this one.
    fn before(&self) -> Self {
        match self.number.checked_sub(1) {
            Some(number) => Self { index: self.index, number },
            None => Self { index: StateIndex(self.index.0.saturating_sub(1)), number: u32::MAX },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers are forever, and 22 stays reserved.
    #[test]
    fn kinds_have_distinct_numbers_and_22_is_reserved() {
        for kind in AuditKind::ALL {
            assert_eq!(AuditKind::from_number(kind.number()), Some(*kind));
        }
        assert_eq!(AuditKind::from_number(22), None);
    }
}
