//! The control groups of a machine: its first process is the root of them, so that two machines, and their engines, do not
//! meet in one.

use std::fs;
use std::path::{Path, PathBuf};

/// A group in every hierarchy. Dropping it removes the groups that were made below it, once their processes have ended.
pub(crate) struct ControlGroups {
    groups: Vec<PathBuf>,
}

impl ControlGroups {
    /// Makes them below those of the machine that the tests run on.
    pub(crate) fn make(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/mounts").expect("it is always there");
        let groups = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (place, kind) = (fields.next()?, fields.next()?);
            ["cgroup", "cgroup2"].contains(&kind).then(|| Path::new(place).join(name))
        });
        let made = Self { groups: groups.collect() };
        for group in &made.groups {
            fs::create_dir_all(group).expect("we are root");
            inherit(group);
        }
        made
    }

    /// The files that a process writes its number into to enter them.
    pub(crate) fn entrances(&self) -> impl Iterator<Item = PathBuf> {
        self.groups.iter().map(|group| group.join("cgroup.procs"))
    }
}

/// A group of the first version has no processor and no memory until it is told which.
fn inherit(group: &Path) {
    for which in ["cpuset.cpus", "cpuset.mems"] {
        let parent = group.parent().expect("it is below a hierarchy").join(which);
        if let (Ok(all), true) = (fs::read(parent), group.join(which).exists()) {
            fs::write(group.join(which), all).expect("they are there");
        }
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for group in &self.groups {
            remove(group);
        }
    }
}

/// Removes a group with all below it: only empty ones can be removed, from the innermost on.
fn remove(group: &Path) {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    // Called while a test unwinds, too: what cannot be removed must not hide its failure.
    let _left_over = fs::remove_dir(group).is_err();
}
