//! The folder that an import is written to.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jaco_backup::Partial;

use crate::error::CliError;
use crate::import::COMPOSE;

/// What becomes of files that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Refuse,
    Replace,
}

/// A folder that may be written to.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    /// Checks before anything is read that the folder can be written to.
    ///
    /// # Errors
    /// If there are files in it that are to stay.
    pub(super) fn checked(path: PathBuf, existing: Existing) -> Result<Self, CliError> {
        let shown = path.display().to_string();
        let mut entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { path }),
            Err(error) => return Err(CliError::local(format!("cannot write to {shown}"), error)),
        };
        if existing == Existing::Refuse && entries.next().is_some() {
            let help =
                "give another folder with --folder, or --force to replace the compose file in it";
            return Err(CliError::usage(format!("{shown} exists and is not empty"), help));
        }
        Ok(Self { path })
    }

    /// Writes the compose file, and what lies beside it. Only the owner can read it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(
        &self,
        compose: &str,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), CliError> {
        for (name, content) in files {
            write(&self.path.join(name), content)?;
        }
        write(&self.path.join(COMPOSE), compose.as_bytes())
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), CliError> {
    let unwritable = |error| CliError::local(format!("cannot write {}", path.display()), error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(unwritable)?;
    }
    let partial = Partial::create(path).map_err(unwritable)?;
    {
        let mut out = partial.out();
        out.write_all(content).and_then(|()| out.flush()).map_err(unwritable)?;
    }
    partial.keep().map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// R-IN-5: what was written can only be read by its owner, and replaces nothing unless asked to.
    #[test]
    fn files_are_private_and_replace_nothing_unasked() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("shop");
        let files = BTreeMap::from([("configs/motd".to_owned(), b"hello".to_vec())]);
        let folder = Folder::checked(path.clone(), Existing::Refuse).unwrap();
        folder.write("one", &files).unwrap();
        for name in ["compose.yaml", "configs/motd"] {
            let mode = fs::metadata(path.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let refused = Folder::checked(path.clone(), Existing::Refuse).unwrap_err();
        assert!(refused.to_string().contains("is not empty"), "{refused}");
        let folder = Folder::checked(path.clone(), Existing::Replace).unwrap();
        folder.write("two", &files).unwrap();
        assert_eq!(fs::read_to_string(path.join("compose.yaml")).unwrap(), "two");
    }
}
