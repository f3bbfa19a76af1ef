//! Shared networks. Those of deployments come with the deployments, and the pool is the cluster's own.

use jaco_backup::Kind;
use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    BackupNetwork, CreateNetworkRequest, ListNetworksRequest, ListNetworksResponse, NetworkInfo,
    RemoveNetworkRequest,
};
use jaco_types::{ErrorCode, Ipv4Prefix};

use super::outcome::StepResult;
use super::progress::{Differing, Restore, RestoreError};

impl Restore<'_> {
    pub(super) async fn networks(&mut self) -> Result<(), RestoreError> {
        let backup = self.backup;
        if backup.networks.is_empty() {
            return Ok(());
        }
        let there = self.client.list_networks(ListNetworksRequest::default()).await?;
        for network in &backup.networks {
            let result = self.network(network, &there).await;
            self.record(Kind::Network, network.name.clone(), result)?;
        }
        Ok(())
    }

    async fn network(
        &self,
        wanted: &BackupNetwork,
        there: &ListNetworksResponse,
    ) -> Result<StepResult, RestoreError> {
        if there.pool.is_none() {
            let reason = "this cluster has no networks of its own; run `jaco network enable`, \
                          then restore again";
            let (code, reason) = (ErrorCode::NetworksNotEnabled, reason.to_owned());
            return Ok(StepResult::Refused { code, reason });
        }
        match there.networks.iter().find(|network| network.name == wanted.name) {
            Some(found) if is_equal(found, wanted) => return Ok(StepResult::Unchanged),
            Some(found) if self.differing == Differing::Keep => {
                return Ok(StepResult::Skipped { reason: difference(found) });
            }
            // The subnet of a network and what it reaches are as it was created.
            Some(_) if self.stores() => {
                let (name, request_id) = (wanted.name.clone(), fresh_request_id());
                self.client.remove_network(RemoveNetworkRequest { name, request_id }).await?;
            }
            Some(found) if is_in_use(found) => {
                let reason =
                    "it differs and is in use; stop what is attached to it, and wait a minute";
                let (code, reason) = (ErrorCode::NetworkInUse, reason.to_owned());
                return Ok(StepResult::Refused { code, reason });
            }
            Some(_) | None => {}
        }
        if self.stores() {
            let request = CreateNetworkRequest {
                name: wanted.name.clone(),
                internal: wanted.internal,
                prefix_length: wanted.prefix_length,
                request_id: fresh_request_id(),
            };
            self.client.create_network(request).await?;
        }
        Ok(StepResult::Restored)
    }
}

fn is_equal(found: &NetworkInfo, wanted: &BackupNetwork) -> bool {
    let length = found.subnet.parse::<Ipv4Prefix>().map(|subnet| u32::from(subnet.length()));
    found.internal == wanted.internal && length == Ok(wanted.prefix_length)
}

/// Whether the cluster would refuse to remove it. Nothing is removed in a dry run, so nothing else says so.
fn is_in_use(found: &NetworkInfo) -> bool {
    found.used + found.quarantined > 0 || !found.deployments.is_empty()
}

fn difference(found: &NetworkInfo) -> String {
    let reach = if found.internal { ", internal" } else { "" };
    format!("the cluster has another one of this name: {}{reach}", found.subnet)
}
