//! The user's contexts, with errors as the command line prints them.

use jaco_client::contexts::default_path;
pub(crate) use jaco_client::contexts::{Cluster, Contexts};

use crate::error::CliError;

/// Reads the user's file.
///
/// # Errors
/// If it cannot be read, others can access it, or it is malformed.
pub(crate) fn load() -> Result<Contexts, CliError> {
    Contexts::load_default().map_err(|error| CliError::local("cannot read the contexts", error))
}

/// Writes the user's file.
///
/// # Errors
/// If it cannot be written, or there is no home directory.
pub(crate) fn save(contexts: &Contexts) -> Result<(), CliError> {
    let path = default_path().ok_or_else(|| {
        CliError::usage("there is no directory for contexts", "set HOME or XDG_CONFIG_HOME")
    })?;
    contexts.save(&path).map_err(|error| CliError::local("cannot save the contexts", error))
}
