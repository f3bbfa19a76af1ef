//! Archives of images, as the fake engine loads them: in memory, with the checks that a real one makes.

use std::collections::BTreeMap;
use std::io;

use futures::TryStreamExt;
use jaco_types::BlobDigest;
use jaco_types::pushed::local_name;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::host::FakeHost;
use super::script::ImageScript;
use crate::engine::transfer::ArchiveInput;
use crate::engine::{EngineError, PullRequest};
use crate::images::HEADER_BYTES;

/// An image as an archive has it.
#[derive(Debug)]
pub(super) struct Loaded {
    /// What its layers should be.
    layers: Vec<BlobDigest>,
    /// What those are that the archive has.
    brought: Vec<Option<BlobDigest>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    config: String,
    repo_tags: Vec<String>,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Config {
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// Reads an archive to its end.
pub(super) async fn read(
    image: &PullRequest,
    archive: ArchiveInput,
) -> Result<Loaded, EngineError> {
    let whole: Vec<u8> = archive
        .try_fold(Vec::new(), async |mut whole, piece| {
            whole.extend_from_slice(&piece);
            Ok(whole)
        })
        .await
        .map_err(|error: io::Error| refused(error.to_string()))?;
    let files = files(&whole).ok_or_else(|| refused("the archive is damaged".to_owned()))?;
    let file = |name: &str| {
        let found = files.get(name).copied();
        found.ok_or_else(|| refused(format!("the archive has no {name}")))
    };
    let manifest: Vec<Manifest> = json(file("manifest.json")?)?;
    let [manifest] = manifest.as_slice() else {
        return Err(refused("the archive has not one image".to_owned()));
    };
    if manifest.repo_tags != [local_name(&image.image)] {
        return Err(refused(format!("the archive has {:?}", manifest.repo_tags)));
    }
    let config: Config = json(file(&manifest.config)?)?;
    let layers = config.rootfs.diff_ids.iter().map(|id| BlobDigest::parse(id));
    let layers: Option<Vec<BlobDigest>> = layers.collect();
    let layers = layers.filter(|layers| layers.len() == manifest.layers.len());
    let layers = layers.ok_or_else(|| refused("the layers do not fit".to_owned()))?;
    let brought = manifest.layers.iter().map(|name| {
        files.get(name.as_str()).map(|content| BlobDigest(Sha256::digest(content).into()))
    });
    Ok(Loaded { layers, brought: brought.collect() })
}

impl FakeHost {
    /// How many of these layers it has, from the lowest.
    #[must_use]
    pub(super) fn known_layers(&self, layers: &[BlobDigest]) -> usize {
        layers.iter().take_while(|layer| self.layers.contains(layer)).count()
    }

    /// See [`crate::ContainerEngine::load_image`].
    pub(super) fn load(&mut self, image: &PullRequest, loaded: &Loaded) -> Result<(), EngineError> {
        self.answer()?;
        for (layer, brought) in loaded.layers.iter().zip(&loaded.brought) {
            let is_known = self.layers.contains(layer);
            match brought {
                Some(content) if content != layer => {
                    return Err(refused(format!("a layer is not {layer}")));
                }
                None if !is_known => return Err(refused(format!("there is no layer {layer}"))),
                Some(_) | None => {}
            }
        }
        self.layers.extend(&loaded.layers);
        self.images.insert(image.image.to_string(), ImageScript::Present);
        Ok(())
    }
}

/// The files of an archive, by name.
fn files(mut archive: &[u8]) -> Option<BTreeMap<&str, &[u8]>> {
    let mut files = BTreeMap::new();
    while let Some((header, rest)) = archive.split_at_checked(HEADER_BYTES) {
        if header.iter().all(|byte| *byte == 0) {
            return Some(files);
        }
        let text = |field: &'_ [u8]| {
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            std::str::from_utf8(&field[..end]).ok().map(str::len)
        };
        let name = std::str::from_utf8(&header[..text(&header[..100])?]).ok()?;
        let size = std::str::from_utf8(&header[124..135]).ok()?;
        let size = usize::from_str_radix(size, 8).ok()?;
        let (content, after) = rest.split_at_checked(size)?;
        files.insert(name, content);
        archive = after.get(size.next_multiple_of(HEADER_BYTES) - size..)?;
    }
    None
}

fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, EngineError> {
    serde_json::from_slice(bytes).map_err(|error| refused(error.to_string()))
}

fn refused(reason: String) -> EngineError {
    EngineError::Refused { reason }
}
