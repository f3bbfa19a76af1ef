//! Backup files (ADR 0066): `jacobak\n`, the format, the parts with their lengths, a length of zero, and
//! the SHA-256 of all that. Every format stays readable: one that was written once is never changed.

mod damage;
mod folder;
mod folder_name;
#[cfg(test)]
mod folder_tests;
mod format;
mod index;
mod parts;
mod read;
mod retention;
mod source;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use damage::Damage;
pub(crate) use folder::{Folder, Pruned};
pub(crate) use index::NamedPart;
pub(crate) use read::Backup;
pub(crate) use retention::Retention;
pub(crate) use source::{Source, SourceError, Stopped};
pub(crate) use write::{Summary, Writer, finish};
