//! The archive that an engine loads an image from, in the format of `docker save`: made from blobs as it is read.

use std::collections::BTreeSet;
use std::io::{self, Read};

use bytes::Bytes;
use futures::StreamExt;
use jaco_state::images::ImageBlob;
use jaco_types::BlobDigest;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::store::BlobStore;
use crate::engine::transfer::ArchiveInput;

/// Bytes of a header, and of what each content is filled up to.
pub const HEADER_BYTES: usize = 512;

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;

/// Pieces that wait for the engine.
const QUEUE: usize = 2;

/// An image as an engine gets it.
#[derive(Debug)]
pub(super) struct Archived {
    pub(super) config: ImageBlob,
    /// All of its layers, the lowest first.
    pub(super) layers: Vec<ImageBlob>,
    /// How many of them the engine has.
    pub(super) known: usize,
    /// The name that it gets.
    pub(super) name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    config: String,
    repo_tags: [String; 1],
    layers: Vec<String>,
}

/// The archive. Layers that the engine has are named in it, and left out.
pub(super) fn archive(blobs: BlobStore, image: Archived) -> ArchiveInput {
    let (sender, pieces) = mpsc::channel(QUEUE);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = write(&blobs, &image, &sender) {
            // The engine may be gone, which it says itself.
            drop(sender.blocking_send(Err(error)));
        }
    });
    ReceiverStream::new(pieces).boxed()
}

type Pieces = mpsc::Sender<io::Result<Bytes>>;

fn write(blobs: &BlobStore, image: &Archived, pieces: &Pieces) -> io::Result<()> {
    let manifest = [Manifest {
        config: config_name(image.config.digest),
        repo_tags: [image.name.clone()],
        layers: image.layers.iter().map(|layer| layer_name(layer.digest)).collect(),
    }];
    let manifest = serde_json::to_vec(&manifest)?;
    send(pieces, header("manifest.json", manifest.len() as u64).to_vec())?;
    let filled = filled(manifest);
    send(pieces, filled)?;
    copy(blobs, image.config, &config_name(image.config.digest), pieces)?;
    let mut sent = BTreeSet::new();
    for layer in image.layers.iter().skip(image.known) {
        if sent.insert(layer.digest) {
            copy(blobs, *layer, &layer_name(layer.digest), pieces)?;
        }
    }
    send(pieces, vec![0; 2 * HEADER_BYTES])
}

fn config_name(digest: BlobDigest) -> String {
    format!("{}.json", digest.hex())
}

fn layer_name(digest: BlobDigest) -> String {
    format!("{}.tar", digest.hex())
}

fn copy(blobs: &BlobStore, blob: ImageBlob, name: &str, pieces: &Pieces) -> io::Result<()> {
    let mut file = blobs.read(blob.digest)?.take(blob.bytes);
    send(pieces, header(name, blob.bytes).to_vec())?;
    let mut left = blob.bytes;
    while left > 0 {
        let mut piece = Vec::new();
        let read = (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)? as u64;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a blob has lost its end"));
        }
        left -= read;
        if left == 0 {
            piece = filled(piece);
        }
        send(pieces, piece)?;
    }
    Ok(())
}

/// A content with zeros up to the next header. Only the last piece of a content may have a length that is no multiple.
fn filled(mut content: Vec<u8>) -> Vec<u8> {
    content.resize(content.len().next_multiple_of(HEADER_BYTES), 0);
    content
}

fn send(pieces: &Pieces, piece: Vec<u8>) -> io::Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    pieces.blocking_send(Ok(piece.into())).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
}

/// The header of a file in a tar archive (ustar): readable, of nobody in particular, and of no time.
#[must_use]
pub fn header(name: &str, bytes: u64) -> [u8; HEADER_BYTES] {
    let mut block = [0; HEADER_BYTES];
    let mut put = |at: usize, field: &[u8]| block[at..at + field.len()].copy_from_slice(field);
    put(0, &name.as_bytes()[..name.len().min(100)]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    match bytes < 1 << 33 {
        true => put(124, format!("{bytes:011o}\0").as_bytes()),
        // As GNU tar writes what has no room in octal digits.
        false => {
            put(124, &[0x80, 0, 0, 0]);
            put(128, &bytes.to_be_bytes());
        }
    }
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
