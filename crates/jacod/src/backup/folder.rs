//! One attempt to a folder of this node: a file that is complete, durable and read back gets its name, and only then older
//! ones are removed. A backup of this run that another leader left in a shared folder is taken for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jaco_backup::{Folder, Kept, Label, Pruned, Unlock};
use jaco_server::Member;
use jaco_state::backup::BackupTaken;
use tracing::{info, warn};

use super::assembled::{assemble, taken};
use super::{Attempt, retention};

/// The folders that a thread of this process waits for: one that hangs holds one thread, however often it is tried.
static WAITED_FOR: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A folder that is waited for.
struct Waits(PathBuf);

impl Waits {
    fn new(path: &Path) -> Result<Self, String> {
        let mut all = WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
        match all.insert(path.to_owned()) {
            true => Ok(Self(path.to_owned())),
            false => Err(format!(
                "an earlier attempt still waits for the disk of {}: see that it answers",
                path.display()
            )),
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Takes a backup.
///
/// # Errors
/// A sentence that says why there is none, or older ones stay.
pub(super) async fn take(
    member: &Arc<Member>,
    attempt: Attempt,
    path: &str,
) -> Result<BackupTaken, String> {
    let (member, path) = (Arc::clone(member), PathBuf::from(path));
    let waits = Waits::new(&path)?;
    let taken = tokio::task::spawn_blocking(move || {
        let _waits = waits;
        write(&member, &attempt, &path)
    });
    taken.await.unwrap_or_else(|error| Err(format!("the attempt broke off: {error}")))
}

fn write(member: &Member, attempt: &Attempt, path: &Path) -> Result<BackupTaken, String> {
    let shown = path.display().to_string();
    let folder = Folder::lock(path).map_err(|error| {
        format!("cannot write to {shown} on {}: {error}; the folder has to exist on every node that may lead", member.hostname)
    })?;
    let meta = member.store.read(|state| state.meta.clone()).ok_or("there is no cluster")?;
    let cluster = (meta.id.as_str(), meta.name.as_str());
    let there = folder.since(cluster, attempt.run.0);
    let there = there.map_err(|error| format!("cannot read {shown}: {error}"))?;
    let (kept, pruned) = match there {
        Some(kept) => {
            info!(schedule = %attempt.name, file = %kept.path.display(), "the backup of this run is there");
            let pruned = prune(&folder, attempt, (cluster.1, &kept), Unlock::Nothing);
            (kept, pruned)
        }
        None => {
            let unwritable = |error| format!("cannot write to {shown}: {error}");
            let partial = folder.partial().map_err(unwritable)?;
            let summary = assemble(member, attempt, partial.out(), &shown)?;
            attempt.ended.check()?;
            let path = folder.keep(partial, &summary);
            let path =
                path.map_err(|damage| format!("cannot complete the backup in {shown}: {damage}"))?;
            let kept = Kept { path, label: Label::of(&summary.header) };
            let pruned = prune(&folder, attempt, (cluster.1, &kept), summary.unlock());
            (kept, pruned)
        }
    };
    let file = kept.path.display();
    let pruned = pruned.map_err(|error| {
        format!("{file} is complete, and older backups cannot be removed: {error}")
    })?;
    for (path, reason) in &pruned.damaged {
        warn!(schedule = %attempt.name, file = %path.display(), %reason, "not restorable, not counted and not removed");
    }
    let bytes = kept.path.metadata().map_err(|error| format!("cannot read {file}: {error}"))?.len();
    let name = kept.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let Label { taken_at_ms, raft_index, .. } = kept.label;
    Ok(taken(member, (taken_at_ms, raft_index), bytes, name.unwrap_or_default()))
}

fn prune(
    folder: &Folder,
    attempt: &Attempt,
    (cluster_name, kept): (&str, &Kept),
    own: Unlock<'_>,
) -> std::io::Result<Pruned> {
    let rules = retention(attempt.schedule.keep);
    if !rules.has_rules() || attempt.ended.check().is_err() {
        return Ok(Pruned::default());
    }
    folder.prune_around(cluster_name, (kept, own), &rules, Unlock::Nothing)
}
