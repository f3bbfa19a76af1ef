//! Snapshots that a node builds, and that it receives from its leader.

use std::path::Path;

use jaco_raft::testing::torture::{SnapshotScript, last_number};
use jaco_torture::{Torture, Verdict};

use super::{SHARE, own_folder, recorded, tell};

/// The other tests run this one as a process of its own. By itself it does the same in a folder that it drops.
#[test]
fn writer() {
    let held = tempfile::tempdir().unwrap();
    let dir = own_folder().unwrap_or_else(|| held.path().join("data"));
    SnapshotScript::run(&dir, 10, tell).unwrap();
}

pub(super) fn check(dir: &Path, marks: &[&str]) -> Result<Verdict, String> {
    let number = |word| last_number(marks, word).unwrap_or_default();
    SnapshotScript::check(dir, number("begin"), number("ack"))?;
    Ok(Verdict::Served)
}

/// R-FAULT-1: whatever a power cut leaves, the newest snapshot that was built or installed is there and readable.
#[test]
fn no_power_cut_loses_a_snapshot() {
    let recording = recorded("torture::snapshots::writer");
    let report = Torture::of_environment(SHARE).run(&recording, check);
    eprintln!("snapshots: {} steps, {report}", recording.steps.len());
    assert!(report.broken.is_empty() && report.refused.is_empty(), "{report}");
}
