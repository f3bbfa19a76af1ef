//! The state of a restore, and what its steps share.

use std::collections::BTreeMap;

use jaco_backup::{Backup, Damage, Extent, Kind};
use jaco_client::{Client, ClientError};
use jaco_proto::v1::{StatusRequest, StatusScope};
use jaco_types::ContentId;
use jaco_types::code::ExitCode;

use super::mapping::Mapping;
use super::outcome::{Item, Restored, StepResult};
use crate::error::CliError;
use crate::upload::UploadMode;

/// What to do with objects that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differing {
    /// Keep them, and report them.
    Keep,
    /// Replace them with those of the backup.
    Replace,
}

/// Whether to restore what deployments may reach of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyWanted {
    /// Report what differs.
    No,
    /// Grant what the backup grants, and set what happens without a grant.
    Yes,
}

/// Why a restore was aborted.
#[derive(Debug)]
pub(crate) enum RestoreError {
    /// The cluster cannot be reached, or the user is not authorised.
    Client(ClientError),
    /// The file was changed during the restore, or refers to content that it does not hold.
    Backup(Damage),
}

impl From<ClientError> for RestoreError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<Damage> for RestoreError {
    fn from(damage: Damage) -> Self {
        Self::Backup(damage)
    }
}

impl RestoreError {
    pub(crate) fn error(self, path: &str) -> CliError {
        match self {
            Self::Client(source) => CliError::ClientDuring {
                source,
                help: format!("restored objects stay; jaco restore {path} continues"),
            },
            Self::Backup(damage) => CliError::local(format!("cannot read {path}"), damage),
        }
    }
}

/// A restore in progress.
pub(super) struct Restore<'b> {
    pub(super) client: Client,
    pub(super) backup: &'b Backup,
    pub(super) extent: Extent,
    pub(super) differing: Differing,
    pub(super) policy: PolicyWanted,
    pub(super) mode: UploadMode,
    pub(super) mapping: &'b Mapping,
    /// The ids of pieces of secrets in this cluster, by their ids in the backup.
    pub(super) secrets: BTreeMap<ContentId, ContentId>,
    pub(super) items: Vec<Item>,
}

impl Restore<'_> {
    /// The objects that were restored.
    pub(super) fn finish(self) -> Restored {
        Restored { items: self.items, mode: self.mode }
    }

    /// Makes the node that answers apply everything that is committed, so that objects restored by an
    /// earlier run through another node count as unchanged.
    pub(super) async fn catch_up(&self) -> Result<(), RestoreError> {
        let scope = StatusScope::Nodes.into();
        let request = StatusRequest { scope, linearizable: true, ..StatusRequest::default() };
        self.client.read_status(request).await?;
        Ok(())
    }

    /// Records the result for an object. A refusal concerns this object alone; any other error would repeat
    /// for the next objects and aborts the restore.
    pub(super) fn record(
        &mut self,
        kind: Kind,
        name: impl Into<String>,
        result: Result<StepResult, RestoreError>,
    ) -> Result<(), RestoreError> {
        let result = match result {
            Ok(result) => result,
            Err(RestoreError::Client(ClientError::Refused(rejection)))
                if rejection.code.exit_code() == ExitCode::Rejected =>
            {
                StepResult::Refused { code: rejection.code, reason: rejection.message }
            }
            Err(failed) => return Err(failed),
        };
        self.items.push(Item { kind, name: name.into(), result });
        Ok(())
    }

    /// Whether it is no dry run.
    pub(super) fn stores(&self) -> bool {
        self.mode == UploadMode::Store
    }
}
