//! What a node answers from after a restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use jaco_state::audit::AuditKind;
use jaco_state::command::AuditNote;
use jaco_types::{Author, ErrorCode, Identity};
use tempfile::TempDir;

use crate::node::open;

/// Far more than the patience of a reader, so that a reader who waits again is told from a slow machine.
const LIMIT: Duration = Duration::from_secs(30);

/// What lies on the disk at this moment, as a power cut would leave it.
fn after_a_power_cut(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&folder.join("raft"), &copy.path().join("raft"));
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, name) = (entry.as_ref().unwrap().path(), entry.as_ref().unwrap().file_name());
        if entry.is_dir() {
            copy_folder(&entry, &to.join(name));
        } else {
            std::fs::copy(&entry, to.join(name)).unwrap();
        }
    }
}

/// A reader after a power cut sees everything that was acknowledged before it. The node itself does not
/// know at first how much of its log was agreed on: only a stop in good order notes that.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_answers_from_all_that_was_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    let before = open(folder.path()).await;
    before.store.raft().initialize("127.0.0.1:1".to_owned()).await.unwrap();
    let mut acknowledged = 0;
    for _ in 0..20 {
        let payload = BTreeMap::default();
        let note = AuditNote::new(AuditKind::AccessRefused, payload).into();
        let nobody = Author { by: Identity::Anonymous, origin: None };
        acknowledged = before.commit(nobody, "", note).await.unwrap().index.0;
    }
    let copy = after_a_power_cut(folder.path());
    let member = open(copy.path()).await;
    member.caught_up().await.unwrap();
    let index = member.store.read(|state| state.index.0);
    assert!(index >= acknowledged, "{index} of {acknowledged}");
    for node in [before, member] {
        node.store.raft().shutdown().await.unwrap();
    }
}

/// R-CLI-10: a node that cannot learn what is committed answers nothing. The first readers wait together, later
/// ones are refused at once.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_readers_are_refused_after_one_wait() {
    let folder = tempfile::tempdir().unwrap();
    // It is in no cluster yet, so nobody can tell it anything.
    let member = open(folder.path()).await;
    let begun = Instant::now();
    let readers = futures::future::join_all((0..20).map(|_| member.caught_up()));
    let refused = tokio::time::timeout(LIMIT, readers).await.expect("readers do not wait in turns");
    assert!(begun.elapsed() >= Duration::from_secs(1), "they did not wait: {:?}", begun.elapsed());
    let again = futures::future::join_all((0..1000).map(|_| member.caught_up()));
    let again = tokio::time::timeout(LIMIT, again).await.expect("later readers do not wait");
    for answer in refused.into_iter().chain(again) {
        assert_eq!(answer.unwrap_err().code, ErrorCode::NotCaughtUp);
    }
    member.store.raft().shutdown().await.unwrap();
}
