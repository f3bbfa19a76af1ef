//! One attempt to an object store: the file is written here and read as a restore reads it, then stored, read back and compared,
//! and only then older ones are removed. Objects of a cluster are in a folder with its id, so their names are enough to count
//! them. A backup of this run that another leader has stored is taken for it, once it was read.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use jaco_backup::{Backup, ListedBackups, Summary, backup_name};
use jaco_s3::{Digest, Limits, ObjectStore, Roots};
use jaco_server::Member;
use jaco_server::backups::{open_access_key, place_of};
use jaco_state::ClusterMeta;
use jaco_state::backup::{BackupBucket, BackupTaken};
use tracing::{info, warn};

use super::assembled::{assemble, taken};
use super::{Attempt, retention};

/// A file that is not stored yet, without a name.
struct Spooled {
    file: File,
    summary: Summary,
    digest: Digest,
}

/// Takes a backup.
///
/// # Errors
/// A sentence that says why there is none, or older ones stay.
pub(super) async fn take(
    member: &Arc<Member>,
    attempt: Attempt,
    bucket: &BackupBucket,
    spool: &Path,
) -> Result<BackupTaken, String> {
    let meta = member.store.read(|state| state.meta.clone()).ok_or("there is no cluster")?;
    let store = store(member, &attempt, bucket, &meta).await?;
    let listed = store.list().await.map_err(|error| error.to_string())?;
    let there = ListedBackups::new(&meta.name, listed.into_iter().map(|object| object.name));
    let taken = match stored_before(member, &attempt, &store, &there).await? {
        Some(taken) => taken,
        None => put(member, &attempt, &store, spool).await?,
    };
    remove(&attempt, &store, &meta.name, &taken).await?;
    Ok(taken)
}

/// Opened for this attempt alone: the key may be another one by the next.
async fn store(
    member: &Arc<Member>,
    attempt: &Attempt,
    bucket: &BackupBucket,
    meta: &ClusterMeta,
) -> Result<ObjectStore, String> {
    let sealed = attempt.schedule.credentials.as_ref().ok_or("the schedule has no key")?;
    let key = open_access_key(member.cluster_key.ring(), &meta.id, &attempt.name, sealed);
    let key =
        key.map_err(|error| format!("the key at the object store cannot be opened: {error}"))?;
    let place = place_of(bucket).map_err(|error| error.to_string())?.folder(meta.id.as_str());
    // Reads files of the machine.
    let made = move || ObjectStore::new(place, &key, Roots::System, Limits::default());
    let made = tokio::task::spawn_blocking(made);
    made.await.map_err(|error| format!("the attempt broke off: {error}"))
}

/// A backup of this run, if there is one that is what its writer says.
async fn stored_before(
    member: &Member,
    attempt: &Attempt,
    store: &ObjectStore,
    there: &ListedBackups,
) -> Result<Option<BackupTaken>, String> {
    let Some((name, label)) = there.since(attempt.run.0) else { return Ok(None) };
    let (read, said) = store.read(name).await.map_err(|error| error.to_string())?;
    if said.as_ref() != Some(&read.sha256) {
        warn!(schedule = %attempt.name, object = name, "not what its writer says, another one is stored");
        return Ok(None);
    }
    info!(schedule = %attempt.name, object = name, "the backup of this run is there");
    let at = (label.taken_at_ms, label.raft_index);
    Ok(Some(taken(member, at, read.length, name.to_owned())))
}

/// Writes a backup, and reads it back.
async fn put(
    member: &Arc<Member>,
    attempt: &Attempt,
    store: &ObjectStore,
    spool: &Path,
) -> Result<BackupTaken, String> {
    let (with, of, spool) = (Arc::clone(member), attempt.clone(), spool.to_owned());
    let spooled = tokio::task::spawn_blocking(move || write(&with, &of, &spool)).await;
    let spooled = spooled.unwrap_or_else(|error| Err(format!("the attempt broke off: {error}")))?;
    let Spooled { file, summary, digest } = spooled;
    let name = backup_name(&summary).ok_or("it was taken at no time that has a date")?;
    store.put(&name, &file, &digest).await.map_err(|error| error.to_string())?;
    let (read, _) = store.read(&name).await.map_err(|error| error.to_string())?;
    if read != digest {
        // What is no backup must not count as one.
        let removed = store.remove(&name).await;
        let left = removed.err().map(|error| format!(", and cannot be removed: {error}"));
        return Err(format!(
            "what was stored as {name} came back as something else ({} bytes of {}){}",
            read.length,
            digest.length,
            left.unwrap_or_default()
        ));
    }
    let at = (summary.header.taken_at_ms, summary.header.raft_index);
    Ok(taken(member, at, digest.length, name))
}

/// Writes the file and reads it as a restore does. It is gone with its last handle.
fn write(member: &Member, attempt: &Attempt, spool: &Path) -> Result<Spooled, String> {
    let shown = spool.display().to_string();
    let unwritable = |error| format!("cannot write to {shown}: {error}");
    let file = tempfile::tempfile_in(spool).map_err(unwritable)?;
    let summary = assemble(member, attempt, BufWriter::new(&file), &shown)?;
    let again = file.try_clone().map_err(unwritable)?;
    Backup::unlock(again, summary.unlock())
        .map_err(|damage| format!("what was written to {shown} cannot be restored: {damage}"))?;
    let digest = Digest::of(&file).map_err(unwritable)?;
    Ok(Spooled { file, summary, digest })
}

/// Removes what the retention does not keep.
async fn remove(
    attempt: &Attempt,
    store: &ObjectStore,
    cluster_name: &str,
    newest: &BackupTaken,
) -> Result<(), String> {
    let rules = retention(attempt.schedule.keep);
    if !rules.has_rules() {
        return Ok(());
    }
    let not_removed = |error| {
        format!("{} is complete, and older backups cannot be removed: {error}", newest.name)
    };
    let listed = store.list().await.map_err(not_removed)?;
    let listed = ListedBackups::new(cluster_name, listed.into_iter().map(|object| object.name));
    for name in listed.superseded(&newest.name, &rules) {
        store.remove(name).await.map_err(not_removed)?;
        info!(schedule = %attempt.name, object = name, "backup removed, which the retention does not keep");
    }
    Ok(())
}
