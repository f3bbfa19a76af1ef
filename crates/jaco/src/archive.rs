//! The files in which a node keeps the audit events that the cluster let go of, as `jaco audit verify`
//! checks them. Reads them only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jaco_proto::storage::{ArchiveFile, ArchiveVerified, Kept, Place, verify_archive};
use jaco_proto::v1::VerifyAuditResponse;
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use crate::error::CliError;

/// An archive whose events are as they were written, and join those that the cluster keeps.
#[derive(Debug)]
pub(crate) struct Archived {
    folder: PathBuf,
    files: usize,
    verified: ArchiveVerified,
}

/// Checks the files in `folder` against what a node has just said of the events that are kept.
///
/// # Errors
/// `audit_chain_broken` with the first place, from the newest event back, that is not as it was written;
/// or why a file cannot be read.
pub(crate) fn verify(folder: &Path, kept: &VerifyAuditResponse) -> Result<Archived, CliError> {
    let paths = newest_first(folder).map_err(|source| unread(folder, source))?;
    let files = paths.len();
    let first = Place { index: kept.first_index, number: kept.first_number };
    let kept = Kept { first: (kept.events > 0).then_some(first), follows: kept.follows.clone() };
    let mut failed = None;
    // A file at a time: an archive may be larger than the memory.
    let read = paths.into_iter().map_while(|path| match fs::read(&path) {
        Ok(bytes) => Some(ArchiveFile { name: path.display().to_string(), bytes }),
        Err(source) => {
            failed = Some(unread(&path, source));
            None
        }
    });
    let verified = verify_archive(read, &kept);
    if let Some(failed) = failed {
        return Err(failed);
    }
    let verified = verified.map_err(|broken| CliError::Refused {
        code: ErrorCode::AuditChainBroken,
        message: format!("the archive in {} does not hold: {broken}", folder.display()),
        help: None,
    })?;
    Ok(Archived { folder: folder.to_owned(), files, verified })
}

fn unread(path: &Path, source: io::Error) -> CliError {
    CliError::Local { what: format!("{} cannot be read", path.display()), source: source.into() }
}

/// Names begin with the place of the first event, so that they sort by age.
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

impl Archived {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let Some((first, last)) = self.verified.span else {
            return format!("archive {}: no event was let go of\n", self.folder.display());
        };
        let reach =
            if self.verified.complete { "all there ever were" } else { "older ones are gone" };
        format!(
            "archive {}: {} events in {} files, {first} to {last}, are as they were written and join \
             ({reach})\n",
            self.folder.display(),
            self.verified.events,
            self.files
        )
    }

    /// For programs.
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
