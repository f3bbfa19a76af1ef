//! The file of the access log, which the edge opens itself and may have no right to make.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Makes the file, and the folders that lead there, if it is not there. It gets the owner of the edge's folder; what is
/// there is left as it is.
///
/// # Errors
/// If it cannot be made.
pub(super) fn provide(path: &Path, runtime_dir: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        open_folder(folder)?;
    }
    // Never one that another user has put there, nor what a link leads to.
    let made = OpenOptions::new().append(true).create_new(true).mode(0o640).open(path);
    let made = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    let owner = std::fs::metadata(runtime_dir)?;
    fchown(made, Some(owner.uid()), Some(owner.gid()))
}

/// Makes a folder, and those that lead there, where they are not. The edge must get through as another user, which the
/// umask of a daemon does not allow.
fn open_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() || folder.as_os_str().is_empty() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        open_folder(above)?;
    }
    std::fs::create_dir(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-EDGE-1: the file is made once, and nothing that is there is touched.
    #[test]
    fn a_file_is_made_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log/jaco/access.log");
        provide(&path, folder.path()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        std::fs::write(&path, "line\n").unwrap();
        provide(&path, folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line\n");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
        provide(&link, folder.path()).unwrap();
        assert!(!folder.path().join("elsewhere").exists());
    }
}
