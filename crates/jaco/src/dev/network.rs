//! What the networks of a development cluster leave on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

/// Removes the folders of a router and an edge whose processes have ended, with their network namespace.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_router(folder: &Path) -> io::Result<()> {
    // Fails where no namespace is bound to it, because no router could be made.
    unmount(folder.join("router"), UnmountFlags::DETACH).ok();
    let mut edge = folder.as_os_str().to_owned();
    edge.push("-edge");
    for folder in [folder, Path::new(&edge)] {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Those of the bridges that this machine has.
#[must_use]
pub fn present(bridges: &BTreeSet<String>) -> BTreeSet<String> {
    // Not `/sys/class/net`: where that was mounted decides whose interfaces it has.
    let listed = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = listed.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    names.filter(|name| bridges.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridges_are_looked_for_by_their_names() {
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(present(&named(&["lo", "jn-none"])), named(&["lo"]));
    }

    #[test]
    fn the_folder_of_a_router_that_could_not_be_made_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let net = folder.path().join("net");
        fs::create_dir(&net).unwrap();
        fs::write(net.join("router"), "").unwrap();
        remove_router(&net).unwrap();
        assert!(!net.exists());
        remove_router(&net).unwrap();
    }
}
