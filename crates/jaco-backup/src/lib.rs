//! Backup files (ADR 0066): `jacobak\n`, the format, the parts with their lengths, a length of zero, and
//! the SHA-256 of all that. Every format stays readable: one that was written once is never changed.
//!
//! What a command of a user and a daemon do alike is here: a file is written, verified, examined as a restore decodes it
//! (ADR 0146), and kept in a folder with a retention. It must never ask a cluster. What `age` encrypted beside a compose file
//! is opened by the same code.

mod age;
mod damage;
mod examine;
mod folder;
mod folder_name;
#[cfg(test)]
mod folder_tests;
mod format;
mod index;
mod listed;
mod partial;
mod parts;
mod read;
mod retention;
mod source;
#[cfg(test)]
mod tests;
mod unlock;
mod write;

pub use age::{
    FileKey, Identities, KeyError, Label, Recipient, Recipients, ValueError, open_value,
};
pub use damage::Damage;
pub use examine::{
    Detail, Examined, Extent, Fault, Kind, Model, Object, content_id, examine, label, list,
    referenced,
};
pub use folder::{Folder, Kept, Pruned};
pub use index::NamedPart;
pub use listed::{ListedBackups, backup_name};
pub use partial::Partial;
pub use read::Backup;
pub use retention::Retention;
pub use unlock::Unlock;
pub use write::{Summary, Writer, finish};
