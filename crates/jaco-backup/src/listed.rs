//! Backups of one cluster that are known by their names alone, as an object store lists them. Each was read back when it was
//! written, and a store has an object as a whole or not at all. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::age::Label;
use crate::folder_name::{Form, file_name, taken_of};
use crate::retention::{Retention, Taken};
use crate::write::Summary;

/// The names of backups of a cluster. Those of other files are of no concern.
#[derive(Debug, Default)]
pub struct ListedBackups {
    by_time: BTreeMap<Taken, Vec<String>>,
}

impl ListedBackups {
    /// Those of a cluster of this name.
    pub fn new(cluster_name: &str, names: impl IntoIterator<Item = String>) -> Self {
        let mut by_time = BTreeMap::<Taken, Vec<String>>::new();
        for name in names {
            if let Some(taken) = taken_of(cluster_name, &name) {
                by_time.entry(taken).or_default().push(name);
            }
        }
        Self { by_time }
    }

    /// The newest backup of this state or a later one.
    #[must_use]
    pub fn since(&self, raft_index: u64) -> Option<(&str, Label)> {
        let newest = self.by_time.iter().rev().find(|(taken, _)| taken.raft_index >= raft_index);
        newest.and_then(|(taken, names)| {
            let Taken { at_ms, raft_index } = *taken;
            let label = Label { cluster_id: String::new(), taken_at_ms: at_ms, raft_index };
            Some((names.first()?.as_str(), label))
        })
    }

    /// Those that the retention does not keep. `newest` stays, whatever its time.
    #[must_use]
    pub fn superseded(&self, newest: &str, retention: &Retention) -> Vec<&str> {
        let all: BTreeSet<Taken> = self.by_time.keys().copied().collect();
        let kept = retention.kept(&all);
        let gone = self.by_time.iter().filter(|(taken, _)| !kept.contains(taken));
        let names = gone.flat_map(|(_, names)| names).map(String::as_str);
        names.filter(|name| *name != newest).collect()
    }
}

/// The name of a backup; `None` if it was taken at no time that has a date.
#[must_use]
pub fn backup_name(summary: &Summary) -> Option<String> {
    let form = if summary.key.is_some() { Form::Encrypted } else { Form::Plain };
    let header = &summary.header;
    let taken = Taken { at_ms: header.taken_at_ms, raft_index: header.raft_index };
    file_name(&header.cluster_name, taken, form)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: by their names the newest stay, and nothing that is no backup of the cluster is removed.
    #[test]
    fn the_newest_by_name_stay() {
        let names = [
            "sun-20231112T030000Z-10.jacobak.age",
            "sun-20231113T030000Z-20.jacobak",
            "sun-20231114T030000Z-30.jacobak.age",
            "moon-20231114T030000Z-30.jacobak",
            "sun-notes.txt",
        ];
        let listed = ListedBackups::new("sun", names.map(str::to_owned));
        let two = Retention { newest: 2, ..Retention::default() };
        assert_eq!(listed.superseded(names[2], &two), [names[0]]);
        assert_eq!(listed.superseded(names[0], &two), Vec::<&str>::new(), "it was just written");
        assert_eq!(listed.superseded(names[2], &Retention::default()), Vec::<&str>::new());
        assert_eq!(listed.since(20).unwrap().0, names[2]);
        assert_eq!(listed.since(30).unwrap().1.raft_index, 30);
        assert!(listed.since(31).is_none());
    }
}
