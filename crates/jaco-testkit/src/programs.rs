//! Programs of a version, and a machine's place for them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::binary::binary;

/// All of them: those of a node, and the command line.
const ALL: [&str; 4] = ["jaco", "jacod", "jacod-net", "jacod-edge"];

/// The programs of a version of the product, in a folder.
#[derive(Debug)]
pub struct Programs(PathBuf);

impl Programs {
    /// A copy of those under test, in a folder that is made.
    ///
    /// # Panics
    /// When they are not built, or cannot be copied.
    #[must_use]
    pub fn of_this_tree(folder: PathBuf) -> Self {
        Self::copied(binary("jacod").parent().expect("a program is in a folder"), folder)
    }

    /// A copy of those of the release before, which are where `JACO_PREVIOUS_BIN_DIR` says.
    ///
    /// # Panics
    /// When it does not say so, or they cannot be copied.
    #[must_use]
    pub fn of_the_previous_release(folder: PathBuf) -> Self {
        let from = std::env::var_os("JACO_PREVIOUS_BIN_DIR").map(PathBuf::from);
        Self::copied(&from.expect("`cargo xtask test edge` sets JACO_PREVIOUS_BIN_DIR"), folder)
    }

    fn copied(from: &Path, folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).expect("the folder can be made");
        for name in ALL {
            let from = from.join(name);
            let copied = fs::copy(&from, folder.join(name));
            copied.unwrap_or_else(|error| panic!("{} cannot be copied: {error}", from.display()));
        }
        Self(folder)
    }

    /// Where one of them is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Whether a process runs one of them, from wherever it was installed.
    ///
    /// # Panics
    /// When there is no such process.
    #[must_use]
    pub fn are_run_by(&self, process: u32) -> bool {
        // Of a program that was replaced too, this is the file that the process runs.
        let run = fs::metadata(format!("/proc/{process}/exe")).expect("the process is there");
        ALL.iter().any(|name| {
            let own = fs::metadata(self.path(name)).expect("it was copied");
            (own.dev(), own.ino()) == (run.dev(), run.ino())
        })
    }
}

/// Where a machine has its programs. They keep their names when a package puts others in their place.
#[derive(Debug)]
pub struct Installation(PathBuf);

impl Installation {
    /// These, in a folder that is made, on the same file system.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn of(programs: &Programs, folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).expect("the folder can be made");
        let installation = Self(folder);
        installation.replace(programs);
        installation
    }

    /// Puts these in the place of the others, as a package manager does: what runs goes on with the file that it has.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn replace(&self, programs: &Programs) {
        for name in ALL {
            let new = self.0.join("new");
            fs::hard_link(programs.path(name), &new).expect("it is the same file system");
            fs::rename(&new, self.path(name)).expect("the folder can be written");
        }
    }

    /// A program, by its lasting name.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
