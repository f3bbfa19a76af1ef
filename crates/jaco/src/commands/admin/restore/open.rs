//! Opens the file of a backup, and finds what to restore of it.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use jaco_backup::{Backup, Damage, Extent, Unlock};
use jaco_types::ErrorCode;

use crate::error::CliError;
use crate::manifest::disk::STDIN;

/// Opens and verifies a backup.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub(super) fn open(path: &Path, unlock: Unlock<'_>) -> Result<Backup, Damage> {
    Backup::unlock(source(path)?, unlock)
}

/// The error of a command that needs an undamaged backup.
pub(super) fn damage_error(path: &str, damage: Damage) -> CliError {
    match damage {
        Damage::Io(error) => CliError::local(format!("cannot read {path}"), error),
        Damage::Encrypted => CliError::usage(
            format!("{path} is encrypted"),
            "give the key that opens it: --identity FILE",
        ),
        Damage::OtherKey => CliError::usage(
            format!("{path} is encrypted, and none of the identities opens it"),
            "give the identity of one of its recipients: --identity FILE",
        ),
        Damage::Foreign
        | Damage::Unauthentic
        | Damage::Newer(_)
        | Damage::NewerPart
        | Damage::Truncated(_)
        | Damage::Altered
        | Damage::Contradiction(_) => CliError::Refused {
            code: ErrorCode::BackupInvalid,
            message: format!("{path} cannot be restored: {damage}"),
            help: None,
        },
    }
}

/// Opens the file. Stdin is copied to a temporary file, because a backup is read twice.
pub(in crate::commands::admin) fn source(path: &Path) -> io::Result<File> {
    if path != Path::new(STDIN) {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file; use `-` for a pipe"));
        }
        return Ok(file);
    }
    let mut file = tempfile::tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// The part of the backup to restore.
///
/// # Errors
/// If the backup has no deployment of a name.
pub(super) fn extent(backup: &Backup, only: &[String]) -> Result<Extent, CliError> {
    if only.is_empty() {
        return Ok(Extent::All);
    }
    let absent: Vec<&str> = only
        .iter()
        .map(String::as_str)
        .filter(|name| backup.deployments().all(|known| known != *name))
        .collect();
    if absent.is_empty() {
        return Ok(Extent::Only(only.iter().cloned().collect()));
    }
    let known: Vec<&str> = backup.deployments().collect();
    let message = format!("the backup has no deployment {}", absent.join(" and no "));
    Err(CliError::usage(message, format!("its deployments are {}", known.join(", "))))
}
