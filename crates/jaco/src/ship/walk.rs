//! What is in a folder, without its contents. Follows no link out of the project's folder, waits for
//! no pipe, and ends.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jaco_compose::tree::stays_below;
use jaco_compose::{Fault, FaultKind};

/// The most files and folders of one shipment: more than a list of files can hold.
const ENTRIES_MAX: usize = 20_000;

/// How deep folders may lie in one another; a link back up would go on for ever.
const DEPTH_MAX: usize = 64;

/// The permission bits that are kept.
const MODE_KEPT: u32 = 0o1777;

/// Files that only keep an empty folder in a repository.
const PLACEHOLDERS: [&str; 3] = [".gitignore", ".gitkeep", ".keep"];

/// One file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Listed {
    /// A folder of this mode.
    Folder(u32),
    /// A file.
    File {
        /// Its mode.
        mode: u32,
        /// Its size when it was listed.
        size: u64,
        /// Where it is read.
        at: PathBuf,
    },
    /// A link that leads to somewhere in the same shipment.
    Link(String),
}

/// Everything below `root`, by path from there; the root's own path is empty.
///
/// # Errors
/// The first thing that cannot be sent.
pub(super) fn walk(root: &Path, project: &Path) -> Result<BTreeMap<String, Listed>, Fault> {
    let real = root.canonicalize().map_err(|error| unreadable(root, &error))?;
    let project = project.canonicalize().map_err(|error| unreadable(project, &error))?;
    if !real.starts_with(&project) {
        return Err(outside(root, &real));
    }
    let mut walk = Walk { project: &project, found: BTreeMap::new() };
    walk.add(String::new(), &real)?;
    Ok(walk.found)
}

/// Whether a listed folder holds nothing, or nothing but what keeps it in a repository.
pub(super) fn is_empty(found: &BTreeMap<String, Listed>) -> bool {
    found.iter().all(|(path, listed)| match listed {
        Listed::Folder(_) => path.is_empty(),
        Listed::File { .. } => PLACEHOLDERS.contains(&path.as_str()),
        Listed::Link(_) => false,
    })
}

struct Walk<'a> {
    /// The project's folder, without links.
    project: &'a Path,
    found: BTreeMap<String, Listed>,
}

impl Walk<'_> {
    fn add(&mut self, path: String, at: &Path) -> Result<(), Fault> {
        if self.found.len() >= ENTRIES_MAX || path.split('/').count() > DEPTH_MAX {
            let message =
                format!("there are too many files, or too deep folders, at {}", at.display());
            return Err(refused(message, "mount the folders that are needed, one by one"));
        }
        let metadata = fs::symlink_metadata(at).map_err(|error| unreadable(at, &error))?;
        if metadata.is_symlink() {
            return self.add_link(path, at);
        }
        self.add_plain(path, at, &metadata)
    }

    fn add_plain(&mut self, path: String, at: &Path, metadata: &Metadata) -> Result<(), Fault> {
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
                let message = format!("{} in {} is no text", name.display(), at.display());
                refused(message, "give the file a name in UTF-8")
            })?;
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            self.add(path, &entry.path())?;
        }
        Ok(())
    }

    /// A link inside of what is sent stays one. Another one is followed, as long as it leads to
    /// somewhere in the project.
    fn add_link(&mut self, path: String, at: &Path) -> Result<(), Fault> {
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

fn refused(message: String, suggestion: &str) -> Fault {
    Fault { kind: FaultKind::Refused, message, suggestion: suggestion.to_owned() }
}

/// What cannot be read.
pub(super) fn unreadable(at: &Path, error: &io::Error) -> Fault {
    let message = format!("{} cannot be read: {error}", at.display());
    let suggestion = if error.kind() == io::ErrorKind::NotFound {
        "make the file, or correct the path"
    } else {
        "make it readable for you; data of a database belongs into a named volume"
    };
    Fault { kind: FaultKind::Absent, message, suggestion: suggestion.to_owned() }
}

fn outside(at: &Path, real: &Path) -> Fault {
    let message = format!(
        "{} leads to {}, which is not below the project's folder",
        at.display(),
        real.display()
    );
    refused(message, "copy it into the project's folder")
}

fn special(at: &Path, metadata: &Metadata) -> Fault {
    let kind = metadata.file_type();
    let what = if kind.is_socket() {
        "a socket"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a device"
    };
    let message = format!("{} is {what}, which cannot be sent", at.display());
    refused(message, "mount it by its absolute path on the node, and pin the service to that node")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn listed(folder: &Path, root: &str) -> Result<Vec<String>, String> {
        let found = walk(&folder.join(root), folder).map_err(|fault| fault.message)?;
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

    /// R-IN-4: files, modes and links; a link that leaves the shipment is followed inside the project.
    #[test]
    fn folders_are_listed_as_they_are() {
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

    /// R-IN-3, R-IN-4: nothing from outside the project, nothing that is no file, and no endless walk.
    #[test]
    fn what_cannot_be_sent_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let refused = |root: &str, expected: &str| {
            let said = listed(folder.path(), root).unwrap_err();
            assert!(said.contains(expected), "{said}");
        };
        for name in ["a", "b", "c", "d"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink("/etc/passwd", at("a/link")).unwrap();
        refused("a", "a/link leads to /etc/passwd");
        symlink(elsewhere.path(), at("root")).unwrap();
        refused("root", "which is not below the project's folder");
        let _socket = UnixListener::bind(at("b/socket")).unwrap();
        refused("b", "b/socket is a socket");
        refused("b/socket", "is a socket");
        fs::create_dir(at("c/deep")).unwrap();
        symlink(at("c"), at("c/deep/up")).unwrap();
        refused("c", "too many files, or too deep");
        refused("none", "none cannot be read");
        fs::write(at("d").join(std::ffi::OsStr::from_encoded(b"\xff")), "").unwrap();
        refused("d", "is no text");
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
