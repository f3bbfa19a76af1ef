//! Removes mounted files of instances that are gone, also those an earlier agent left.

use std::collections::BTreeSet;

use jaco_types::InstanceId;

use crate::files::{self, FileDirs};

/// Directories of mounted files that must be removed some day.
pub(super) struct FileCleanup {
    file_dirs: FileDirs,
    /// Known directories, by name.
    known: BTreeSet<String>,
    /// Whether directories of earlier agents were searched.
    scanned: bool,
}

impl FileCleanup {
    pub(super) fn new(file_dirs: FileDirs) -> Self {
        Self { file_dirs, known: BTreeSet::new(), scanned: false }
    }

    /// Files may be written for this instance from now on.
    pub(super) fn note(&mut self, instance: &InstanceId) {
        self.known.insert(files::folder_name(instance));
    }

    /// Removes directories that belong neither to a container nor to a desired instance.
    ///
    /// Directories of an earlier agent without a container are removed even if the instance is
    /// desired: they may be incomplete after a crash, and are written again when the instance
    /// starts.
    pub(super) fn sweep<'a>(
        &mut self,
        containers: impl Iterator<Item = &'a InstanceId>,
        wanted: impl Iterator<Item = &'a InstanceId>,
    ) {
        let mut keep: BTreeSet<String> = containers.map(files::folder_name).collect();
        if !self.scanned {
            self.scanned = true;
            let found = files::found(&self.file_dirs);
            let (kept, gone): (Vec<_>, Vec<_>) =
                found.difference(&self.known).cloned().partition(|name| keep.contains(name));
            self.known.extend(kept);
            self.remove(gone);
        }
        if self.known.is_empty() {
            return;
        }
        keep.extend(wanted.map(files::folder_name));
        let gone: Vec<String> = self.known.difference(&keep).cloned().collect();
        self.known.retain(|name| keep.contains(name));
        self.remove(gone);
    }

    fn remove(&self, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        let file_dirs = self.file_dirs.clone();
        // Not awaited; after an error the next agent tries again.
        drop(tokio::task::spawn_blocking(move || {
            for name in names {
                if let Err(error) = files::remove(&file_dirs, &name) {
                    tracing::warn!(folder = name, %error, "mounted files of removed instance not deleted");
                }
            }
        }));
    }
}
