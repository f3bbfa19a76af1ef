//! A fresh Debian, made once and copied for each machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jaco_testkit::ran;
use tempfile::TempDir;

use crate::scratch;

/// What `apt-get install` finds downloaded there, as the machines reach no mirror.
const DOWNLOADED: &str = "docker.io nftables";

/// The disk of a machine that was never started. It ends with the last machine that is made of it.
pub(crate) struct Debian {
    folder: TempDir,
}

impl Debian {
    /// That of this run, of the machine's own release, so that programs that were built here start there.
    pub(crate) fn of_this_run() -> Arc<Self> {
        static MADE: Mutex<Weak<Debian>> = Mutex::new(Weak::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(debian) = made.upgrade() {
            return debian;
        }
        let debian = Arc::new(Self::make());
        *made = Arc::downgrade(&debian);
        debian
    }

    fn make() -> Self {
        let debian = Self { folder: scratch::folder() };
        let download = format!(
            "chroot \"$1\" apt-get --yes -qq --no-install-recommends --download-only install {DOWNLOADED}"
        );
        let mut make = bootstrap(debian.folder.path());
        make.args(["--variant=essential", "--include=systemd-sysv,procps,apt"]);
        make.args(["--dpkgopt=force-unsafe-io", "--skip=cleanup/apt"]);
        make.arg(format!("--customize-hook={download}"));
        ran(make.arg(codename()).arg(debian.root()));
        // The mirror and the resolver of this machine are not there: whatever is asked of them fails at once.
        fs::write(debian.root().join("etc/resolv.conf"), "").expect("written");
        debian
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Makes a machine's disk of it.
    pub(crate) fn copy_to(&self, root: &Path) {
        ran(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(self.root()).arg(root));
    }
}

/// What unpacks packages of the distribution below a folder. The release and the folder's name are to be appended.
pub(crate) fn bootstrap(scratch: &Path) -> Command {
    let mut make = Command::new("mmdebstrap");
    make.env("TMPDIR", scratch).arg("--quiet");
    make
}

/// The name of this machine's release.
pub(crate) fn codename() -> String {
    let release = fs::read_to_string("/etc/os-release").expect("this is a Debian");
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.expect("a release has one").to_owned()
}
