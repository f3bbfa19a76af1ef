//! Disabled allocations, which are disabled again after their deployment is restored.

use std::time::Duration;

use jaco_backup::{Extent, Kind, label};
use jaco_client::{ClientError, fresh_request_id};
use jaco_proto::v1::{AllocationRef, GetDisabledRequest, SetDisabledRequest};
use jaco_types::{ErrorCode, Rejection};
use tokio::time::Instant;

use super::outcome::StepResult;
use super::progress::{Restore, RestoreError};

/// How long to wait until a replica of a restored deployment exists. The planner creates it within a
/// quarter of a second.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(200);

impl Restore<'_> {
    pub(super) async fn disabled(&mut self) -> Result<(), RestoreError> {
        let backup = self.backup;
        let is_selected = |one: &&AllocationRef| match &self.extent {
            Extent::All => true,
            Extent::Only(names) => names.contains(&one.deployment),
        };
        let selected = backup.disabled.iter().filter(is_selected);
        let selected: Vec<AllocationRef> =
            selected.map(|one| self.mapping.map_disabled(one)).collect();
        if selected.is_empty() {
            return Ok(());
        }
        let current = self.client.get_disabled(GetDisabledRequest {}).await?.disabled;
        for wanted in &selected {
            let is_same = |one: &jaco_proto::v1::DisabledInfo| {
                (&one.deployment, &one.service, &one.node, &one.replica)
                    == (&wanted.deployment, &wanted.service, &wanted.node, &wanted.replica)
            };
            let result = match self.of_deployment(&wanted.deployment) {
                Some(StepResult::Skipped { .. }) => Ok(StepResult::Skipped {
                    reason: "its deployment differs and was not changed".to_owned(),
                }),
                Some(StepResult::Refused { code, .. }) => {
                    let reason = "its deployment was refused".to_owned();
                    Ok(StepResult::Refused { code: *code, reason })
                }
                _ if current.iter().any(is_same) => Ok(StepResult::Unchanged),
                _ => self.disable(wanted).await,
            };
            self.record(Kind::Disabled, label(wanted), result)?;
        }
        Ok(())
    }

    /// The result for a deployment, if it is in the backup.
    fn of_deployment(&self, name: &str) -> Option<&StepResult> {
        let is_deployment =
            |item: &&super::outcome::Item| item.kind == Kind::Deployment && item.name == name;
        self.items.iter().find(is_deployment).map(|item| &item.result)
    }

    async fn disable(&self, wanted: &AllocationRef) -> Result<StepResult, RestoreError> {
        if !self.stores() {
            return Ok(StepResult::Restored);
        }
        let started = Instant::now();
        loop {
            let request = SetDisabledRequest {
                change: "disable".to_owned(),
                allocations: vec![wanted.clone()],
                request_id: fresh_request_id(),
            };
            match self.client.set_disabled(request).await {
                Ok(_) => return Ok(StepResult::Restored),
                Err(ClientError::Refused(Rejection {
                    code: ErrorCode::ReplicaNotFound, ..
                })) if started.elapsed() < REPLICA_TIMEOUT => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
