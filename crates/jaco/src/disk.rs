//! The disk, as the compose loader sees it. Reads regular files of a bounded size, and stdin once.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jaco_compose::{FileError, Files};

/// The loader takes 16 MiB in all; one byte more is enough for it to say so.
const FILE_BYTES_MAX: u64 = (16 << 20) + 1;

/// The name that stands for stdin, or for stdout where something is written.
pub(crate) const STDIN: &str = "-";

/// Files of this machine.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// What was on stdin, if it was named.
    pub(crate) stdin: Option<Vec<u8>>,
}

impl Disk {
    /// The disk, and stdin if one of `files` names it.
    ///
    /// # Errors
    /// If stdin cannot be read.
    pub(crate) fn with_stdin_of(files: &[String]) -> io::Result<Self> {
        if !files.iter().any(|file| file == STDIN) {
            return Ok(Self::default());
        }
        let mut bytes = Vec::new();
        io::stdin().take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Self { stdin: Some(bytes) })
    }
}

impl Files for Disk {
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        if let Some(bytes) = self.stdin.as_ref().filter(|_| path == STDIN) {
            return Ok(bytes.clone());
        }
        read(Path::new(path)).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                return FileError::NotFound;
            }
            FileError::Unreadable(error.to_string())
        })
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Looked at before it is opened: opening a pipe would wait for its writer.
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

    /// R-IN-3: a path that is no file is an error, not a hang.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("a"), "x").unwrap();
        let disk = Disk::default();
        assert_eq!(disk.read(&path("a")), Ok(b"x".to_vec()));
        assert_eq!(disk.read(&path("b")), Err(FileError::NotFound));
        assert!(matches!(disk.read(&path(".")), Err(FileError::Unreadable(_))));
        assert!(matches!(disk.read("/dev/zero"), Err(FileError::Unreadable(_))));
    }
}
