//! Where the disks of machines are.

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

/// What three machines with engines and packages take.
const NEEDED: u64 = 6 << 30;

/// A new folder: in memory where that is large enough for machines, as removing them from a disk may take minutes.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if holds_machines(memory) { PathBuf::from(memory) } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("jaco-package-").tempdir_in(place);
    folder.expect("temporary files can be made")
}

/// Whether there is room, and device files and programs can be used.
fn holds_machines(place: &Path) -> bool {
    let forbidden = StatVfsMountFlags::NODEV | StatVfsMountFlags::NOEXEC;
    statvfs(place).is_ok_and(|found| {
        found.f_bavail.saturating_mul(found.f_frsize) >= NEEDED
            && !found.f_flag.intersects(forbidden)
    })
}
