//! The lists of uploaded files in a backup, and which contents they refer to. Pure but for reading the backup.

use jaco_compose::tree::FileTree;
use jaco_types::ContentId;
use prost::bytes::Bytes;

use crate::{Backup, Damage};

/// The id of a content as a message has it.
///
/// # Errors
/// If it has not 32 bytes.
pub fn content_id(bytes: &Bytes) -> Result<ContentId, Damage> {
    let id = <[u8; 32]>::try_from(&bytes[..]).map(ContentId);
    id.map_err(|_| Damage::Contradiction("the id of a content has not 32 bytes".to_owned()))
}

/// The list of files with this id.
///
/// # Errors
/// If the backup has none, or it is malformed.
pub fn list(backup: &Backup, id: ContentId) -> Result<FileTree, Damage> {
    let text = backup.piece(id)?;
    let malformed = |error| Damage::Contradiction(format!("list of files {id}: {error}"));
    FileTree::parse(&text).map_err(malformed)
}
