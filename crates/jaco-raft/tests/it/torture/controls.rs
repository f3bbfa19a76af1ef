//! Programs with a bug: the images of what they would have done have to show it.

use std::collections::BTreeSet;

use jaco_torture::{Report, Step, StepKind, Torture};

use super::{log, recorded, snapshots};

/// Within so many images each bug has to be found.
const WITHIN: usize = 400;

fn until_broken() -> Torture {
    Torture { images: WITHIN, until_broken: true, ..Torture::of_environment(WITHIN) }
}

fn assert_found(bug: &str, report: &Report) {
    eprintln!("{bug}: found after {:?} images: {:?}", report.first_broken, report.broken.first());
    assert!(report.first_broken.is_some(), "{bug} was not found: {report}");
}

fn is_sync_of(step: &Step, inodes: &BTreeSet<usize>) -> bool {
    matches!(&step.kind, StepKind::Sync { inode } if inodes.contains(inode))
}

/// R-FAULT-1: without the sync of the journal, or with an acknowledgement before it, acknowledged records are lost.
#[test]
fn a_log_without_its_sync_is_found() {
    let recording = recorded("torture::log::writer");
    let journal = recording.named(|name| name == "journal");
    let unsynced = recording.with_steps(|mut steps| {
        steps.retain(|step| !is_sync_of(step, &journal));
        steps
    });
    assert_found("no sync of the journal", &until_broken().run(&unsynced, log::check));

    let data = recording.named(|name| name == "db");
    let unsynced = recording.with_steps(|mut steps| {
        steps.retain(|step| !is_sync_of(step, &data));
        steps
    });
    assert_found("no sync of sled", &until_broken().run(&unsynced, log::check));

    let early = recording.with_steps(|mut steps| {
        // Each acknowledgement right after the begin of its turn.
        for at in 1..steps.len() {
            if matches!(&steps[at].kind, StepKind::Mark(text) if text.starts_with("ack ")) {
                let begun = steps[..at].iter().rposition(
                    |step| matches!(&step.kind, StepKind::Mark(text) if text.starts_with("begin ")),
                );
                steps[begun.unwrap() + 1..=at].rotate_right(1);
            }
        }
        steps
    });
    assert_found("acknowledged before the commit", &until_broken().run(&early, log::check));
}

/// R-FAULT-1: a snapshot that gets its name before it is synced, or whose folder is not synced.
#[test]
fn a_snapshot_without_its_syncs_is_found() {
    let recording = recorded("torture::snapshots::writer");
    let files = recording.named(|name| name.ends_with(".snap"));
    let unsynced = recording.with_steps(|mut steps| {
        steps.retain(|step| !is_sync_of(step, &files));
        steps
    });
    assert_found("renamed before the sync", &until_broken().run(&unsynced, snapshots::check));
    let folder = recording.named(|name| name == "snapshots");
    let unsynced = recording.with_steps(|mut steps| {
        steps.retain(|step| !is_sync_of(step, &folder));
        steps
    });
    assert_found("folder not synced", &until_broken().run(&unsynced, snapshots::check));
}
