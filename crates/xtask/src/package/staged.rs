//! A folder with the files of a package as they will be in it: modes, and one time for all.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::contents::{Content, Entry};

/// What was staged.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) root: PathBuf,
    /// Files, sorted, without a leading slash.
    pub(super) files: BTreeSet<String>,
    pub(super) bytes: u64,
}

/// Writes the files below a new folder. The caller adds its own, then calls [`age`].
///
/// # Errors
/// If a file cannot be written.
pub(super) fn stage(entries: &[Entry], root: PathBuf) -> Result<Staged> {
    let root = super::emptied(root)?;
    let (mut files, mut bytes) = (BTreeSet::new(), 0);
    for entry in entries {
        let path = root.join(&entry.path);
        match &entry.content {
            Content::Folder => fs::create_dir_all(&path)?,
            Content::Bytes(content) => write(&path, content)?,
            Content::CopyOf(from) => {
                write(&path, &[])?;
                fs::copy(from, &path).with_context(|| format!("cannot copy {from:?}"))?;
            }
        }
        if !matches!(entry.content, Content::Folder) {
            files.insert(entry.path.clone());
            bytes += fs::metadata(&path)?.len();
        }
    }
    // Whatever the umask of who builds is.
    for folder in folders(&root)? {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    }
    for entry in entries {
        let mode = fs::Permissions::from_mode(entry.mode);
        fs::set_permissions(root.join(&entry.path), mode)?;
    }
    Ok(Staged { root, files, bytes })
}

/// Writes a file and the folders above it.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).with_context(|| format!("cannot create {folder:?}"))?;
    fs::write(path, content).with_context(|| format!("cannot write {path:?}"))
}

/// Gives everything below a folder the same time.
///
/// # Errors
/// If a time cannot be set.
pub(super) fn age(root: &Path, epoch: u64) -> Result<()> {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch);
    for folder in folders(root)? {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            File::open(&path)?.set_modified(at).with_context(|| format!("the time of {path:?}"))?;
        }
    }
    File::open(root)?.set_modified(at).with_context(|| format!("the time of {root:?}"))
}

/// A folder and all below it.
fn folders(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(folder) = found.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder:?}"))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
