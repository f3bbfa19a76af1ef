//! Power cuts while the archive of audit events is written: what a node has put away before it cuts its log is there.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jaco_proto::storage::write_snapshot;
use jaco_raft::StateMachine as _;
use jaco_server::ClusterMachine;
use jaco_torture::{StepKind, Torture, Verdict, trace};

use crate::archive::{BLOCK, FULL, SMALL, apply, machine, verify, verify_now};

/// The folder that a process of its own writes to.
const FOLDER: &str = "JACO_TORTURE_FOLDER";

/// Blocks that are put away, each durable before it is told.
const BLOCKS: u64 = 6;
const LAST: u64 = FULL + BLOCKS * BLOCK + 1;

/// The last entry that is applied before block `block` is told.
fn end_of(block: u64) -> u64 {
    FULL + block * BLOCK + 1
}

fn tell(mark: &str) {
    std::io::stdout().write_all(format!("{mark}\n").as_bytes()).unwrap();
}

/// The other test runs this one as a process of its own. By itself it does the same in a folder that it drops.
#[test]
fn writer() {
    let held = tempfile::tempdir().unwrap();
    let folder = std::env::var_os(FOLDER).map_or_else(|| held.path().to_owned(), PathBuf::from);
    let mut node = machine(&folder.join("audit"), SMALL);
    apply(&mut node, 1..=FULL);
    for block in 0..=BLOCKS {
        let from = if block == 0 { FULL + 1 } else { end_of(block - 1) + 1 };
        apply(&mut node, from..=end_of(block));
        // As before a snapshot after which the log is cut.
        node.archived().unwrap().wait();
        tell(&format!("ack {block}"));
    }
}

/// The state after each block, as a snapshot.
fn snapshots() -> Vec<Vec<u8>> {
    let mut node = ClusterMachine::default();
    apply(&mut node, 1..=FULL);
    let mut from = FULL + 1;
    let blocks = (0..=BLOCKS).map(|block| {
        apply(&mut node, from..=end_of(block));
        from = end_of(block) + 1;
        let mut snapshot = Vec::new();
        write_snapshot(node.state(), &mut snapshot).unwrap();
        snapshot
    });
    blocks.collect()
}

/// Starts from the newest snapshot that was taken, or from nothing, and applies the log that is left.
fn check(folder: &Path, marks: &[&str], snapshots: &[Vec<u8>]) -> Result<Verdict, String> {
    let folder = folder.join("audit");
    let told =
        marks.iter().filter_map(|mark| mark.strip_prefix("ack ")?.parse::<u64>().ok()).next_back();
    let mut node = machine(&folder, SMALL);
    let mut next = 1;
    if let Some(block) = told {
        let snapshot = &snapshots[usize::try_from(block).unwrap()];
        node.restore(&mut snapshot.as_slice()).map_err(|error| error.to_string())?;
        next = end_of(block) + 1;
        verify_now(&folder, &node).map_err(|error| format!("after {told:?}: {error:?}"))?;
    }
    apply(&mut node, next..=LAST);
    let verified = verify(&folder, &node).map_err(|error| format!("after {told:?}: {error:?}"))?;
    let kept = u64::try_from(node.state().audit.events.len()).unwrap();
    if !verified.complete || verified.events + kept != LAST {
        return Err(format!("after {told:?}: {verified:?} and {kept} of {LAST}"));
    }
    Ok(Verdict::Served)
}

/// R-FAULT-1, R-CLI-5: whatever a power cut leaves of the archive, every event that the log does not give again is there
/// once, and the chain holds; without the syncs of its files some are lost.
#[test]
fn no_power_cut_loses_what_is_archived() {
    let held = tempfile::tempdir().unwrap();
    let root = held.path().join("data");
    std::fs::create_dir(&root).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "torture::writer", "--nocapture"]).env(FOLDER, &root);
    let traced = trace(&program, &root, None).unwrap();
    assert!(traced.output.status.success(), "{:?}", traced.output);
    let (recording, snapshots) = (traced.recording, snapshots());
    let report = Torture::of_environment(40)
        .run(&recording, |folder, marks| check(folder, marks, &snapshots));
    eprintln!("archive: {} steps, {report}", recording.steps.len());
    assert!(report.broken.is_empty() && report.refused.is_empty(), "{report}");

    let files = recording.named(|name| name.ends_with(".ndjson"));
    let unsynced = recording.with_steps(|mut steps| {
        steps.retain(
            |step| !matches!(step.kind, StepKind::Sync { inode } if files.contains(&inode)),
        );
        steps
    });
    let torture = Torture { images: 200, until_broken: true, ..Torture::of_environment(200) };
    let control = torture.run(&unsynced, |folder, marks| check(folder, marks, &snapshots));
    eprintln!("archive without syncs: {control}");
    assert!(control.first_broken.is_some(), "{control}");
}
