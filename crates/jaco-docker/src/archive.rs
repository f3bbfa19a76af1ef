//! Files of a container: Docker reads and writes them as tar archives by itself, so that nothing has to be in the image.

use bollard::Docker;
use bollard::query_parameters::{
    ContainerArchiveInfoOptions, DownloadFromContainerOptions, UploadToContainerOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use jaco_agent::engine::{ContainerId, EngineError};
use jaco_agent::transfer::{Archive, ArchiveInput, PathKind, PathStat};

use crate::error::{NOT_FOUND, engine_error, status};

/// The type bits of a mode, as the language that Docker is written in numbers them.
mod mode {
    pub(super) const FOLDER: u32 = 1 << 31;
    pub(super) const LINK: u32 = 1 << 27;
    /// All of them: folder, link, device, pipe, socket, character device, irregular.
    pub(super) const TYPE: u32 = FOLDER | LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19;
}

/// Links that are followed one after another at most, as by Linux.
const LINKS_MAX: u32 = 40;

/// See [`jaco_agent::ContainerEngine::stat`].
pub(crate) async fn stat(
    docker: &Docker,
    container: &ContainerId,
    path: &str,
) -> Result<Option<PathStat>, EngineError> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let options = ContainerArchiveInfoOptions { path: path.clone() };
        let found = match docker.get_container_archive_info(&container.0, Some(options)).await {
            Ok(found) => found,
            Err(error) if status(&error) == Some(NOT_FOUND) => return Ok(None),
            Err(error) => return Err(engine_error(error)),
        };
        let kind = match found.file_mode & mode::TYPE {
            mode::LINK => {
                path = target(&path, &found.link_target);
                continue;
            }
            mode::FOLDER => PathKind::Folder,
            0 => PathKind::File,
            _ => PathKind::Other,
        };
        let bytes = u64::try_from(found.size).unwrap_or_default();
        return Ok(Some(PathStat { kind, path, bytes }));
    }
    Err(EngineError::Refused { reason: format!("too many links on the way to {path}") })
}

/// Where a link at `path` leads.
fn target(path: &str, link: &str) -> String {
    if link.starts_with('/') {
        return link.to_owned();
    }
    let folder = path.trim_end_matches('/').rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{link}")
}

/// See [`jaco_agent::ContainerEngine::read_archive`]. The answer has begun once this returns.
pub(crate) async fn read(
    docker: Docker,
    container: &ContainerId,
    path: &str,
) -> Result<Archive, EngineError> {
    let options = DownloadFromContainerOptions { path: path.to_owned() };
    let pieces = docker.download_from_container(&container.0, Some(options));
    let mut pieces = Box::pin(pieces.map_err(engine_error));
    // A refusal comes in place of the first piece.
    let first = pieces.try_next().await?;
    Ok(stream::iter(first.map(Ok)).chain(pieces).boxed())
}

/// See [`jaco_agent::ContainerEngine::write_archive`].
pub(crate) async fn write(
    docker: Docker,
    container: &ContainerId,
    folder: &str,
    archive: ArchiveInput,
) -> Result<(), EngineError> {
    let options = UploadToContainerOptions {
        path: folder.to_owned(),
        no_overwrite_dir_non_dir: Some("true".to_owned()),
        ..UploadToContainerOptions::default()
    };
    let body = bollard::body_try_stream(archive);
    docker.upload_to_container(&container.0, Some(options), body).await.map_err(engine_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_from_their_own_folder() {
        assert_eq!(target("/srv/www", "site"), "/srv/site");
        assert_eq!(target("/srv/www/", "../data"), "/srv/../data");
        assert_eq!(target("/www", "/var/www"), "/var/www");
        assert_eq!(target("/www", "site"), "/site");
    }
}
