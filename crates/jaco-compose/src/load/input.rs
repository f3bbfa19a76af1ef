//! What a load is given: which files, variables and profiles, and where files come from.

use std::collections::BTreeMap;

use crate::notation::paths;

/// Why a file cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error("there is no such file")]
    NotFound,
    /// The caller does not allow this file to be read.
    #[error("the file may not be read: {0}")]
    Forbidden(String),
    /// Reading failed.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
}

/// Where files come from. The command line reads the disk, tests have maps.
pub trait Files {
    /// The content of the file at `path`, a clean path below or beside the project folder.
    ///
    /// # Errors
    ///
    /// Why there is no content.
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError>;
}

impl Files for BTreeMap<String, Vec<u8>> {
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        self.get(path).cloned().ok_or(FileError::NotFound)
    }
}

/// Which env files give the variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvFiles {
    /// `.env` of the project folder, if it is there.
    Project,
    /// These, in order; a later one wins.
    Listed(Vec<String>),
    /// None.
    Nothing,
}

/// What to load.
#[derive(Debug, Clone)]
pub struct Input {
    /// The compose files, first the one that the others are laid over.
    pub files: Vec<String>,
    /// The folder that relative paths start from, as it should appear in the model.
    pub project_dir: String,
    /// The name, if the caller sets one: wins over everything.
    pub name: Option<String>,
    /// The variables; they win over env files.
    pub env: BTreeMap<String, String>,
    /// Env files that give more variables.
    pub env_files: EnvFiles,
    /// Active profiles; `*` activates all.
    pub profiles: Vec<String>,
}

impl Input {
    /// One file in its folder, without variables.
    #[must_use]
    pub fn file(path: &str) -> Self {
        Self {
            files: vec![path.to_owned()],
            project_dir: paths::parent(path),
            name: None,
            env: BTreeMap::new(),
            env_files: EnvFiles::Project,
            profiles: Vec::new(),
        }
    }
}
