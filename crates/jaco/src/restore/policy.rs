//! What deployments may reach of the nodes. Restoring that gives containers rights that this cluster has not given them, so
//! it is done only where it is asked for by name.

use std::collections::BTreeSet;

use jaco_backup::Kind;
use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    AllowReachesRequest, BackupGrants, GetPolicyRequest, PolicyInfo, SetPolicyRequest,
};

use super::outcome::StepResult;
use super::progress::{PolicyWanted, Restore, RestoreError};

impl Restore<'_> {
    /// The grants first, so that what they are for is not refused in between.
    pub(super) async fn policy(&mut self) -> Result<(), RestoreError> {
        let backup = self.backup;
        if backup.policy.is_none() && backup.grants.is_empty() {
            return Ok(());
        }
        let there = self.client.get_policy(GetPolicyRequest {}).await?.policy.unwrap_or_default();
        for grants in &backup.grants {
            let result = self.grants(grants, &there).await;
            self.record(Kind::Grants, grants.deployment.clone(), result)?;
        }
        if let Some(mode) = &backup.policy {
            let result = self.policy_mode(mode, &there).await;
            self.record(Kind::Policy, mode.clone(), result)?;
        }
        Ok(())
    }

    async fn grants(
        &self,
        wanted: &BackupGrants,
        there: &PolicyInfo,
    ) -> Result<StepResult, RestoreError> {
        let granted = there.grants.iter().find(|one| one.deployment == wanted.deployment);
        let granted: BTreeSet<&String> = granted.iter().flat_map(|one| &one.reaches).collect();
        let reaches: Vec<String> =
            wanted.reaches.iter().filter(|reach| !granted.contains(reach)).cloned().collect();
        if reaches.is_empty() {
            return Ok(StepResult::Unchanged);
        }
        if self.policy == PolicyWanted::No {
            let reason = format!("grants {}; --policy restores it", reaches.join(", "));
            return Ok(StepResult::Skipped { reason });
        }
        if self.stores() {
            let deployment = wanted.deployment.clone();
            let request =
                AllowReachesRequest { deployment, reaches, request_id: fresh_request_id() };
            self.client.allow_reaches(request).await?;
        }
        Ok(StepResult::Restored)
    }

    async fn policy_mode(
        &self,
        mode: &str,
        there: &PolicyInfo,
    ) -> Result<StepResult, RestoreError> {
        if there.mode == mode {
            return Ok(StepResult::Unchanged);
        }
        if self.policy == PolicyWanted::No {
            let reason = format!("the cluster has {}; --policy restores it", there.mode);
            return Ok(StepResult::Skipped { reason });
        }
        if self.stores() {
            let (mode, request_id) = (mode.to_owned(), fresh_request_id());
            self.client.set_policy(SetPolicyRequest { mode, request_id }).await?;
        }
        Ok(StepResult::Restored)
    }
}
