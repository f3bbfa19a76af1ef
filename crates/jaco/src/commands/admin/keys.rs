//! Keys of encrypted backups: recipients and identities of options and files.

use std::path::PathBuf;

use jaco_backup::{Identities, KeyError, Recipient, Recipients, Unlock};

use crate::error::CliError;
use crate::identities::{self, content, refused};

/// Whom a backup is encrypted for.
#[derive(Debug, clap::Args)]
pub(super) struct RecipientArgs {
    /// Encrypt the backup for this recipient, `age1…`; can be repeated, and each of them opens it
    #[arg(long, value_name = "AGE1")]
    recipient: Vec<String>,
    /// Encrypt it for the recipients of this file, one a line; can be repeated
    #[arg(long, value_name = "FILE")]
    recipients_file: Vec<PathBuf>,
}

impl RecipientArgs {
    /// The recipients, if any were given.
    ///
    /// # Errors
    /// If one is none, or a file cannot be read or names none.
    pub(super) fn read(&self) -> Result<Option<Recipients>, CliError> {
        let mut all = Vec::new();
        for text in &self.recipient {
            all.push(Recipient::parse(text).map_err(|error| refused("--recipient", &error))?);
        }
        for path in &self.recipients_file {
            let shown = path.display().to_string();
            let read =
                Recipients::read(&content(path)?).map_err(|error| refused(&shown, &error))?;
            if read.is_empty() {
                // Nobody wants a plain backup because a file is empty.
                return Err(refused(&shown, &KeyError::Empty));
            }
            all.extend(read);
        }
        if all.is_empty() {
            return Ok(None);
        }
        Recipients::new(all).map(Some).map_err(|error| refused("the recipients", &error))
    }
}

/// What opens encrypted backups.
#[derive(Debug, clap::Args)]
pub(super) struct IdentityArgs {
    /// Open encrypted backups with the keys of this file, as `age-keygen` writes it; can be repeated
    #[arg(long, value_name = "FILE")]
    identity: Vec<PathBuf>,
}

impl IdentityArgs {
    /// The identities, if any were given.
    ///
    /// # Errors
    /// If a file cannot be read, or is no file of identities.
    pub(super) fn read(&self) -> Result<Option<Identities>, CliError> {
        identities::read(&self.identity)
    }
}

/// What opens a file with these identities.
pub(super) fn unlock(identities: Option<&Identities>) -> Unlock<'_> {
    identities.map_or(Unlock::Nothing, Unlock::Identities)
}
