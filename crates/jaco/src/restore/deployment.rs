//! Deployments with their files. Pieces of secrets have other names in each cluster, so the lists of
//! files that name them are written anew.

use std::collections::{BTreeMap, BTreeSet};

use jaco_client::{ClientError, fresh_request_id};
use jaco_compose::tree::{FileTree, TreeEntry};
use jaco_proto::v1::{
    ApplyRequest, BackupDeployment, GetDeploymentRequest, GetDeploymentResponse,
    MissingContentsRequest, PutContentsRequest, ShippedFiles,
};
use jaco_types::{ContentId, ErrorCode, Rejection};
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::outcome::{Done, Kind};
use super::{Differing, Failed, Restore};
use crate::backup::Damage;
use crate::ship::{REQUEST_BYTES_MAX, REQUEST_PIECES_MAX, Sending};

/// What a deployment's files are made of, in this cluster's names.
#[derive(Default)]
struct Freight {
    /// Pieces that are in the file under the same name.
    plain: BTreeSet<ContentId>,
    /// Pieces of secrets, by what the file calls them.
    secret: BTreeSet<ContentId>,
    /// Lists that were written anew.
    lists: BTreeMap<ContentId, Bytes>,
}

impl Restore<'_> {
    pub(super) async fn deployments(&mut self) -> Result<(), Failed> {
        let backup = self.backup;
        for name in backup.deployments() {
            if !self.extent.has(name) {
                continue;
            }
            let Some(deployment) = backup.deployment(name)? else { continue };
            let done = self.deployment(deployment).await;
            self.note(Kind::Deployment, name, done)?;
        }
        Ok(())
    }

    async fn deployment(&mut self, mut wanted: BackupDeployment) -> Result<Done, Failed> {
        let mut freight = Freight::default();
        for files in wanted.binds.iter().chain(&wanted.configs) {
            let tree = id(&files.tree)?;
            freight.plain.insert(tree);
            freight.plain.extend(self.list(tree)?.pieces());
        }
        for piece in &freight.plain {
            self.backup.holds(*piece)?;
        }
        for files in &mut wanted.secrets {
            files.tree = self.renamed(id(&files.tree)?, &mut freight).await?.0.to_vec().into();
        }
        if let Some(there) = self.known(&wanted.name).await? {
            if is_same(&wanted, &there) {
                return Ok(Done::Unchanged);
            }
            if self.differing == Differing::Keep {
                let reason = format!(
                    "revision {} here differs: jaco diff --of {}",
                    there.revision, there.name
                );
                return Ok(Done::Skipped { reason });
            }
        }
        if self.stores() {
            self.send(&freight).await?;
        }
        let applied = self.client.apply(self.request(wanted)).await?;
        Ok(if applied.change == "unchanged" { Done::Unchanged } else { Done::Restored })
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
            // They were let in once.
            max_file_bytes: u64::MAX,
            dry_run: !self.stores(),
            ..ApplyRequest::default()
        }
    }

    async fn known(&self, name: &str) -> Result<Option<GetDeploymentResponse>, Failed> {
        let request = GetDeploymentRequest { name: name.to_owned(), revision: 0 };
        match self.client.get_deployment(request).await {
            Ok(known) => Ok(Some(known)),
            Err(ClientError::Refused(Rejection {
                code: ErrorCode::DeploymentNotFound, ..
            })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, id: ContentId) -> Result<FileTree, Failed> {
        let text = self.backup.piece(id)?;
        let unread = |error| Damage::Contradiction(format!("list of files {id}: {error}"));
        Ok(FileTree::parse(&text).map_err(unread)?)
    }

    /// The list of a secret with the names that its pieces have here; its own name.
    async fn renamed(
        &mut self,
        list: ContentId,
        freight: &mut Freight,
    ) -> Result<ContentId, Failed> {
        let mut entries = BTreeMap::new();
        for (path, entry) in self.list(list)?.entries() {
            let entry = match entry {
                TreeEntry::File { mode, size, pieces } => {
                    let mut here = Vec::new();
                    for piece in pieces {
                        freight.secret.insert(*piece);
                        here.push(self.name_here(*piece).await?);
                    }
                    TreeEntry::File { mode: *mode, size: *size, pieces: here }
                }
                TreeEntry::Folder { .. } | TreeEntry::Link { .. } => entry.clone(),
            };
            entries.insert(path.to_owned(), entry);
        }
        let tree = FileTree::new(entries)
            .map_err(|error| Damage::Contradiction(format!("list of files {list}: {error}")))?;
        let text = tree.text().into_bytes();
        let id = ContentId(Sha256::digest(&text).into());
        freight.lists.insert(id, text.into());
        Ok(id)
    }

    /// What this cluster calls a piece of a secret.
    async fn name_here(&mut self, piece: ContentId) -> Result<ContentId, Failed> {
        if let Some(here) = self.secrets.get(&piece) {
            return Ok(*here);
        }
        let here = self.secret_id(&self.backup.secret(piece)?, Sending::Nothing).await?;
        self.secrets.insert(piece, here);
        Ok(here)
    }

    /// What this cluster calls a secret's content, and, where that is wanted, has it keep it for an apply.
    pub(super) async fn secret_id(
        &self,
        content: &Bytes,
        sending: Sending,
    ) -> Result<ContentId, Failed> {
        let request = PutContentsRequest {
            secret: vec![content.clone()],
            dry_run: sending == Sending::Nothing,
            ..PutContentsRequest::default()
        };
        let answer = self.client.put_contents(request).await?;
        let unnamed = || Damage::Contradiction("the cluster did not name a secret".to_owned());
        id(answer.secret.first().ok_or_else(unnamed)?)
    }

    /// Sends what the cluster does not have, piece by piece: no more than a request of it is in memory.
    async fn send(&self, freight: &Freight) -> Result<(), Failed> {
        if freight.plain.is_empty() && freight.lists.is_empty() {
            return Ok(());
        }
        let plain = freight.plain.iter().chain(freight.lists.keys()).copied();
        let secret = freight.secret.iter().filter_map(|piece| self.secrets.get(piece)).copied();
        let missing = self.missing(plain.chain(secret)).await?;
        let is_missing = |piece: &&ContentId| missing.contains(*piece);
        for piece in &freight.secret {
            if self.secrets.get(piece).is_some_and(|here| missing.contains(here)) {
                self.secret_id(&self.backup.secret(*piece)?, Sending::Store).await?;
            }
        }
        let mut batch = Batch::default();
        for piece in freight.plain.iter().filter(is_missing) {
            self.put(&mut batch, self.backup.piece(*piece)?).await?;
        }
        for (_, list) in freight.lists.iter().filter(|(id, _)| missing.contains(*id)) {
            self.put(&mut batch, list.clone()).await?;
        }
        self.flush(&mut batch).await
    }

    async fn missing(
        &self,
        ids: impl Iterator<Item = ContentId>,
    ) -> Result<BTreeSet<ContentId>, Failed> {
        let ids = ids.map(|id| id.0.to_vec().into()).collect();
        let missing = self.client.missing_contents(MissingContentsRequest { ids }).await?;
        missing.ids.iter().map(id).collect()
    }

    async fn put(&self, batch: &mut Batch, piece: Bytes) -> Result<(), Failed> {
        let full = batch.bytes + piece.len() > REQUEST_BYTES_MAX;
        if full || batch.pieces.len() >= REQUEST_PIECES_MAX {
            self.flush(batch).await?;
        }
        batch.bytes += piece.len();
        batch.pieces.push(piece);
        Ok(())
    }

    async fn flush(&self, batch: &mut Batch) -> Result<(), Failed> {
        let Batch { pieces, .. } = std::mem::take(batch);
        if !pieces.is_empty() {
            let request = PutContentsRequest { plain: pieces, ..PutContentsRequest::default() };
            self.client.put_contents(request).await?;
        }
        Ok(())
    }
}

/// Pieces that go together.
#[derive(Default)]
struct Batch {
    pieces: Vec<Bytes>,
    bytes: usize,
}

fn id(bytes: &Bytes) -> Result<ContentId, Failed> {
    let id = <[u8; 32]>::try_from(&bytes[..]).map(ContentId);
    id.map_err(|_| Damage::Contradiction("the id of a content has not 32 bytes".to_owned()).into())
}

/// Whether a deployment is what it was, file by file.
fn is_same(wanted: &BackupDeployment, there: &GetDeploymentResponse) -> bool {
    wanted.compose_json == there.compose_json
        && wanted.overlay_yaml == there.overlay_yaml
        && wanted.environment_toml == there.environment_toml
        && by_name(&wanted.binds) == by_name(&there.binds)
        && by_name(&wanted.configs) == by_name(&there.configs)
        && by_name(&wanted.secrets) == by_name(&there.secrets)
}

fn by_name(files: &[ShippedFiles]) -> BTreeMap<&str, &Bytes> {
    files.iter().map(|files| (files.name.as_str(), &files.tree)).collect()
}
