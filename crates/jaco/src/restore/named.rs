//! Stored configs and secrets. They are compared by the ids of their contents, so that no secret is read
//! from the cluster.

use std::collections::BTreeMap;

use jaco_backup::{Kind, NamedPart, referenced};
use jaco_client::fresh_request_id;
use jaco_compose::tree::FileTree;
use jaco_proto::v1::{
    BackupNamed, ContentExpiry, ContentUsers, ListContentsRequest, StoreContentRequest,
};
use jaco_types::{ContentId, NamedKind};
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::outcome::StepResult;
use super::progress::{Differing, Restore, RestoreError};
use crate::upload::UploadMode;

/// The mode of the file of a stored content.
const PLAIN_MODE: u32 = 0o444;

impl Restore<'_> {
    pub(super) async fn named(&mut self) -> Result<(), RestoreError> {
        let backup = self.backup;
        let referenced = referenced(backup, &self.extent)?;
        let is_selected = |named: &&NamedPart| match &referenced {
            Some(referenced) => referenced.contains(&(named.kind.as_str(), named.name.clone())),
            None => true,
        };
        let mut current = BTreeMap::new();
        for kind in [NamedKind::Config, NamedKind::Secret] {
            let request = ListContentsRequest { kind: kind.as_str().to_owned() };
            let listed = self.client.list_contents(request).await?.contents;
            let trees = listed.into_iter().map(|one| ((kind, one.name), one.tree));
            current.extend(trees);
        }
        for named in backup.named.iter().filter(is_selected) {
            let kept = backup.named(named)?;
            let current = current.get(&(named.kind, named.name.clone()));
            let result = self.store_named(named, kept, current).await;
            let kind = match named.kind {
                NamedKind::Config => Kind::Config,
                NamedKind::Secret => Kind::Secret,
            };
            self.record(kind, &named.name, result)?;
        }
        Ok(())
    }

    async fn store_named(
        &self,
        named: &NamedPart,
        kept: BackupNamed,
        current: Option<&Bytes>,
    ) -> Result<StepResult, RestoreError> {
        let content = kept.content;
        if let Some(current) = current {
            let piece = match named.kind {
                NamedKind::Config => ContentId(Sha256::digest(&content).into()),
                NamedKind::Secret => self.secret_id(&content, UploadMode::DryRun).await?,
            };
            let tree = FileTree::of_file(PLAIN_MODE, content.len() as u64, vec![piece]);
            let wanted: [u8; 32] = Sha256::digest(tree.text()).into();
            if **current == wanted {
                return Ok(StepResult::Unchanged);
            }
            if self.differing == Differing::Keep {
                let reason = "the cluster has another content".to_owned();
                return Ok(StepResult::Skipped { reason });
            }
        }
        if self.stores() {
            let request = StoreContentRequest {
                kind: named.kind.as_str().to_owned(),
                name: named.name.clone(),
                content,
                request_id: fresh_request_id(),
                users: users(named.kind, kept.users),
                expiry: (kept.expires_at_ms > 0)
                    .then_some(ContentExpiry { at_ms: kept.expires_at_ms }),
                ..StoreContentRequest::default()
            };
            self.client.store_content(request).await?;
        }
        Ok(StepResult::Restored)
    }
}

/// Which deployments may use what is restored: a secret of a backup that does not say so was for all.
fn users(kind: NamedKind, kept: Option<ContentUsers>) -> Option<ContentUsers> {
    match kind {
        NamedKind::Config => None,
        NamedKind::Secret => {
            Some(kept.unwrap_or(ContentUsers { all: true, deployments: Vec::new() }))
        }
    }
}
