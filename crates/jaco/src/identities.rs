//! Files of keys that open what is encrypted with age.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use jaco_backup::{Identities, KeyError};

use crate::error::CliError;

/// The most bytes that are read of a file of keys; one that has more is refused.
const READ_MAX: u64 = 128 << 10;

/// The identities of these files, if there are any.
///
/// # Errors
/// If a file cannot be read, or is no file of identities.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Option<Identities>, CliError> {
    let mut all = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        all.push(Identities::read(&content(path)?).map_err(|error| refused(&shown, &error))?);
    }
    Identities::join(all).map_err(|error| refused("the identities", &error))
}

/// What is in a file of keys.
pub(crate) fn content(path: &Path) -> Result<zeroize::Zeroizing<Vec<u8>>, CliError> {
    let mut content = zeroize::Zeroizing::new(Vec::new());
    let read = File::open(path).and_then(|file| file.take(READ_MAX).read_to_end(&mut content));
    let shown = path.display();
    read.map_err(|error| CliError::local(format!("cannot read {shown}"), error))?;
    Ok(content)
}

/// The error for keys that are none.
pub(crate) fn refused(what: &str, error: &KeyError) -> CliError {
    CliError::usage(format!("{what}: {error}"), "make a pair of keys with `age-keygen -o key.txt`")
}
