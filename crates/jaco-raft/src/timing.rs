//! Time constants and limits, and the only place that fills in openraft's `Config`.
//!
//! `enable_leader_restore` must be off: a restarted node that resumes its old term without an
//! election can assign a log id twice, and an acknowledged write is lost.

use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::error::OpenError;

/// How fast a cluster detects the loss of its leader. Use one profile for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Heartbeat interval of an idle leader.
    pub heartbeat: Duration,
    /// Lower bound of the random election timeout.
    pub election_min: Duration,
    /// Upper bound of it, and the length of a leader's lease.
    pub election_max: Duration,
}

impl Timing {
    /// One data centre: a silent leader is replaced within about a second, one whose process has ended at once
    /// (`takeover.rs`). A follower campaigns after a lease and an election timeout, in which at least four heartbeats are due; more would
    /// only cost an idle cluster.
    pub const fn lan() -> Self {
        Self {
            heartbeat: Duration::from_millis(200),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(600),
        }
    }

    /// Several sites: more than three times `lan`, because the election timeout must stay above ten
    /// times the 99th percentile of an append.
    pub const fn wan() -> Self {
        Self {
            heartbeat: Duration::from_millis(200),
            election_min: Duration::from_millis(1000),
            election_max: Duration::from_millis(2000),
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::lan()
    }
}

/// When a snapshot is created and how much log is kept behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Entries between two snapshots.
    pub entries_between: u64,
    /// Entries kept behind a snapshot, so that a follower with a short outage needs no snapshot.
    pub entries_kept: u64,
    /// Log size that triggers a snapshot regardless of the number of entries, and above which no
    /// entries are kept behind one. Checked by [`crate::Raft::compact_log`].
    pub bytes: usize,
}

/// A snapshot every 10,000 entries doubled the 99th percentile of 64 clients' writes; etcd 3.4 uses
/// 100,000 (`--snapshot-count`).
impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { entries_between: 100_000, entries_kept: 10_000, bytes: 256 << 20 }
    }
}

/// Limits of requests to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProposalLimits {
    /// Proposals in flight. Further ones get `Overloaded`.
    pub in_flight: usize,
    /// Bytes of one proposal. Larger ones get `TooLarge`.
    pub bytes: usize,
    /// How long to wait for a proposal before its outcome is `Unknown`.
    pub deadline: Duration,
}

impl Default for ProposalLimits {
    fn default() -> Self {
        Self { in_flight: 4096, bytes: 4 << 20, deadline: Duration::from_secs(10) }
    }
}

/// Whether a restarted node may resume its old term. Only the simulation enables it, to show that
/// it finds the resulting loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LeaderRestore {
    #[default]
    Never,
    #[cfg(feature = "testing")]
    Sabotage,
}

/// openraft's settings for our profile.
pub(crate) fn config(
    cluster: &str,
    timing: Timing,
    snapshots: SnapshotLimits,
    restore: LeaderRestore,
) -> Result<Config, OpenError> {
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let restore = match restore {
        LeaderRestore::Never => false,
        #[cfg(feature = "testing")]
        LeaderRestore::Sabotage => true,
    };
    let config = Config {
        cluster_name: cluster.to_owned(),
        heartbeat_interval: millis(timing.heartbeat),
        election_timeout_min: millis(timing.election_min),
        election_timeout_max: millis(timing.election_max),
        enable_leader_restore: Some(restore),
        enable_pre_vote: Some(true),
        // A leader that lost its quorum stops sending heartbeats after this long, so that those to
        // the few followers it still reaches cannot prevent an election by a connected majority. At
        // least one lease (election_max) plus one election timeout.
        quorum_loss_probe_interval: Some(2 * millis(timing.election_max)),
        allow_log_reversion: Some(false),
        max_payload_entries: 1024,
        max_append_entries: Some(4096),
        api_batch_capacity: 4096,
        api_batch_linger_ms: 0,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(snapshots.entries_between),
        max_in_snapshot_log_to_keep: snapshots.entries_kept,
        purge_batch_size: 1024.min(snapshots.entries_between),
        // Must exceed the size of a healthy log, or a follower within the log would be sent a
        // snapshot.
        replication_lag_threshold: (snapshots.entries_between + snapshots.entries_kept) * 5 / 4,
        // The default of 200 ms is too short for a large snapshot.
        install_snapshot_timeout: 30_000,
        ..Config::default()
    };
    config.validate().map_err(|error| OpenError::Settings { what: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most important test of the crate: with leader restore on, 4 of 800 simulated crash runs
    /// lost an acknowledged write.
    #[test]
    fn leader_restore_is_off_in_every_profile() {
        for timing in [Timing::lan(), Timing::wan(), Timing::default()] {
            let config =
                config("c", timing, SnapshotLimits::default(), LeaderRestore::default()).unwrap();
            assert_eq!(config.enable_leader_restore, Some(false));
            assert_eq!(config.enable_pre_vote, Some(true));
            assert_eq!(config.allow_log_reversion, Some(false));
            assert!(
                config.quorum_loss_probe_interval.unwrap() >= 2 * config.election_timeout_max,
                "the probe interval covers a lease and an election"
            );
            assert!(config.replication_lag_threshold > 20_000, "it exceeds a full log");
        }
    }

    #[test]
    fn invalid_timing_is_refused() {
        let timing = Timing { election_min: Duration::from_millis(10), ..Timing::lan() };
        let refused =
            config("c", timing, SnapshotLimits::default(), LeaderRestore::default()).unwrap_err();
        assert!(matches!(refused, OpenError::Settings { .. }), "{refused}");
    }
}
