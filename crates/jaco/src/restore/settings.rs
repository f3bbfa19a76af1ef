//! What people said of the cluster and its nodes: retention, constraints, labels and cordons.

use std::collections::HashMap;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    BackupNode, BackupPair, ClusterStatusRequest, GetConstraintsRequest, NodeInfo,
    SetAuditRetentionRequest, SetAvailabilityRequest, SetConstraintsRequest, SetLabelsRequest,
};
use jaco_types::ErrorCode;

use super::outcome::{Done, Kind};
use super::{Differing, Failed, Restore};
use crate::when;

/// How long a cluster keeps audit events of which nobody said how long: 90 days. It is no wish of anybody.
const UNSAID_RETENTION_MS: u64 = 90 * 24 * 3600 * 1000;

impl Restore<'_> {
    pub(super) async fn retention(&mut self) -> Result<(), Failed> {
        let Some(age_ms) = self.backup.retention_ms else { return Ok(()) };
        let done = self.keep_events(age_ms).await;
        self.note(Kind::Retention, "audit", done)
    }

    async fn keep_events(&self, age_ms: u64) -> Result<Done, Failed> {
        let asked = |age_ms| SetAuditRetentionRequest { age_ms, request_id: fresh_request_id() };
        let there = self.client.set_audit_retention(asked(0)).await?.age_ms;
        if there == age_ms {
            return Ok(Done::Unchanged);
        }
        // A cluster that is a moment old has none yet, and takes one as soon as it has.
        let unsaid = there == 0 || there == UNSAID_RETENTION_MS;
        if !unsaid && self.differing == Differing::Keep {
            let there = when::length(there);
            return Ok(Done::Skipped { reason: format!("events are kept for {there} here") });
        }
        if self.stores() {
            self.client.set_audit_retention(asked(age_ms)).await?;
        }
        Ok(Done::Restored)
    }

    pub(super) async fn constraints(&mut self) -> Result<(), Failed> {
        if self.backup.constraints.is_empty() {
            return Ok(());
        }
        let there = self.client.get_constraints(GetConstraintsRequest {}).await?.pairs;
        for pair in &self.backup.constraints {
            let done = match self.compared(there.get(&pair.key), &pair.value) {
                Done::Restored => self.constrain(pair).await,
                done @ (Done::Unchanged | Done::Skipped { .. } | Done::Refused { .. }) => Ok(done),
            };
            self.note(Kind::Constraint, &pair.key, done)?;
        }
        Ok(())
    }

    async fn constrain(&self, pair: &BackupPair) -> Result<Done, Failed> {
        if self.stores() {
            let request = SetConstraintsRequest {
                pairs: [(pair.key.clone(), pair.value.clone())].into(),
                request_id: fresh_request_id(),
            };
            self.client.set_constraints(request).await?;
        }
        Ok(Done::Restored)
    }

    /// What has to become of a value.
    fn compared(&self, there: Option<&String>, wanted: &str) -> Done {
        match there {
            Some(there) if there == wanted => Done::Unchanged,
            Some(there) if self.differing == Differing::Keep => {
                Done::Skipped { reason: format!("it is {there:?} here, and was {wanted:?}") }
            }
            Some(_) | None => Done::Restored,
        }
    }

    pub(super) async fn nodes(&mut self) -> Result<(), Failed> {
        if self.backup.nodes.is_empty() {
            return Ok(());
        }
        let there = self.client.status(ClusterStatusRequest {}).await?.nodes;
        for node in &self.backup.nodes {
            let done = match there.iter().find(|one| one.hostname == node.hostname) {
                Some(there) => self.node(node, there).await,
                None => Ok(Done::Refused {
                    code: ErrorCode::NodeNotFound,
                    reason: "no node of this name has joined".to_owned(),
                }),
            };
            self.note(Kind::Node, &node.hostname, done)?;
        }
        Ok(())
    }

    async fn node(&self, wanted: &BackupNode, there: &NodeInfo) -> Result<Done, Failed> {
        let (mut set, mut kept) = (HashMap::new(), Vec::new());
        for label in &wanted.labels {
            match self.compared(there.labels.get(&label.key), &label.value) {
                Done::Restored => drop(set.insert(label.key.clone(), label.value.clone())),
                Done::Skipped { reason } => kept.push(format!("label {}: {reason}", label.key)),
                Done::Unchanged | Done::Refused { .. } => {}
            }
        }
        // That it is open here may be why it is open: only a cordon is restored, never taken back.
        let cordon = wanted.cordoned && there.availability == "active";
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
        Ok(match (kept.is_empty(), changes) {
            (false, _) => Done::Skipped { reason: kept.join("; ") },
            (true, true) => Done::Restored,
            (true, false) => Done::Unchanged,
        })
    }
}
