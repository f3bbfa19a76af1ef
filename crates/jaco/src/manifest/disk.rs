//! File access of the compose loader: regular files of a bounded size, and stdin once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jaco_compose::{FileError, Files};

use crate::opening::Opening;

/// The loader accepts 16 MiB in all; one byte more lets it report that.
const FILE_BYTES_MAX: u64 = (16 << 20) + 1;

/// The path that means stdin, or stdout for output.
pub(crate) const STDIN: &str = "-";

/// Files of this machine.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The contents of stdin, if it is one of the files.
    pub(crate) stdin: Option<Vec<u8>>,
    /// What is done with encrypted files.
    opening: Opening,
    /// Encrypted files that were left closed.
    closed: RefCell<BTreeSet<String>>,
}

impl Disk {
    /// Reads stdin if it is one of `files`.
    ///
    /// # Errors
    /// If stdin cannot be read.
    pub(crate) fn with_stdin_of(files: &[String], opening: Opening) -> io::Result<Self> {
        if !files.iter().any(|file| file == STDIN) {
            return Ok(Self::new(opening));
        }
        let mut bytes = Vec::new();
        io::stdin().take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Self { stdin: Some(bytes), ..Self::new(opening) })
    }

    /// Without stdin.
    pub(crate) fn new(opening: Opening) -> Self {
        Self { stdin: None, opening, closed: RefCell::default() }
    }

    /// Encrypted files that were left closed, in order.
    pub(crate) fn closed(&self) -> Vec<String> {
        self.closed.borrow().iter().cloned().collect()
    }
}

impl Files for Disk {
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        if let Some(bytes) = self.stdin.as_ref().filter(|_| path == STDIN) {
            return Ok(bytes.clone());
        }
        let bytes = read(Path::new(path)).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                return FileError::NotFound;
            }
            FileError::Unreadable(error.to_string())
        })?;
        let opened = self.opening.open(Path::new(path), bytes);
        let opened = opened.map_err(|unopened| FileError::Unreadable(unopened.to_string()))?;
        Ok(opened.unwrap_or_else(|| {
            self.closed.borrow_mut().insert(path.to_owned());
            Vec::new()
        }))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Checked before it is opened: opening a pipe would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-3: a path that is not a regular file is an error, and blocks nothing.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("a"), "x").unwrap();
        let disk = Disk::new(Opening::Leave);
        assert_eq!(disk.read(&path("a")), Ok(b"x".to_vec()));
        assert_eq!(disk.read(&path("b")), Err(FileError::NotFound));
        assert!(matches!(disk.read(&path(".")), Err(FileError::Unreadable(_))));
        assert!(matches!(disk.read("/dev/zero"), Err(FileError::Unreadable(_))));
    }
}
