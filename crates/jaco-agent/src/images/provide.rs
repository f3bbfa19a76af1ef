//! Puts a pushed image into the engine: what of it neither the engine nor the store of this node has comes from another
//! node.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use jaco_state::images::{CONFIG_BYTES_MAX, ImageBlob, PushedImage};
use jaco_types::BlobDigest;
use jaco_types::pushed::local_name;
use serde::Deserialize;

use super::archive::{Archived, archive};
use super::store::BlobStore;
use crate::engine::{
    ContainerEngine, EngineError, ProgressSink, PullError, PullProgress, PullRequest,
};

/// Where blobs come from that this node does not have.
#[async_trait]
pub trait BlobSource: Send + Sync {
    /// Has a blob in the store once this returns. `note` is told of bytes as they come.
    ///
    /// # Errors
    /// Why no node gave it, with what to do.
    async fn fetch(
        &self,
        blob: ImageBlob,
        note: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), String>;
}

/// The pushed images of this node.
#[derive(Clone)]
pub struct PushedImages {
    /// The blobs that are here.
    pub blobs: BlobStore,
    /// Where others come from.
    pub source: Arc<dyn BlobSource>,
}

impl fmt::Debug for PushedImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushedImages").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

/// A pushed image that an engine is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedImage {
    /// Its id.
    pub id: BlobDigest,
    /// What is known of it.
    pub image: PushedImage,
}

/// What of a configuration is needed here.
#[derive(Deserialize)]
struct Config {
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

impl PushedImages {
    /// Has the engine have an image under the name that `pull` asks for.
    ///
    /// # Errors
    /// Why it could not be fetched or loaded.
    pub async fn provide(
        &self,
        engine: &dyn ContainerEngine,
        pull: &PullRequest,
        wanted: &ProvidedImage,
        progress: &ProgressSink,
    ) -> Result<(), PullError> {
        let ProvidedImage { id, image } = wanted;
        let _pins = self.blobs.pin(image.blobs(*id));
        let config = ImageBlob { digest: *id, bytes: image.config_bytes };
        self.ensure(config, &|_| {}).await?;
        let layers = self.diff_ids(config, image.layers.len())?;
        let known = engine.known_layers(&layers).await.map_err(pull_error)?.min(layers.len());
        let needed: BTreeSet<ImageBlob> = image.layers.iter().skip(known).copied().collect();
        self.ensure_all(&needed, progress).await?;
        let archived = Archived {
            config,
            layers: image.layers.to_vec(),
            known,
            name: local_name(&pull.image),
        };
        let archive = archive(self.blobs.clone(), archived);
        engine.load_image(pull, archive).await.map_err(pull_error)
    }

    async fn ensure_all(
        &self,
        needed: &BTreeSet<ImageBlob>,
        progress: &ProgressSink,
    ) -> Result<(), PullError> {
        let total = needed.iter().map(|blob| blob.bytes).sum();
        let done = AtomicU64::new(0);
        let note = |bytes: u64| {
            let before = done.fetch_add(bytes, Ordering::Relaxed);
            progress(PullProgress { done: (before + bytes).min(total), total });
        };
        note(0);
        for blob in needed {
            match self.blobs.has(*blob) {
                true => note(blob.bytes),
                false => self.ensure(*blob, &note).await?,
            }
        }
        Ok(())
    }

    async fn ensure(
        &self,
        blob: ImageBlob,
        note: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), PullError> {
        if self.blobs.has(blob) {
            return Ok(());
        }
        self.source.fetch(blob, note).await.map_err(|reason| PullError::Refused { reason })
    }

    /// The hashes of the unpacked layers, as the configuration lists them.
    fn diff_ids(&self, config: ImageBlob, layers: usize) -> Result<Vec<BlobDigest>, PullError> {
        let refused = |reason: String| PullError::Refused { reason };
        let mut bytes = Vec::new();
        let file = self.blobs.read(config.digest).map_err(|error| refused(error.to_string()))?;
        let read = file.take(CONFIG_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| refused(error.to_string()))?;
        let config = serde_json::from_slice::<Config>(&bytes).map_err(|error| {
            refused(format!("the configuration of the pushed image cannot be read: {error}"))
        })?;
        let ids = config.rootfs.diff_ids.iter().map(|id| BlobDigest::parse(id));
        let ids: Option<Vec<BlobDigest>> = ids.collect();
        ids.filter(|ids| ids.len() == layers).ok_or_else(|| {
            refused("the configuration of the pushed image does not fit its layers".to_owned())
        })
    }
}

fn pull_error(error: EngineError) -> PullError {
    match error {
        EngineError::Unreachable { reason } => PullError::Unreachable { reason },
        EngineError::Refused { reason } => PullError::Refused { reason },
    }
}
