//! Pushed images: which layers Docker has, and loading the others.

use std::collections::BTreeSet;

use bollard::Docker;
use bollard::query_parameters::{ImportImageOptions, ListImagesOptions};
use futures::{StreamExt, TryStreamExt, stream};
use jaco_agent::engine::EngineError;
use jaco_agent::transfer::ArchiveInput;
use jaco_types::BlobDigest;

use crate::error::{NOT_FOUND, engine_error, status};

/// Concurrent inspects.
const INSPECTS_MAX: usize = 8;

/// What the snapshotters of containerd call themselves in the status of the storage driver.
const CONTAINERD: &str = "io.containerd.snapshotter";

/// See [`jaco_agent::ContainerEngine::known_layers`]. Docker has a layer by the chain of those below it, and tells of no
/// chain but those of its images.
pub(crate) async fn known_layers(
    docker: &Docker,
    layers: &[BlobDigest],
) -> Result<usize, EngineError> {
    // With containerd's store an archive has to be whole.
    if layers.is_empty() || has_containerd_store(docker).await? {
        return Ok(0);
    }
    let options = ListImagesOptions { all: true, ..ListImagesOptions::default() };
    let images = docker.list_images(Some(options)).await.map_err(engine_error)?;
    let ids: BTreeSet<String> = images.into_iter().map(|image| image.id).collect();
    let known = stream::iter(ids)
        .map(|id| async move { in_common(docker, &id, layers).await })
        .buffer_unordered(INSPECTS_MAX)
        .try_fold(0, async |most: usize, common| Ok(most.max(common)))
        .await?;
    Ok(known)
}

/// How many of the layers are the first ones of this image.
async fn in_common(docker: &Docker, id: &str, layers: &[BlobDigest]) -> Result<usize, EngineError> {
    let image = match docker.inspect_image(id).await {
        Ok(image) => image,
        // Removed since it was listed.
        Err(error) if status(&error) == Some(NOT_FOUND) => return Ok(0),
        Err(error) => return Err(engine_error(error)),
    };
    let own = image.root_fs.and_then(|root| root.layers).unwrap_or_default();
    let same =
        own.iter().zip(layers).take_while(|(own, layer)| BlobDigest::parse(own) == Some(**layer));
    Ok(same.count())
}

async fn has_containerd_store(docker: &Docker) -> Result<bool, EngineError> {
    let info = docker.info().await.map_err(engine_error)?;
    let status = info.driver_status.unwrap_or_default();
    Ok(status.iter().flatten().any(|word| word.starts_with(CONTAINERD)))
}

/// See [`jaco_agent::ContainerEngine::load_image`].
pub(crate) async fn load(docker: Docker, archive: ArchiveInput) -> Result<(), EngineError> {
    let options = ImportImageOptions { quiet: true, ..ImportImageOptions::default() };
    let body = bollard::body_try_stream(archive);
    let mut answers = std::pin::pin!(docker.import_image(options, body, None));
    while answers.try_next().await.map_err(engine_error)?.is_some() {}
    Ok(())
}
