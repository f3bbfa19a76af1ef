//! `SHA256SUMS` of what was built, as sha256sum(1) checks it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Writes the sums of the files, by name, and returns the path.
///
/// # Errors
/// If a file cannot be read, or the sums not written.
pub(super) fn write(files: &[PathBuf], out: &Path) -> Result<PathBuf> {
    let mut lines = Vec::new();
    for file in files {
        let name = file.file_name().expect("a file has a name").to_string_lossy();
        let mut hex = String::new();
        for byte in Sha256::digest(super::read(file)?) {
            write!(hex, "{byte:02x}").expect("a string takes all");
        }
        lines.push((name.into_owned(), hex));
    }
    lines.sort();
    let text: String = lines.iter().map(|(name, hex)| format!("{hex}  {name}\n")).collect();
    let path = out.join("SHA256SUMS");
    std::fs::write(&path, text).with_context(|| format!("cannot write {path:?}"))?;
    Ok(path)
}
