//! Records of pushed images, and their names.

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::command::{COPIES, ImagePush, ImageRemove, ImageTagSet, InUse, KEEP_UNUSED};
use jaco_state::images::ImageBlob;
use jaco_types::{Author, BlobDigest, ErrorCode, Hostname, ImageTag, Millis, Rejection};

use super::list::list;
use crate::forward::Write;
use crate::images::{blob, digest};
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;

#[async_trait]
impl Write for v1::RecordImageRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RecordImageResponse, Rejection> {
        member.store.read(upgraded::images_may_begin)?;
        let config =
            self.config.as_ref().ok_or_else(|| invalid("the image has no configuration"))?;
        let config = blob(config)?;
        let layers = self.layers.iter().map(blob).collect::<Result<Vec<ImageBlob>, _>>()?;
        let copies = if self.copies == 0 { COPIES } else { self.copies };
        let keep = if self.keep_unused_ms == 0 { KEEP_UNUSED } else { Millis(self.keep_unused_ms) };
        let command = ImagePush::new(config.digest, config.bytes, layers.into());
        let taken_by = Hostname::new(&self.taken_by).ok();
        let taken_by = member.store.read(|state| Some(state.node_by_hostname(&taken_by?)?.id));
        let command = command.copies(copies).keep_unused(keep).taken_by(taken_by);
        let applied = member.commit(by, &self.request_id, command.into()).await?;
        let image = member.store.read(|state| list(state, Some(config.digest)));
        let image = image.into_iter().next();
        Ok(v1::RecordImageResponse { image, raft_index: applied.index.0 })
    }
}

#[async_trait]
impl Write for v1::TagImageRequest {
    async fn execute(self, member: &Member, by: Author) -> Result<v1::TagImageResponse, Rejection> {
        member.store.read(upgraded::images_may_begin)?;
        let name = ImageTag::parse(&self.name).map_err(invalid)?;
        let command = ImageTagSet::new(name.clone(), digest(&self.id)?);
        member.commit(by, &self.request_id, command.into()).await?;
        Ok(v1::TagImageResponse { name: name.to_string() })
    }
}

#[async_trait]
impl Write for v1::RemoveImageRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveImageResponse, Rejection> {
        let name = ImageTag::parse(&self.name).map_err(invalid)?;
        let id: Option<BlobDigest> =
            member.store.read(|state| Some(state.images.names.get(&name)?.id));
        let id = id.ok_or_else(|| {
            let message = format!("no image {name} was pushed");
            Rejection::new(ErrorCode::ImageNotFound, message)
        })?;
        let in_use = if self.in_use { InUse::Remove } else { InUse::Refuse };
        let command = ImageRemove::new(name.clone(), in_use);
        member.commit(by, &self.request_id, command.into()).await?;
        let image_stays = member.store.read(|state| state.images.rows.contains(&id));
        Ok(v1::RemoveImageResponse { name: name.to_string(), id: id.to_string(), image_stays })
    }
}
