//! Files of instances that are gone: found when the agent starts, remembered while it runs, and taken
//! away.

use std::collections::BTreeSet;

use jaco_types::InstanceId;

use crate::files::{self, Places};

/// What was put on this node and has to go some day.
pub(super) struct Leftovers {
    places: Places,
    /// The folders that were put, by name.
    known: BTreeSet<String>,
    /// Whether earlier agents' folders were looked for.
    looked: bool,
}

impl Leftovers {
    pub(super) fn new(places: Places) -> Self {
        Self { places, known: BTreeSet::new(), looked: false }
    }

    /// Something may be put for this instance from now on.
    pub(super) fn note(&mut self, instance: &InstanceId) {
        self.known.insert(files::folder_name(instance));
    }

    /// Takes away what belongs neither to a container nor to what is wanted.
    ///
    /// What an earlier agent left for an instance without a container goes, too: whether the machine
    /// died while it was written cannot be seen, and it is put anew when the instance starts.
    pub(super) fn sweep<'a>(
        &mut self,
        containers: impl Iterator<Item = &'a InstanceId>,
        wanted: impl Iterator<Item = &'a InstanceId>,
    ) {
        let mut keep: BTreeSet<String> = containers.map(files::folder_name).collect();
        if !self.looked {
            self.looked = true;
            let found = files::found(&self.places);
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
        let places = self.places.clone();
        // Nobody waits for it; what stays after an error is found by the next agent.
        drop(tokio::task::spawn_blocking(move || {
            for name in names {
                if let Err(error) = files::remove(&places, &name) {
                    tracing::warn!(folder = name, %error, "files of an instance that is gone stay");
                }
            }
        }));
    }
}
