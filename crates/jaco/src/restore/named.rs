//! Configs and secrets that the cluster keeps under names. They are compared by what stands for them:
//! nobody is shown a secret for that.

use std::collections::{BTreeMap, BTreeSet};

use jaco_client::fresh_request_id;
use jaco_compose::tree::FileTree;
use jaco_compose::{ShipmentKind, ShipmentSource, from_model};
use jaco_proto::v1::{ListContentsRequest, StoreContentRequest};
use jaco_types::{ContentId, NamedKind};
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::outcome::{Done, Kind};
use super::{Differing, Extent, Failed, Restore};
use crate::backup::NamedAt;
use crate::ship::Sending;

/// The mode of its file, as the cluster stores it.
const PLAIN_MODE: u32 = 0o444;

impl Restore<'_> {
    pub(super) async fn named(&mut self) -> Result<(), Failed> {
        let backup = self.backup;
        let taken = self.taken()?;
        let is_meant = |named: &&NamedAt| match &taken {
            Some(taken) => taken.contains(&(named.kind.as_str(), named.name.clone())),
            None => true,
        };
        let mut there = BTreeMap::new();
        for kind in [NamedKind::Config, NamedKind::Secret] {
            let request = ListContentsRequest { kind: kind.as_str().to_owned() };
            let listed = self.client.list_contents(request).await?.contents;
            let trees = listed.into_iter().map(|one| ((kind, one.name), one.tree));
            there.extend(trees);
        }
        for named in backup.named.iter().filter(is_meant) {
            let content = backup.named(named)?;
            let known = there.get(&(named.kind, named.name.clone()));
            let done = self.keep(named, content, known).await;
            let kind = match named.kind {
                NamedKind::Config => Kind::Config,
                NamedKind::Secret => Kind::Secret,
            };
            self.note(kind, &named.name, done)?;
        }
        Ok(())
    }

    /// What the deployments that are asked for take by name; `None` where all is asked for.
    fn taken(&self) -> Result<Option<BTreeSet<(&'static str, String)>>, Failed> {
        let Extent::Only(names) = &self.extent else { return Ok(None) };
        let mut taken = BTreeSet::new();
        for name in names {
            let Some(deployment) = self.backup.deployment(name)? else { continue };
            // A model that is not understood is refused when it is applied.
            let Ok(project) = from_model(deployment.compose_json.as_bytes()) else { continue };
            for shipment in project.shipments() {
                let ShipmentSource::External(name) = &shipment.source else { continue };
                let kind = match shipment.kind {
                    ShipmentKind::Bind(_) => continue,
                    ShipmentKind::Config => NamedKind::Config,
                    ShipmentKind::Secret => NamedKind::Secret,
                };
                taken.insert((kind.as_str(), name.clone()));
            }
        }
        Ok(Some(taken))
    }

    async fn keep(
        &self,
        named: &NamedAt,
        content: Bytes,
        there: Option<&Bytes>,
    ) -> Result<Done, Failed> {
        if let Some(there) = there {
            let piece = match named.kind {
                NamedKind::Config => ContentId(Sha256::digest(&content).into()),
                NamedKind::Secret => self.secret_id(&content, Sending::Nothing).await?,
            };
            let tree = FileTree::of_file(PLAIN_MODE, content.len() as u64, vec![piece]);
            let wanted: [u8; 32] = Sha256::digest(tree.text()).into();
            if **there == wanted {
                return Ok(Done::Unchanged);
            }
            if self.differing == Differing::Keep {
                let reason = "it has another content here".to_owned();
                return Ok(Done::Skipped { reason });
            }
        }
        if self.stores() {
            let request = StoreContentRequest {
                kind: named.kind.as_str().to_owned(),
                name: named.name.clone(),
                content,
                request_id: fresh_request_id(),
            };
            self.client.store_content(request).await?;
        }
        Ok(Done::Restored)
    }
}
