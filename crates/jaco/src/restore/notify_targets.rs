//! Targets of notifications. They are paused until a user resumes them, so that a restore that is a trial wakes nobody.

use jaco_backup::Kind;
use jaco_client::fresh_request_id;
use jaco_proto::v1::{BackupNotifyTarget, StoreNotifyTargetRequest};

use super::outcome::StepResult;
use super::progress::{Differing, Restore, RestoreError};
use crate::upload::UploadMode;

impl Restore<'_> {
    pub(super) async fn notify_targets(&mut self) -> Result<(), RestoreError> {
        let backup = self.backup;
        for target in backup.notify_targets() {
            let target = target?;
            let result = self.notify_target(&target).await;
            self.record(Kind::NotifyTarget, target.name, result)?;
        }
        Ok(())
    }

    async fn notify_target(&self, target: &BackupNotifyTarget) -> Result<StepResult, RestoreError> {
        let change = self.store_notify_target(target, UploadMode::DryRun).await?;
        match (change.as_str(), self.differing) {
            ("unchanged", _) => return Ok(StepResult::Unchanged),
            ("updated", Differing::Keep) => {
                let reason = "the cluster has another target of this name".to_owned();
                return Ok(StepResult::Skipped { reason });
            }
            (_, Differing::Keep | Differing::Replace) => {}
        }
        if self.stores() {
            self.store_notify_target(target, UploadMode::Store).await?;
        }
        Ok(StepResult::Restored)
    }

    /// Stores the target, paused; returns what that changes, or would change.
    async fn store_notify_target(
        &self,
        wanted: &BackupNotifyTarget,
        mode: UploadMode,
    ) -> Result<String, RestoreError> {
        let request = StoreNotifyTargetRequest {
            name: wanted.name.clone(),
            form: wanted.form.clone(),
            url: wanted.url.clone(),
            secret: wanted.secret.clone(),
            filter: wanted.filter.clone(),
            // It was allowed where the backup was taken.
            insecure_http: true,
            replace: true,
            request_id: fresh_request_id(),
            mail_from: wanted.mail_from.clone(),
            mail_to: wanted.mail_to.clone(),
            paused: true,
            dry_run: mode == UploadMode::DryRun,
        };
        Ok(self.client.store_notify_target(request).await?.change)
    }
}
