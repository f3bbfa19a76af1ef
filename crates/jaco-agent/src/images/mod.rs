//! Pushed images on this node: a bounded store of their blobs, and the way from there into the engine (ADR 0137).
//!
//! No name of an archive or of a user becomes a path: files are named by the digests of what is in them.

mod archive;
mod provide;
mod store;

pub use archive::{HEADER_BYTES, header};
pub use provide::{BlobSource, ProvidedImage, PushedImages};
pub use store::{BlobStore, BlobWriter, Claim, Pins, StoreError, StoreLimits};
