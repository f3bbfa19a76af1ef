//! The files of a deployment while they are edited: in a folder that only the user can read, because they may have
//! passwords in them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jaco_compose::canonical::escape_dollars;
use jaco_compose::restart;
use jaco_proto::v1::GetDeploymentResponse;
use serde_json::Value;

use crate::error::CliError;
use crate::format::yaml::to_yaml;

/// The names of the files, in the order in which they are opened.
pub(super) const COMPOSE: &str = "compose.yaml";
pub(super) const OVERLAY: &str = "jaco.yaml";
pub(super) const ENVIRONMENT: &str = "jaco.services.toml";

/// The files of a deployment; those that it does not have are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Texts {
    pub(super) compose: String,
    pub(super) overlay: String,
    pub(super) environment: String,
}

impl Texts {
    /// The files of a stored revision.
    ///
    /// # Errors
    /// If its model is of a version that this program does not know.
    pub(super) fn of(stored: &GetDeploymentResponse) -> Result<Self, CliError> {
        let mut model: Value = serde_json::from_str(&stored.compose_json)
            .map_err(|error| CliError::local("cannot parse the stored compose model", error))?;
        // The restart counters exist in the cluster only, which keeps them.
        restart::forget(&mut model);
        let (name, revision) = (&stored.name, stored.revision);
        let head =
            format!("# {name}, revision {revision}. Nothing is applied before you are asked.\n");
        Ok(Self {
            compose: head + &to_yaml(&escape_dollars(model)),
            overlay: stored.overlay_yaml.clone(),
            environment: stored.environment_toml.clone(),
        })
    }
}

/// The folder with the files.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new folder with these files.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn with(name: &str, texts: &Texts) -> Result<Self, CliError> {
        let failed = |error| CliError::local("cannot write the files to be edited", error);
        let (prefix, own) = (format!("jaco-edit-{name}-"), fs::Permissions::from_mode(0o700));
        let folder = tempfile::Builder::new().prefix(&prefix).permissions(own).tempdir();
        let folder = folder.map_err(failed)?;
        fs::write(folder.path().join(COMPOSE), &texts.compose).map_err(failed)?;
        for (name, text) in [(OVERLAY, &texts.overlay), (ENVIRONMENT, &texts.environment)] {
            if !text.is_empty() {
                fs::write(folder.path().join(name), text).map_err(failed)?;
            }
        }
        Ok(Self(folder.keep()))
    }

    /// A folder that an earlier edit has kept.
    ///
    /// # Errors
    /// If there is no compose file in it.
    pub(super) fn kept(path: &Path) -> Result<Self, CliError> {
        if path.join(COMPOSE).is_file() {
            // As the paths of the project are.
            let path = std::path::absolute(path);
            return path
                .map(Self)
                .map_err(|error| CliError::local("cannot find the folder", error));
        }
        let message = format!("{} has no {COMPOSE}", path.display());
        Err(CliError::usage(message, "--from takes the folder that an earlier edit has named"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The files that are there.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let all = [COMPOSE, OVERLAY, ENVIRONMENT].map(|name| self.0.join(name));
        all.into_iter().filter(|path| path.is_file()).collect()
    }

    /// What the files hold now.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub(super) fn texts(&self) -> Result<Texts, CliError> {
        let read = |name: &str| match fs::read_to_string(self.0.join(name)) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(CliError::local(format!("cannot read {name}"), error)),
        };
        let (compose, overlay) = (read(COMPOSE)?, read(OVERLAY)?);
        Ok(Texts { compose, overlay, environment: read(ENVIRONMENT)? })
    }

    /// The error, with where the files are kept.
    pub(super) fn keep(self, error: CliError, deployment: &str) -> CliError {
        let shown = self.0.display();
        let help =
            format!("your files are kept: jaco edit {deployment} --from {shown} goes on with them");
        CliError::Kept { source: Box::new(error), folder: self.0, help }
    }

    /// Removes what the files are not needed for any more.
    ///
    /// # Errors
    /// If that fails: there may be passwords in them.
    pub(super) fn remove(self) -> Result<(), CliError> {
        let what = || format!("cannot remove {}, which holds the edited files", self.0.display());
        fs::remove_dir_all(&self.0).map_err(|error| CliError::local(what(), error))
    }
}
