//! Archives of images: of engines old and new, and of those who mean harm (R-OPS-1, R-IN-3).

use std::io::Cursor;

use jaco_types::{BlobDigest, ImageTag};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;
use crate::archive::tests::{archive, file, link};

const LAYERS: [&str; 2] = ["the first layer", "the second layer"];

fn digest(content: &str) -> BlobDigest {
    BlobDigest(Sha256::digest(content).into())
}

fn config(layers: &[&str]) -> String {
    let ids: Vec<String> = layers.iter().map(|layer| digest(layer).to_string()).collect();
    json!({ "os": "linux", "rootfs": { "type": "layers", "diff_ids": ids } }).to_string()
}

fn name(text: &str) -> ImageTag {
    ImageTag::parse(text).unwrap()
}

type Entries<'a> = Vec<(String, crate::archive::Content, &'a str)>;

fn tar(entries: &Entries<'_>) -> Vec<u8> {
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, content, text)| (name.as_str(), content.clone(), *text))
        .collect();
    archive(&entries)
}

/// As engines up to 24 save it: layers in folders, an equal one as a link.
fn saved(config: &str, tags: &[&str], layers: &[&str]) -> Vec<u8> {
    let manifest = json!([{
        "Config": format!("{}.json", digest(config).hex()),
        "RepoTags": tags,
        "Layers": (0..layers.len()).map(|n| format!("l{n}/layer.tar")).collect::<Vec<_>>(),
    }])
    .to_string();
    let mut entries: Entries<'_> = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let name = format!("l{number}/layer.tar");
        match layers.iter().position(|other| other == layer) {
            Some(first) if first < number => {
                entries.push((name, link(&format!("../l{first}/layer.tar")), ""));
            }
            _ => entries.push((name, file(layer), layer)),
        }
    }
    entries.push((format!("{}.json", digest(config).hex()), file(config), config));
    entries.push(("manifest.json".to_owned(), file(&manifest), &manifest));
    tar(&entries)
}

/// In the layout of OCI, with an attestation beside the image.
fn layout(config: &str, tag: &str, layers: &[&str]) -> Vec<u8> {
    let blob = |content: &str| json!({ "mediaType": "x", "digest": digest(content).to_string(), "size": content.len() });
    let manifest = json!({
        "schemaVersion": 2,
        "config": blob(config),
        "layers": layers.iter().map(|layer| blob(layer)).collect::<Vec<_>>(),
    })
    .to_string();
    let inner = json!({ "manifests": [
        { "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(&manifest).to_string() },
        { "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest("none").to_string(),
          "annotations": { "vnd.docker.reference.type": "attestation-manifest" } },
    ] })
    .to_string();
    let index = json!({ "manifests": [{
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "digest": digest(&inner).to_string(),
        "annotations": { "io.containerd.image.name": format!("docker.io/library/{tag}") },
    }] })
    .to_string();
    let mut entries: Entries<'_> = vec![("index.json".to_owned(), file(&index), &index)];
    for content in [config, &manifest, &inner].into_iter().chain(layers.iter().copied()) {
        entries.push((format!("blobs/sha256/{}", digest(content).hex()), file(content), content));
    }
    tar(&entries)
}

fn read(archive: &[u8], asked: &str) -> Result<Image, String> {
    let scanned = scan(archive).map_err(|error| error.to_string())?;
    let image = parse(&scanned, &mut Cursor::new(archive), &name(asked));
    image.map_err(|error| error.to_string())
}

/// Archives of each kind, as seeds for mutations.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let config = config(&LAYERS);
    vec![saved(&config, &["app:1"], &LAYERS), layout(&config, "app:1", &LAYERS)]
}

/// R-OPS-1: the blobs of an image are found in both formats, where they are.
#[test]
fn images_are_read_in_both_formats() {
    let config = config(&LAYERS);
    for archive in samples() {
        let image = read(&archive, "app:1").unwrap();
        assert_eq!(image.config.digest, digest(&config));
        let layers: Vec<BlobDigest> = image.layers.iter().map(|layer| layer.digest).collect();
        assert_eq!(layers, LAYERS.map(digest));
        for (layer, text) in image.layers.iter().zip(LAYERS) {
            let at = usize::try_from(layer.offset).unwrap();
            assert_eq!(&archive[at..at + text.len()], text.as_bytes());
        }
        assert!(read(&archive, "any:name").is_ok(), "it is the only one");
    }
}

/// R-OPS-1: a layer that is there twice is a link in archives of older engines; a compressed one has another digest.
#[test]
fn equal_and_compressed_layers_are_found() {
    let twice = ["same", "other", "same"];
    let image = read(&saved(&config(&twice), &["app:1"], &twice), "app:1").unwrap();
    assert_eq!(image.layers[0], image.layers[2]);
    let unpacked = config(&["unpacked"]);
    // What gzip begins with is no text.
    let mut archive = saved(&unpacked, &["app:1"], &["..packed"]);
    let at = archive.windows(8).position(|bytes| bytes == b"..packed").unwrap();
    archive[at..at + 2].copy_from_slice(&[0x1f, 0x8b]);
    assert!(read(&archive, "app:1").is_ok(), "the engine compares it");
}

/// R-IN-3: what does not fit together is refused with the reason.
#[test]
fn what_does_not_fit_is_refused() {
    let good = config(&LAYERS);
    let refused = |archive: &[u8], words: &str| {
        let error = read(archive, "app:1").unwrap_err();
        assert!(error.contains(words), "{error:?} does not say {words:?}");
    };
    refused(b"no archive at all", "damaged");
    refused(&tar(&vec![("a".to_owned(), file("x"), "x")]), "neither a manifest.json");
    refused(&saved(&good, &["app:1"], &["the first layer", "another"]), "layer 2");
    refused(&saved(&good, &["app:1"], &["the first layer"]), "has 2 layers, and it has 1");
    refused(&saved("{}", &["app:1"], &LAYERS), "rootfs");
    let wide = vec!["x"; 128];
    refused(&saved(&config(&wide), &["app:1"], &wide), "127 layers");
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20));
    refused(&saved(&large, &["app:1"], &[]), "too large");
    // A blob that is not what its name says.
    let mut archive = layout(&good, "app:1", &LAYERS);
    let at = archive.windows(15).position(|bytes| bytes == LAYERS[0].as_bytes()).unwrap();
    archive[at] = b'T';
    refused(&archive, "is not what it is named after");
    // A configuration that is not what its name says.
    let mut archive = saved(&good, &["app:1"], &LAYERS);
    let at = archive.windows(5).position(|bytes| bytes == b"linux").unwrap();
    archive[at] = b'L';
    refused(&archive, "the configuration of the image is not what it is named after");
    // One that ends within a layer.
    let whole = saved(&good, &["app:1"], &LAYERS);
    refused(&whole[..600], "ends within");
}

/// R-IN-3: names that lead out of the archive lead nowhere, and links in circles end.
#[test]
fn names_stay_in_the_archive() {
    let text = config(&[]);
    let manifest = json!([{ "Config": "../../etc/passwd", "Layers": [] }]).to_string();
    let outside = tar(&vec![
        ("../../etc/passwd".to_owned(), file(&text), &*text),
        ("/etc/passwd".to_owned(), file(&text), &*text),
        ("manifest.json".to_owned(), file(&manifest), &manifest),
    ]);
    let error = read(&outside, "app:1").unwrap_err();
    assert!(error.contains("is not in it"), "{error}");
    let manifest = json!([{ "Config": "a", "Layers": [] }]).to_string();
    let circle = tar(&vec![
        ("a".to_owned(), link("b"), ""),
        ("b".to_owned(), link("a"), ""),
        ("manifest.json".to_owned(), file(&manifest), &manifest),
    ]);
    let error = read(&circle, "app:1").unwrap_err();
    assert!(error.contains("is not in it"), "{error}");
}

/// R-OPS-1: of several images the one that is named is taken.
#[test]
fn one_of_several_images_is_named() {
    let (one, two) = (config(&LAYERS), config(&LAYERS[..1]));
    let entry = |config: &str, tag: &str, layers: usize| {
        json!({
            "Config": format!("{}.json", digest(config).hex()),
            "RepoTags": [tag],
            "Layers": (0..layers).map(|n| format!("l{n}")).collect::<Vec<_>>(),
        })
    };
    let manifest = json!([entry(&one, "app:1", 2), entry(&two, "app:2", 1)]).to_string();
    let both = tar(&vec![
        ("l0".to_owned(), file(LAYERS[0]), LAYERS[0]),
        ("l1".to_owned(), file(LAYERS[1]), LAYERS[1]),
        (format!("{}.json", digest(&one).hex()), file(&one), &*one),
        (format!("{}.json", digest(&two).hex()), file(&two), &*two),
        ("manifest.json".to_owned(), file(&manifest), &manifest),
    ]);
    assert_eq!(read(&both, "app:2").unwrap().config.digest, digest(&two));
    assert_eq!(read(&both, "docker.io/library/app:1").unwrap().config.digest, digest(&one));
    let error = read(&both, "app:3").unwrap_err();
    assert_eq!(error, "the archive has app:1, app:2, and no app:3");
}
