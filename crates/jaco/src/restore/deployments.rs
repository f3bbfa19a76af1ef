//! Deployments with their files. Pieces of secrets have different ids in each cluster, so the lists of
//! files that refer to them are rewritten.

use std::collections::{BTreeMap, BTreeSet};

use jaco_backup::{Damage, Kind, content_id, list};
use jaco_client::{ClientError, fresh_request_id};
use jaco_compose::tree::{FileTree, TreeEntry};
use jaco_proto::v1::{
    ApplyRequest, BackupDeployment, FileUpload, GetDeploymentRequest, GetDeploymentResponse,
};
use jaco_types::{ContentId, ErrorCode, Rejection};
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::outcome::StepResult;
use super::progress::{Differing, Restore, RestoreError};
use crate::upload::UploadMode;
use crate::upload::pieces::{PieceSender, missing, put_secret};

/// The contents that a deployment needs in this cluster.
#[derive(Default)]
struct NeededContents {
    /// Pieces that have the same id in the backup.
    plain: BTreeSet<ContentId>,
    /// Pieces of secrets, by their ids in the backup.
    secret: BTreeSet<ContentId>,
    /// Lists that were rewritten.
    lists: BTreeMap<ContentId, Bytes>,
}

impl Restore<'_> {
    pub(super) async fn deployments(&mut self) -> Result<(), RestoreError> {
        let backup = self.backup;
        for name in backup.deployments() {
            if !self.extent.has(name) {
                continue;
            }
            let Some(deployment) = backup.deployment(name)? else { continue };
            let result = self.deployment(deployment).await;
            self.record(Kind::Deployment, name, result)?;
        }
        Ok(())
    }

    async fn deployment(
        &mut self,
        mut wanted: BackupDeployment,
    ) -> Result<StepResult, RestoreError> {
        self.mapping.map_deployment(&mut wanted)?;
        let mut needed = NeededContents::default();
        for files in wanted.binds.iter().chain(&wanted.configs) {
            let tree = content_id(&files.tree)?;
            needed.plain.insert(tree);
            needed.plain.extend(list(self.backup, tree)?.pieces());
        }
        for piece in &needed.plain {
            self.backup.check_piece(*piece)?;
        }
        for files in &mut wanted.secrets {
            files.tree =
                self.rewritten(content_id(&files.tree)?, &mut needed).await?.0.to_vec().into();
        }
        if let Some(current) = self.current(&wanted.name).await? {
            if is_same(&wanted, &current) {
                return Ok(StepResult::Unchanged);
            }
            if self.differing == Differing::Keep {
                let reason = format!(
                    "revision {} of the cluster differs: jaco diff --of {}",
                    current.revision, current.name
                );
                return Ok(StepResult::Skipped { reason });
            }
        }
        if self.stores() {
            self.send(&needed).await?;
        }
        let applied = self.client.apply(self.request(wanted)).await?;
        Ok(if applied.change == "unchanged" { StepResult::Unchanged } else { StepResult::Restored })
    }

    fn request(&self, wanted: BackupDeployment) -> ApplyRequest {
        ApplyRequest {
            compose_json: wanted.compose_json,
            overlay_yaml: wanted.overlay_yaml,
            environment_toml: wanted.environment_toml,
            deployment: wanted.name,
            request_id: fresh_request_id(),
            binds: wanted.binds,
            configs: wanted.configs,
            secrets: wanted.secrets,
            // Their size was checked when they were first applied.
            max_file_bytes: u64::MAX,
            dry_run: !self.stores(),
            ..ApplyRequest::default()
        }
    }

    async fn current(&self, name: &str) -> Result<Option<GetDeploymentResponse>, RestoreError> {
        let request =
            GetDeploymentRequest { name: name.to_owned(), revision: 0, ..Default::default() };
        match self.client.get_deployment(request).await {
            Ok(current) => Ok(Some(current)),
            Err(ClientError::Refused(Rejection {
                code: ErrorCode::DeploymentNotFound, ..
            })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Rewrites the list of files of a secret with the ids that its pieces have here; returns its own id.
    async fn rewritten(
        &mut self,
        id: ContentId,
        needed: &mut NeededContents,
    ) -> Result<ContentId, RestoreError> {
        let mut entries = BTreeMap::new();
        for (path, entry) in list(self.backup, id)?.entries() {
            let entry = match entry {
                TreeEntry::File { mode, size, pieces } => {
                    let mut rewritten = Vec::new();
                    for piece in pieces {
                        needed.secret.insert(*piece);
                        rewritten.push(self.id_here(*piece).await?);
                    }
                    TreeEntry::File { mode: *mode, size: *size, pieces: rewritten }
                }
                TreeEntry::Folder { .. } | TreeEntry::Link { .. } => entry.clone(),
            };
            entries.insert(path.to_owned(), entry);
        }
        let tree = FileTree::new(entries)
            .map_err(|error| Damage::Contradiction(format!("list of files {id}: {error}")))?;
        let text = tree.text().into_bytes();
        let id = ContentId(Sha256::digest(&text).into());
        needed.lists.insert(id, text.into());
        Ok(id)
    }

    /// The id of a piece of a secret in this cluster.
    async fn id_here(&mut self, piece: ContentId) -> Result<ContentId, RestoreError> {
        if let Some(here) = self.secrets.get(&piece) {
            return Ok(*here);
        }
        let here = self.secret_id(&self.backup.secret(piece)?, UploadMode::DryRun).await?;
        self.secrets.insert(piece, here);
        Ok(here)
    }

    /// The id of a secret's content in this cluster. With [`UploadMode::Store`] it is stored for an apply.
    pub(super) async fn secret_id(
        &self,
        content: &Bytes,
        mode: UploadMode,
    ) -> Result<ContentId, RestoreError> {
        let id = put_secret(&self.client, content.clone(), mode).await?;
        let missing =
            || Damage::Contradiction("the cluster returned no id for a secret".to_owned());
        Ok(id.ok_or_else(missing)?)
    }

    /// Sends the contents that the cluster does not have, with at most one request of them in memory.
    async fn send(&self, needed: &NeededContents) -> Result<(), RestoreError> {
        if needed.plain.is_empty() && needed.lists.is_empty() {
            return Ok(());
        }
        let plain = needed.plain.iter().chain(needed.lists.keys()).copied();
        let secret = needed.secret.iter().filter_map(|piece| self.secrets.get(piece)).copied();
        let missing = missing(&self.client, plain.chain(secret)).await?;
        for piece in &needed.secret {
            if self.secrets.get(piece).is_some_and(|here| missing.contains(here)) {
                self.secret_id(&self.backup.secret(*piece)?, UploadMode::Store).await?;
            }
        }
        let mut sender = PieceSender::new(&self.client);
        for piece in needed.plain.iter().filter(|piece| missing.contains(*piece)) {
            sender.put(self.backup.piece(*piece)?).await?;
        }
        for (_, list) in needed.lists.iter().filter(|(id, _)| missing.contains(*id)) {
            sender.put(list.clone()).await?;
        }
        Ok(sender.finish().await?)
    }
}

/// Whether a deployment and all its files are equal.
fn is_same(wanted: &BackupDeployment, current: &GetDeploymentResponse) -> bool {
    wanted.compose_json == current.compose_json
        && wanted.overlay_yaml == current.overlay_yaml
        && wanted.environment_toml == current.environment_toml
        && by_name(&wanted.binds) == by_name(&current.binds)
        && by_name(&wanted.configs) == by_name(&current.configs)
        && by_name(&wanted.secrets) == by_name(&current.secrets)
}

fn by_name(files: &[FileUpload]) -> BTreeMap<&str, &Bytes> {
    files.iter().map(|files| (files.name.as_str(), &files.tree)).collect()
}
