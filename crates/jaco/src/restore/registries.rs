//! Who the cluster is at image registries. Whether a password is the same only the cluster can tell.

use jaco_client::fresh_request_id;
use jaco_proto::v1::{BackupRegistry, StoreRegistryRequest};

use super::outcome::{Done, Kind};
use super::{Differing, Failed, Restore};
use crate::ship::Sending;

impl Restore<'_> {
    pub(super) async fn registries(&mut self) -> Result<(), Failed> {
        let backup = self.backup;
        for registry in backup.registries() {
            let registry = registry?;
            let done = self.log_in(&registry).await;
            self.note(Kind::Registry, registry.registry, done)?;
        }
        Ok(())
    }

    async fn log_in(&self, registry: &BackupRegistry) -> Result<Done, Failed> {
        let change = self.stored(registry, Sending::Nothing).await?;
        match (change.as_str(), self.differing) {
            ("unchanged", _) => return Ok(Done::Unchanged),
            ("updated", Differing::Keep) => {
                let reason = "it has other credentials here".to_owned();
                return Ok(Done::Skipped { reason });
            }
            (_, Differing::Keep | Differing::Replace) => {}
        }
        if self.stores() {
            self.stored(registry, Sending::Store).await?;
        }
        Ok(Done::Restored)
    }

    /// What storing it changes, or would.
    async fn stored(&self, wanted: &BackupRegistry, sending: Sending) -> Result<String, Failed> {
        let request = StoreRegistryRequest {
            registry: wanted.registry.clone(),
            username: wanted.username.clone(),
            password: wanted.password.clone(),
            request_id: fresh_request_id(),
            dry_run: sending == Sending::Nothing,
        };
        Ok(self.client.store_registry(request).await?.change)
    }
}
