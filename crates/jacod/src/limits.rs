//! What the system allows this process, set before it does anything else.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, umask};
use tracing::warn;

/// Descriptors that a daemon needs with many connections, as in its unit.
const DESCRIPTORS: u64 = 65_536;

/// Descriptors that connections of the TLS port leave to snapshots, the journal, the engine and the socket.
const RESERVED: u64 = 128;

/// Keeps what this process has in memory and on disk to itself: the key of all secrets is in its memory.
pub(crate) fn keep_private() -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("cannot turn core dumps off")?;
    // A handler of core dumps is not bound by the limit.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot turn core dumps off")?;
    umask(Mode::from_raw_mode(0o077));
    Ok(())
}

/// Raises the number of descriptors as far as this process may.
pub(crate) fn raise_descriptors() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(now, most)| {
        let wanted = now.max(DESCRIPTORS);
        setrlimit(Resource::RLIMIT_NOFILE, wanted, most.max(wanted))
            .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, now.max(most.min(wanted)), most))
    });
    if let Err(error) = raised {
        warn!(%error, "the limit of open files is not raised");
    }
}

/// The number from which a descriptor is too high for a connection of the TLS port. The system gives the lowest free
/// number, so a high one says that few are left.
pub(crate) fn connection_descriptors() -> Option<u64> {
    let (now, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    Some(now.saturating_sub(RESERVED).max(now / 2))
}

/// Creates the data directory; only this user may enter it, also where it was created by others.
pub(crate) fn private_dir(path: &Path) -> anyhow::Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.with_context(|| format!("cannot create {}", path.display()))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
        .with_context(|| format!("cannot keep others out of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-3: whatever the directory was before, others cannot enter it.
    #[test]
    fn the_data_directory_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/data");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        private_dir(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
