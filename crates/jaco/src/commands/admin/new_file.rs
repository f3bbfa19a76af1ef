//! Files for what is shown once: tokens, keys, certificates. None that exists is replaced.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::CliError;

/// A new file with this mode.
///
/// # Errors
/// If it cannot be made, also because there is one.
pub(super) fn create(path: &Path, mode: u32) -> Result<File, CliError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.map_err(|error| CliError::local(format!("cannot create {}", path.display()), error))
}

/// Writes the text of such a file, durably.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(mut file: &File, path: &Path, text: &str) -> Result<(), CliError> {
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| CliError::local(format!("cannot write {}", path.display()), error))
}
