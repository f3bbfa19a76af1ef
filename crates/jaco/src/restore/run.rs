//! The steps of a restore, in order. A refused object is reported and the others are restored; an error
//! that would repeat aborts the restore.

use std::collections::BTreeMap;

use jaco_backup::{Backup, Extent};
use jaco_client::Client;

use super::mapping::Mapping;
use super::outcome::Restored;
use super::progress::{Differing, PolicyWanted, Restore, RestoreError};
use crate::upload::UploadMode;

/// Restores a backup, in an order in which each object finds what it refers to.
///
/// # Errors
/// What prevents all further objects from being restored. A refused object is no error.
pub(crate) async fn restore(
    client: Client,
    backup: &Backup,
    extent: Extent,
    differing: Differing,
    policy: PolicyWanted,
    mode: UploadMode,
    mapping: &Mapping,
) -> Result<Restored, RestoreError> {
    let (secrets, items) = (BTreeMap::new(), Vec::new());
    let mut restore =
        Restore { client, backup, extent, differing, policy, mode, mapping, secrets, items };
    restore.catch_up().await?;
    if restore.extent == Extent::All {
        restore.retention().await?;
        restore.constraints().await?;
        restore.nodes().await?;
        restore.registries().await?;
        restore.networks().await?;
        restore.policy().await?;
        restore.notify_targets().await?;
    }
    restore.named().await?;
    restore.deployments().await?;
    restore.disabled().await?;
    Ok(restore.finish())
}
