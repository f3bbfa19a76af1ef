//! Credentials of image registries. Only the cluster can tell whether a password is the same.

use jaco_backup::Kind;
use jaco_client::fresh_request_id;
use jaco_proto::v1::{BackupRegistry, StoreRegistryRequest};

use super::outcome::StepResult;
use super::progress::{Differing, Restore, RestoreError};
use crate::upload::UploadMode;

impl Restore<'_> {
    pub(super) async fn registries(&mut self) -> Result<(), RestoreError> {
        let backup = self.backup;
        for registry in backup.registries() {
            let registry = registry?;
            let result = self.registry(&registry).await;
            self.record(Kind::Registry, registry.registry, result)?;
        }
        Ok(())
    }

    async fn registry(&self, registry: &BackupRegistry) -> Result<StepResult, RestoreError> {
        let change = self.store_registry(registry, UploadMode::DryRun).await?;
        match (change.as_str(), self.differing) {
            ("unchanged", _) => return Ok(StepResult::Unchanged),
            ("updated", Differing::Keep) => {
                let reason = "the cluster has other credentials".to_owned();
                return Ok(StepResult::Skipped { reason });
            }
            (_, Differing::Keep | Differing::Replace) => {}
        }
        if self.stores() {
            self.store_registry(registry, UploadMode::Store).await?;
        }
        Ok(StepResult::Restored)
    }

    /// Stores the credentials; returns what that changes, or would change.
    async fn store_registry(
        &self,
        wanted: &BackupRegistry,
        mode: UploadMode,
    ) -> Result<String, RestoreError> {
        let request = StoreRegistryRequest {
            registry: wanted.registry.clone(),
            username: wanted.username.clone(),
            password: wanted.password.clone(),
            request_id: fresh_request_id(),
            dry_run: mode == UploadMode::DryRun,
        };
        Ok(self.client.store_registry(request).await?.change)
    }
}
