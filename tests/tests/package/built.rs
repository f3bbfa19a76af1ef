//! Packages of the programs that were built for this run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use jaco_testkit::{binary, ran};
use tempfile::TempDir;

/// What `cargo xtask package` wrote, for two versions, and the first of them once more.
pub(crate) struct Built {
    folder: TempDir,
}

/// Builds them once for all tests.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).expect("an empty folder");
        for name in ["jaco", "jacod", "jacod-net", "jacod-edge"] {
            // What debuggers read would be most of a package.
            let (from, to) = (binary(name), programs.join(name));
            ran(Command::new("strip").arg("-o").arg(to).arg(from));
        }
        for (name, revision) in [("first", "1"), ("again", "1"), ("second", "2")] {
            package(&programs, &folder.path().join(name), revision);
        }
        Built { folder }
    })
}

fn package(programs: &Path, out: &Path, revision: &str) {
    let mut command = Command::new(binary("xtask"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(["package", "--quick"]);
    // The version in this tree may not be released yet.
    command.args(["--snapshot", "--revision", revision]);
    // A copy without a git checkout has no commit to be dated by.
    command.env("SOURCE_DATE_EPOCH", "1767225600");
    ran(command.arg("--bin-dir").arg(programs).arg("--out").arg(out));
}

impl Built {
    /// The files of one build, sorted.
    pub(crate) fn files(&self, build: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join(build)).expect("it was built");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("it is there").path()).collect();
        files.sort();
        files
    }

    /// The package of this name.
    pub(crate) fn deb(&self, build: &str, name: &str) -> PathBuf {
        let is_it = |path: &PathBuf| {
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
        };
        self.files(build).into_iter().find(is_it).expect("it was built")
    }

    /// The content of both packages, unpacked below one folder.
    pub(crate) fn unpacked(&self) -> TempDir {
        let root = tempfile::tempdir().expect("temporary files can be made");
        for name in ["jaco", "jacod"] {
            ran(Command::new("dpkg").arg("-x").arg(self.deb("first", name)).arg(root.path()));
        }
        root
    }
}
