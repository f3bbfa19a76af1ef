//! What rested, rests again: after its deployment is there, and only where that is what it was.

use std::time::Duration;

use jaco_client::{ClientError, fresh_request_id};
use jaco_proto::v1::{AllocationRef, GetDisabledRequest, SetDisabledRequest};
use jaco_types::{ErrorCode, Rejection};
use tokio::time::Instant;

use super::outcome::{Done, Kind};
use super::{Extent, Failed, Restore};

/// How long a replica may take to get its name, after its deployment was applied: the planner looks
/// within a quarter of a second.
const NAMING_PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before it is named once more.
const PAUSE: Duration = Duration::from_millis(200);

impl Restore<'_> {
    pub(super) async fn resting(&mut self) -> Result<(), Failed> {
        let backup = self.backup;
        let is_meant = |one: &&AllocationRef| match &self.extent {
            Extent::All => true,
            Extent::Only(names) => names.contains(&one.deployment),
        };
        let meant: Vec<&AllocationRef> = backup.disabled.iter().filter(is_meant).collect();
        if meant.is_empty() {
            return Ok(());
        }
        let there = self.client.get_disabled(GetDisabledRequest {}).await?.disabled;
        for wanted in meant {
            let is_it = |one: &jaco_proto::v1::DisabledInfo| {
                (&one.deployment, &one.service, &one.node, &one.replica)
                    == (&wanted.deployment, &wanted.service, &wanted.node, &wanted.replica)
            };
            let done = match self.of_deployment(&wanted.deployment) {
                Some(Done::Skipped { .. }) => {
                    Ok(Done::Skipped { reason: "its deployment stayed as it is here".to_owned() })
                }
                Some(Done::Refused { code, .. }) => {
                    let reason = "its deployment was refused".to_owned();
                    Ok(Done::Refused { code: *code, reason })
                }
                _ if there.iter().any(is_it) => Ok(Done::Unchanged),
                _ => self.rest(wanted).await,
            };
            self.note(Kind::Disabled, name(wanted), done)?;
        }
        Ok(())
    }

    /// What became of a deployment, if it is one of the backup's.
    fn of_deployment(&self, name: &str) -> Option<&Done> {
        let is_it = |item: &&super::Item| item.kind == Kind::Deployment && item.name == name;
        self.items.iter().find(is_it).map(|item| &item.done)
    }

    async fn rest(&self, wanted: &AllocationRef) -> Result<Done, Failed> {
        if !self.stores() {
            return Ok(Done::Restored);
        }
        let begun = Instant::now();
        loop {
            let request = SetDisabledRequest {
                change: "disable".to_owned(),
                allocations: vec![wanted.clone()],
                request_id: fresh_request_id(),
            };
            match self.client.set_disabled(request).await {
                Ok(_) => return Ok(Done::Restored),
                Err(ClientError::Refused(Rejection {
                    code: ErrorCode::ReplicaNotFound, ..
                })) if begun.elapsed() < NAMING_PATIENCE => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// As people would write it.
fn name(one: &AllocationRef) -> String {
    let service = match (one.deployment.as_str(), one.service.as_str()) {
        (_, "") => None,
        (deployment, service) => Some(format!("{deployment}/{service}")),
    };
    let node = Some(one.node.as_str()).filter(|node| !node.is_empty());
    let replica = Some(one.replica.as_str()).filter(|replica| !replica.is_empty());
    match (service, node.or(replica)) {
        (Some(service), Some(which)) => format!("{service} {which}"),
        (Some(service), None) => service,
        (None, which) => which.unwrap_or_default().to_owned(),
    }
}
