//! The log: journal, sled, and the record of its extent.

use std::path::Path;
use std::sync::LazyLock;

use jaco_raft::testing::torture::{LogScript, last_number};
use jaco_torture::{Torture, Verdict};

use super::{SHARE, own_folder, recorded, tell};

/// Turns of the recorded process.
const TURNS: usize = 90;

static SCRIPT: LazyLock<LogScript> = LazyLock::new(|| LogScript::new(7, TURNS));

/// The other tests run this one as a process of its own. By itself it does the same in a folder that it drops.
#[test]
fn writer() {
    let held = tempfile::tempdir().unwrap();
    let dir = own_folder().unwrap_or_else(|| held.path().to_owned());
    SCRIPT.run(&dir, tell).unwrap();
}

pub(super) fn check(dir: &Path, marks: &[&str]) -> Result<Verdict, String> {
    let number = |word| last_number(marks, word).map_or(0, |turn| turn + 1);
    let number = |word| usize::try_from(number(word)).unwrap();
    match SCRIPT.check(dir, number("begin"), number("ack"))? {
        Ok(()) => Ok(Verdict::Served),
        Err(error) => Ok(Verdict::Refused(error.to_string())),
    }
}

/// R-FAULT-1: whatever a power cut leaves of what was not synced, the log opens, holds every acknowledged record and
/// vote, and takes writes.
#[test]
fn no_power_cut_loses_what_the_log_acknowledged() {
    let recording = recorded("torture::log::writer");
    let report = Torture::of_environment(SHARE).run(&recording, check);
    eprintln!("log: {} steps, {report}", recording.steps.len());
    assert!(report.broken.is_empty() && report.refused.is_empty(), "{report}");
}
