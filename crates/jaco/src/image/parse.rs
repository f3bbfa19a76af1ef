//! Which blobs an image of an archive consists of: in the format of `docker save`, or in the layout of OCI, as newer engines and
//! other tools write it. What is found is checked against the digests that name it.

use std::io::{Read, Seek};

use jaco_types::{BlobDigest, ImageTag};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::ImageError;
use super::scan::{File, Scanned, content};

/// Bytes of a manifest or configuration.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// Layers of an image: engines take no more.
const LAYERS_MAX: usize = 127;

/// Manifests of an archive that are looked at.
const MANIFESTS_MAX: usize = 256;

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A blob of an image, and where in the archive it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) digest: BlobDigest,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
}

/// An image of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) config: Blob,
    /// The lowest first.
    pub(crate) layers: Vec<Blob>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Config {
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// The image of this name; with one image in the archive, that one.
pub(crate) fn parse(
    scanned: &Scanned,
    archive: &mut (impl Read + Seek),
    asked: &ImageTag,
) -> Result<Image, ImageError> {
    let (config, layers) = match scanned.file("manifest.json") {
        Some(manifest) => saved(scanned, archive, manifest, asked)?,
        None => layout(scanned, archive, asked)?,
    };
    if layers.len() > LAYERS_MAX {
        return Err(ImageError::TooLarge("it has more than 127 layers"));
    }
    let text: Config = document(archive, config)?;
    let ids = text.rootfs.diff_ids;
    if ids.len() != layers.len() {
        let message =
            format!("its configuration has {} layers, and it has {}", ids.len(), layers.len());
        return Err(ImageError::Malformed(message));
    }
    for (number, (id, layer)) in ids.iter().zip(&layers).enumerate() {
        check_layer(number + 1, &digest(id)?, *layer)?;
    }
    let layers = layers.into_iter().map(Blob::from).collect();
    Ok(Image { config: config.into(), layers })
}

impl From<File> for Blob {
    fn from(file: File) -> Self {
        Self { digest: file.digest, bytes: file.bytes, offset: file.offset }
    }
}

/// A layer is what its configuration names, or compressed: then the engine compares what it unpacks.
fn check_layer(number: usize, expected: &BlobDigest, layer: File) -> Result<(), ImageError> {
    if layer.digest == *expected || layer.magic.starts_with(&GZIP) {
        return Ok(());
    }
    let what = format!("layer {number}, which is not compressed with gzip either,");
    Err(ImageError::WrongDigest { what, expected: *expected, found: layer.digest })
}

/// As `docker save` writes it.
fn saved(
    scanned: &Scanned,
    archive: &mut (impl Read + Seek),
    manifest: File,
    asked: &ImageTag,
) -> Result<(File, Vec<File>), ImageError> {
    let mut images: Vec<Saved> = document(archive, manifest)?;
    images.truncate(MANIFESTS_MAX);
    let tags = |image: &Saved| image.repo_tags.clone().unwrap_or_default();
    let is_asked = |image: &&Saved| {
        tags(image).iter().any(|tag| ImageTag::parse(tag).is_ok_and(|tag| tag == *asked))
    };
    let found = images.iter().find(is_asked);
    let image = match (found, images.as_slice()) {
        (Some(image), _) | (None, [image]) => image,
        (None, all) => {
            let images = all.iter().flat_map(tags).take(16).collect();
            return Err(ImageError::Unnamed { asked: asked.to_string(), images });
        }
    };
    let file = |name: &String| {
        let found = scanned.file(name);
        found.ok_or_else(|| ImageError::Malformed(format!("{name:?} is not in it")))
    };
    let config = file(&image.config)?;
    // `HEX.json`, or `blobs/sha256/HEX` where the layout of OCI is there as well.
    let last = image.config.rsplit('/').next().unwrap_or_default();
    let named = BlobDigest::from_hex(last.strip_suffix(".json").unwrap_or(last));
    check_name("the configuration", named, config)?;
    let layers = image.layers.iter().map(|name| {
        let layer = file(name)?;
        let named = name.strip_prefix("blobs/sha256/").and_then(BlobDigest::from_hex);
        check_name("a layer", named, layer)?;
        Ok(layer)
    });
    Ok((config, layers.collect::<Result<_, ImageError>>()?))
}

fn check_name(what: &str, named: Option<BlobDigest>, file: File) -> Result<(), ImageError> {
    match named {
        Some(expected) if expected != file.digest => {
            let (what, found) = (what.to_owned(), file.digest);
            Err(ImageError::WrongDigest { what, expected, found })
        }
        Some(_) | None => Ok(()),
    }
}

/// The layout of OCI.
fn layout(
    scanned: &Scanned,
    archive: &mut (impl Read + Seek),
    asked: &ImageTag,
) -> Result<(File, Vec<File>), ImageError> {
    let index = scanned.file("index.json").ok_or_else(|| {
        let message =
            "it has neither a manifest.json, as `docker save` writes it, nor an index.json";
        ImageError::Malformed(message.to_owned())
    })?;
    let top: Index = document(archive, index)?;
    let mut images = Vec::new();
    for entry in top.manifests.into_iter().take(MANIFESTS_MAX) {
        if !entry.media_type.contains("index") && !entry.media_type.contains("manifest.list") {
            images.push((name_of(&entry), entry));
            continue;
        }
        let name = name_of(&entry);
        let inner: Index = document(archive, blob(scanned, &entry.digest)?)?;
        let inner = inner.manifests.into_iter().take(MANIFESTS_MAX);
        images.extend(inner.map(|entry| (name.clone(), entry)));
    }
    // Attestations stand beside the image that they are about.
    let kind = "vnd.docker.reference.type";
    images.retain(|(_, entry)| !entry.annotations.contains_key(kind));
    let is_asked = |name: &Option<String>| {
        let tag = name.as_deref().map(ImageTag::parse);
        tag.is_some_and(|tag| tag.is_ok_and(|tag| tag == *asked))
    };
    let named: Vec<_> = images.iter().filter(|(name, _)| is_asked(name)).collect();
    let image = match (named.as_slice(), images.as_slice()) {
        ([(_, image)], _) | ([], [(_, image)]) => image,
        ([], all) => {
            let images = all.iter().filter_map(|(name, _)| name.clone()).take(16).collect();
            return Err(ImageError::Unnamed { asked: asked.to_string(), images });
        }
        (several, _) => {
            let message = format!(
                "it has {} images named {asked}, of several platforms: save the one of your nodes",
                several.len()
            );
            return Err(ImageError::Malformed(message));
        }
    };
    let manifest: Manifest = document(archive, blob(scanned, &image.digest)?)?;
    let config = blob(scanned, &manifest.config.digest)?;
    let layers = manifest.layers.iter().map(|layer| blob(scanned, &layer.digest));
    Ok((config, layers.collect::<Result<_, ImageError>>()?))
}

/// The name of an image, as engines note it.
fn name_of(entry: &Descriptor) -> Option<String> {
    let keys = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
    keys.iter().find_map(|key| entry.annotations.get(*key)).cloned()
}

/// A blob of the layout, which has to be what it is named after.
fn blob(scanned: &Scanned, name: &str) -> Result<File, ImageError> {
    let expected = digest(name)?;
    let file = scanned.file(&format!("blobs/sha256/{}", expected.hex()));
    let file = file.ok_or_else(|| ImageError::Malformed(format!("{expected} is not in it")))?;
    check_name("a blob", Some(expected), file)?;
    Ok(file)
}

fn digest(text: &str) -> Result<BlobDigest, ImageError> {
    BlobDigest::parse(text).ok_or_else(|| {
        let text: String = text.chars().take(80).collect();
        ImageError::Malformed(format!("{text:?} is no SHA-256"))
    })
}

fn document<T: DeserializeOwned>(
    archive: &mut (impl Read + Seek),
    file: File,
) -> Result<T, ImageError> {
    let bytes = content(archive, file, DOCUMENT_BYTES_MAX)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ImageError::Malformed(format!("a manifest or configuration: {error}")))
}
