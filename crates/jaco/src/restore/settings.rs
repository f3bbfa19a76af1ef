//! Settings of the cluster and its nodes: retention, default constraints, labels and cordons.

use std::collections::HashMap;

use jaco_backup::Kind;
use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    BackupNode, BackupPair, ClusterStatusRequest, GetConstraintsRequest, NodeInfo,
    SetAuditRetentionRequest, SetAvailabilityRequest, SetConstraintsRequest, SetLabelsRequest,
};
use jaco_types::ErrorCode;

use super::outcome::StepResult;
use super::progress::{Differing, Restore, RestoreError};
use crate::format::time;

/// The default audit retention, 90 days. A cluster that still has it was not configured.
const DEFAULT_RETENTION_MS: u64 = 90 * 24 * 3600 * 1000;

impl Restore<'_> {
    pub(super) async fn retention(&mut self) -> Result<(), RestoreError> {
        let Some(age_ms) = self.backup.retention_ms else { return Ok(()) };
        let result = self.set_retention(age_ms).await;
        self.record(Kind::Retention, "audit", result)
    }

    async fn set_retention(&self, age_ms: u64) -> Result<StepResult, RestoreError> {
        let request = |age_ms| SetAuditRetentionRequest { age_ms, request_id: fresh_request_id() };
        let current = self.client.set_audit_retention(request(0)).await?.age_ms;
        if current == age_ms {
            return Ok(StepResult::Unchanged);
        }
        // A new cluster has no retention until it writes its default.
        let is_default = current == 0 || current == DEFAULT_RETENTION_MS;
        if !is_default && self.differing == Differing::Keep {
            let current = time::length(current);
            return Ok(StepResult::Skipped {
                reason: format!("the cluster keeps events for {current}"),
            });
        }
        if self.stores() {
            self.client.set_audit_retention(request(age_ms)).await?;
        }
        Ok(StepResult::Restored)
    }

    pub(super) async fn constraints(&mut self) -> Result<(), RestoreError> {
        if self.backup.constraints.is_empty() {
            return Ok(());
        }
        let current = self.client.get_constraints(GetConstraintsRequest {}).await?.pairs;
        for pair in &self.backup.constraints {
            let result = match self.compare(current.get(&pair.key), &pair.value) {
                StepResult::Restored => self.constrain(pair).await,
                result @ (StepResult::Unchanged
                | StepResult::Skipped { .. }
                | StepResult::Refused { .. }) => Ok(result),
            };
            self.record(Kind::Constraint, &pair.key, result)?;
        }
        Ok(())
    }

    async fn constrain(&self, pair: &BackupPair) -> Result<StepResult, RestoreError> {
        if self.stores() {
            let request = SetConstraintsRequest {
                pairs: [(pair.key.clone(), pair.value.clone())].into(),
                request_id: fresh_request_id(),
            };
            self.client.set_constraints(request).await?;
        }
        Ok(StepResult::Restored)
    }

    /// What to do with a value.
    fn compare(&self, current: Option<&String>, wanted: &str) -> StepResult {
        match current {
            Some(current) if current == wanted => StepResult::Unchanged,
            Some(current) if self.differing == Differing::Keep => StepResult::Skipped {
                reason: format!("the cluster has {current:?}, the backup {wanted:?}"),
            },
            Some(_) | None => StepResult::Restored,
        }
    }

    pub(super) async fn nodes(&mut self) -> Result<(), RestoreError> {
        if self.backup.nodes.is_empty() {
            return Ok(());
        }
        let current = self.client.status(ClusterStatusRequest {}).await?.nodes;
        for node in &self.backup.nodes {
            let node = self.mapping.map_node(node);
            let result = match current.iter().find(|one| one.hostname == node.hostname) {
                Some(current) => self.node(&node, current).await,
                None => Ok(StepResult::Refused {
                    code: ErrorCode::NodeNotFound,
                    reason: "no node with this name has joined".to_owned(),
                }),
            };
            self.record(Kind::Node, &node.hostname, result)?;
        }
        Ok(())
    }

    async fn node(
        &self,
        wanted: &BackupNode,
        current: &NodeInfo,
    ) -> Result<StepResult, RestoreError> {
        let (mut set, mut skipped) = (HashMap::new(), Vec::new());
        for label in &wanted.labels {
            match self.compare(current.labels.get(&label.key), &label.value) {
                StepResult::Restored => drop(set.insert(label.key.clone(), label.value.clone())),
                StepResult::Skipped { reason } => {
                    skipped.push(format!("label {}: {reason}", label.key));
                }
                StepResult::Unchanged | StepResult::Refused { .. } => {}
            }
        }
        // Only a cordon is restored: a node that is cordoned here has its own reason for it.
        let cordon = wanted.cordoned && current.availability == "active";
        let changes = cordon || !set.is_empty();
        if self.stores() && !set.is_empty() {
            let request = SetLabelsRequest {
                hostname: wanted.hostname.clone(),
                set,
                request_id: fresh_request_id(),
                ..SetLabelsRequest::default()
            };
            self.client.set_labels(request).await?;
        }
        if self.stores() && cordon {
            let request = SetAvailabilityRequest {
                hostname: wanted.hostname.clone(),
                availability: "cordoned".to_owned(),
                request_id: fresh_request_id(),
                ..SetAvailabilityRequest::default()
            };
            self.client.set_availability(request).await?;
        }
        Ok(match (skipped.is_empty(), changes) {
            (false, _) => StepResult::Skipped { reason: skipped.join("; ") },
            (true, true) => StepResult::Restored,
            (true, false) => StepResult::Unchanged,
        })
    }
}
