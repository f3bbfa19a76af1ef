//! Verifies the files in which a node archives the audit events that the cluster has evicted. Read only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jaco_proto::storage::{ArchiveFile, ArchiveVerified, Kept, Place, verify_archive};
use jaco_proto::v1::VerifyAuditResponse;
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use crate::error::CliError;

/// An archive whose hash chain is intact and continues into the events that the cluster keeps.
#[derive(Debug)]
pub(crate) struct VerifiedArchive {
    folder: PathBuf,
    files: usize,
    verified: ArchiveVerified,
}

/// Verifies the files in `folder` against the events that the cluster keeps.
///
/// # Errors
/// `audit_chain_broken` with the newest event whose hash is wrong, or why a file cannot be read.
pub(crate) fn verify(
    folder: &Path,
    kept: &VerifyAuditResponse,
) -> Result<VerifiedArchive, CliError> {
    let paths = newest_first(folder).map_err(|source| unreadable(folder, source))?;
    let files = paths.len();
    let first = Place { index: kept.first_index, number: kept.first_number };
    let kept = Kept { first: (kept.events > 0).then_some(first), follows: kept.follows.clone() };
    let mut failed = None;
    // One file at a time: an archive may be larger than the memory.
    let read = paths.into_iter().map_while(|path| match fs::read(&path) {
        Ok(bytes) => Some(ArchiveFile { name: path.display().to_string(), bytes }),
        Err(source) => {
            failed = Some(unreadable(&path, source));
            None
        }
    });
    let verified = verify_archive(read, &kept);
    if let Some(failed) = failed {
        return Err(failed);
    }
    let verified = verified.map_err(|broken| CliError::Refused {
        code: ErrorCode::AuditChainBroken,
        message: format!("the archive in {} is broken: {broken}", folder.display()),
        help: None,
    })?;
    Ok(VerifiedArchive { folder: folder.to_owned(), files, verified })
}

fn unreadable(path: &Path, source: io::Error) -> CliError {
    CliError::Local { what: format!("cannot read {}", path.display()), source: source.into() }
}

/// The names start with the index of the first event, so they sort by age.
fn newest_first(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ndjson") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.reverse();
    Ok(paths)
}

impl VerifiedArchive {
    /// The result as text.
    pub(crate) fn text(&self) -> String {
        let Some((first, last)) = self.verified.span else {
            return format!("archive {}: no events were evicted\n", self.folder.display());
        };
        let extent = if self.verified.complete { "complete" } else { "older events are deleted" };
        format!(
            "archive {}: {} events in {} files, {first} to {last}, verified and continued by the \
             cluster ({extent})\n",
            self.folder.display(),
            self.verified.events,
            self.files
        )
    }

    /// The result as JSON.
    pub(crate) fn json(&self) -> Value {
        let place = |place: Place| place.to_string();
        json!({
            "folder": self.folder.display().to_string(),
            "files": self.files,
            "events": self.verified.events,
            "first": self.verified.span.map(|(first, _)| place(first)),
            "last": self.verified.span.map(|(_, last)| place(last)),
            "complete": self.verified.complete,
        })
    }
}
