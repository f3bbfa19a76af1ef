//! The responses that `jaco doctor` checks.

use jaco_proto::v1::{
    BackupScheduleInfo, ClusterStatusResponse, ContentInfo, ExamineNetworkResponse,
    ExamineResponse, NotifyTargetInfo, StatusResponse, VolumeInfo,
};

/// The responses that are checked.
#[derive(Debug)]
pub(super) struct Examination<'a> {
    /// The cluster as the node that answers knows it.
    pub(super) cluster: &'a ClusterStatusResponse,
    /// What each member reports about itself.
    pub(super) members: &'a ExamineResponse,
    /// What packets between the routers of the nodes have found.
    pub(super) network: &'a ExamineNetworkResponse,
    /// The desired and the observed state; `None` if the node that answers has not caught up since its
    /// start.
    pub(super) status: Option<&'a StatusResponse>,
    /// The stored secrets; none if the node that answers does not know them.
    pub(super) secrets: &'a [ContentInfo],
    /// The targets of notifications; none if the node that answers does not know them.
    pub(super) targets: &'a [NotifyTargetInfo],
    /// The volumes of the nodes that have listed them.
    pub(super) volumes: &'a [VolumeInfo],
    /// The schedules of backups; none if the node that answers does not know them.
    pub(super) backups: &'a [BackupScheduleInfo],
    /// The version of this program.
    pub(super) own_version: &'a str,
    /// The time of this machine.
    pub(super) now_ms: i64,
}
