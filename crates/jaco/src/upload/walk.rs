//! Lists the files of a folder. Follows no link out of the project's folder, opens nothing, and is
//! bounded.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jaco_compose::tree::stays_below;
use jaco_compose::{UploadProblem, UploadProblemKind};

/// The maximum number of files and folders of one upload: more than a list of files can hold.
const ENTRIES_MAX: usize = 20_000;

/// The maximum depth of folders; a link to a parent folder would be followed forever.
const DEPTH_MAX: usize = 64;

/// The permission bits that are uploaded.
const MODE_KEPT: u32 = 0o1777;

/// Files that exist to keep an empty folder in a repository.
const PLACEHOLDERS: [&str; 3] = [".gitignore", ".gitkeep", ".keep"];

/// One file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Listed {
    /// A folder of this mode.
    Folder(u32),
    /// A file.
    File {
        /// The permission bits.
        mode: u32,
        /// The size when it was listed.
        size: u64,
        /// The path to read it from.
        at: PathBuf,
    },
    /// A symbolic link to a path in the same upload.
    Link(String),
}

/// All files below `root` by their relative path; the path of `root` itself is empty.
///
/// # Errors
/// The first file that cannot be uploaded.
pub(super) fn walk(root: &Path, project: &Path) -> Result<BTreeMap<String, Listed>, UploadProblem> {
    let (real, project) = check_inside(root, project)?;
    let mut walk = Walk { project: &project, found: BTreeMap::new() };
    walk.add(String::new(), &real)?;
    Ok(walk.found)
}

/// A path and the project's folder, with links resolved.
///
/// # Errors
/// If the first is not inside of the second.
pub(super) fn check_inside(at: &Path, project: &Path) -> Result<(PathBuf, PathBuf), UploadProblem> {
    let real = at.canonicalize().map_err(|error| unreadable(at, &error))?;
    let project = project.canonicalize().map_err(|error| unreadable(project, &error))?;
    match real.starts_with(&project) {
        true => Ok((real, project)),
        false => Err(outside(at, &real)),
    }
}

/// Whether a listed folder is empty, apart from a placeholder.
pub(super) fn is_empty(found: &BTreeMap<String, Listed>) -> bool {
    found.iter().all(|(path, listed)| match listed {
        Listed::Folder(_) => path.is_empty(),
        Listed::File { .. } => PLACEHOLDERS.contains(&path.as_str()),
        Listed::Link(_) => false,
    })
}

struct Walk<'a> {
    /// The project's folder with links resolved.
    project: &'a Path,
    found: BTreeMap<String, Listed>,
}

impl Walk<'_> {
    fn add(&mut self, path: String, at: &Path) -> Result<(), UploadProblem> {
        if self.found.len() >= ENTRIES_MAX || path.split('/').count() > DEPTH_MAX {
            let message = format!("too many files, or too deep folders, at {}", at.display());
            return Err(refused(message, "mount only the folders that are needed"));
        }
        let metadata = fs::symlink_metadata(at).map_err(|error| unreadable(at, &error))?;
        if metadata.is_symlink() {
            return self.add_link(path, at);
        }
        self.add_plain(path, at, &metadata)
    }

    fn add_plain(
        &mut self,
        path: String,
        at: &Path,
        metadata: &Metadata,
    ) -> Result<(), UploadProblem> {
        let mode = metadata.permissions().mode() & MODE_KEPT;
        if metadata.is_file() {
            let file = Listed::File { mode, size: metadata.len(), at: at.to_owned() };
            self.found.insert(path, file);
            return Ok(());
        }
        if !metadata.is_dir() {
            return Err(special(at, metadata));
        }
        self.found.insert(path.clone(), Listed::Folder(mode));
        let entries = fs::read_dir(at).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.map_err(|error| unreadable(at, &error))? {
            let name = entry.file_name().into_string().map_err(|name| {
                let message =
                    format!("the name {} in {} is not UTF-8", name.display(), at.display());
                refused(message, "rename the file")
            })?;
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            self.add(path, &entry.path())?;
        }
        Ok(())
    }

    /// A link to a path in the upload stays a link. Another one is followed if its target is in the
    /// project.
    fn add_link(&mut self, path: String, at: &Path) -> Result<(), UploadProblem> {
        let target = fs::read_link(at).map_err(|error| unreadable(at, &error))?;
        if let Some(target) = target.to_str().filter(|target| stays_below(&path, target)) {
            self.found.insert(path, Listed::Link(target.to_owned()));
            return Ok(());
        }
        let real = at.canonicalize().map_err(|error| unreadable(at, &error))?;
        if !real.starts_with(self.project) {
            return Err(outside(at, &real));
        }
        let metadata = fs::metadata(&real).map_err(|error| unreadable(at, &error))?;
        self.add_plain(path, &real, &metadata)
    }
}

fn refused(message: String, suggestion: &str) -> UploadProblem {
    UploadProblem { kind: UploadProblemKind::Refused, message, suggestion: suggestion.to_owned() }
}

/// The problem of a file that cannot be read.
pub(super) fn unreadable(at: &Path, error: &io::Error) -> UploadProblem {
    let message = format!("cannot read {}: {error}", at.display());
    let suggestion = if error.kind() == io::ErrorKind::NotFound {
        "create the file, or correct the path"
    } else {
        "make it readable; data of a database belongs in a named volume"
    };
    UploadProblem { kind: UploadProblemKind::Missing, message, suggestion: suggestion.to_owned() }
}

fn outside(at: &Path, real: &Path) -> UploadProblem {
    let message = format!(
        "{} links to {}, which is outside the project's folder",
        at.display(),
        real.display()
    );
    refused(message, "copy it into the project's folder")
}

fn special(at: &Path, metadata: &Metadata) -> UploadProblem {
    let kind = metadata.file_type();
    let what = if kind.is_socket() {
        "a socket"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a device"
    };
    let message = format!("{} is {what}, which cannot be uploaded", at.display());
    refused(message, "mount it by its absolute path on the node, and pin the service to that node")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn listed(folder: &Path, root: &str) -> Result<Vec<String>, String> {
        let found = walk(&folder.join(root), folder).map_err(|problem| problem.message)?;
        let line = |(path, listed): (&String, &Listed)| match listed {
            Listed::Folder(mode) => format!("{path:?} {mode:o}"),
            Listed::File { mode, size, .. } => format!("{path:?} {mode:o} {size}"),
            Listed::Link(target) => format!("{path:?} -> {target}"),
        };
        Ok(found.iter().map(line).collect())
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// R-IN-4: files, modes and links are listed; a link out of the upload is followed within the project.
    #[test]
    fn files_modes_and_links_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("conf/sub")).unwrap();
        fs::create_dir(at("shared")).unwrap();
        fs::write(at("conf/a"), "12345").unwrap();
        fs::write(at("shared/b"), "123").unwrap();
        set_mode(&at("conf/a"), 0o4640);
        set_mode(&at("conf"), 0o755);
        set_mode(&at("conf/sub"), 0o700);
        set_mode(&at("shared/b"), 0o600);
        symlink("../a", at("conf/sub/inside")).unwrap();
        symlink("nowhere", at("conf/sub/dangling")).unwrap();
        symlink("../../shared/b", at("conf/sub/outside")).unwrap();
        let expected = [
            r#""" 755"#,
            r#""a" 640 5"#,
            r#""sub" 700"#,
            r#""sub/dangling" -> nowhere"#,
            r#""sub/inside" -> ../a"#,
            r#""sub/outside" 600 3"#,
        ];
        assert_eq!(listed(folder.path(), "conf").unwrap(), expected);
        assert_eq!(listed(folder.path(), "conf/a").unwrap(), [r#""" 640 5"#]);
    }

    /// R-IN-3, R-IN-4: files outside the project, special files and endless links are refused.
    #[test]
    fn files_that_cannot_be_uploaded_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let refused = |root: &str, expected: &str| {
            let message = listed(folder.path(), root).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        for name in ["a", "b", "c", "d"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink("/etc/passwd", at("a/link")).unwrap();
        refused("a", "a/link links to /etc/passwd");
        symlink(elsewhere.path(), at("root")).unwrap();
        refused("root", "which is outside the project's folder");
        let _socket = UnixListener::bind(at("b/socket")).unwrap();
        refused("b", "b/socket is a socket");
        refused("b/socket", "is a socket");
        fs::create_dir(at("c/deep")).unwrap();
        symlink(at("c"), at("c/deep/up")).unwrap();
        refused("c", "too many files, or too deep");
        refused("none", "cannot read");
        fs::write(at("d").join(std::ffi::OsStr::from_encoded(b"\xff")), "").unwrap();
        refused("d", "is not UTF-8");
    }

    trait FromEncoded {
        fn from_encoded(bytes: &[u8]) -> &Self;
    }

    impl FromEncoded for std::ffi::OsStr {
        fn from_encoded(bytes: &[u8]) -> &Self {
            std::os::unix::ffi::OsStrExt::from_bytes(bytes)
        }
    }
}
