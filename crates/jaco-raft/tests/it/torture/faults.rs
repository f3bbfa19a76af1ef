//! Calls that fail: a full disk, a broken one, and a sync that fails once, after which Linux takes the bytes for
//! written.

use std::collections::BTreeMap;
use std::path::Path;

use jaco_torture::{Draw, Fault, StepKind, Torture, Traced, Verdict};
use tokio::runtime::Runtime;

use super::{empty_root, log, node, run_traced};

/// Calls that change what is on the disk; each kind fails by itself, at its nth call in a thread.
const KINDS: [(&str, &str, bool); 8] = [
    ("pwrite64", "ENOSPC", true),
    ("pwrite64", "EIO", false),
    ("fdatasync", "EIO", false),
    ("fsync", "EIO", false),
    ("sync_file_range", "EIO", false),
    ("ftruncate", "EIO", false),
    ("rename", "EIO", false),
    ("openat", "EIO", false),
];

/// Runs of each kind in an ordinary run; `JACO_TORTURE_CALLS` is another number, and enough of them reach every call.
const SHARE: usize = 3;

fn calls() -> usize {
    std::env::var("JACO_TORTURE_CALLS").map_or(SHARE, |calls| calls.parse().unwrap())
}

/// The marks in what a process printed.
fn marks(traced: &Traced) -> Vec<String> {
    String::from_utf8_lossy(&traced.output.stdout).lines().map(str::to_owned).collect()
}

/// What came of the runs in which a call failed.
#[derive(Debug, Default)]
struct Runs {
    runs: usize,
    /// In which the process did not end by itself as if nothing had happened.
    ended: usize,
    images: usize,
    broken: Vec<String>,
    refused: BTreeMap<String, usize>,
}

/// Lets each call of `writer` fail, one a run, and opens what is left: what the process left in the files, and what a
/// power cut then leaves of it.
fn run(writer: &str, mut check: impl FnMut(&Path, &[&str]) -> Result<Verdict, String>) -> Runs {
    let mut runs = Runs::default();
    let limit = calls();
    for (calls, error, lasting) in KINDS {
        // With few runs they are spread over all of a process.
        let stride = if limit <= SHARE { 7 } else { 1 };
        for nth in (0..limit).map(|run| 1 + run * stride) {
            let fault = Fault { calls, error, nth, lasting };
            let (_held, root) = empty_root();
            let traced = run_traced(writer, &root, Some(&fault));
            if traced.injected == 0 {
                break;
            }
            runs.runs += 1;
            runs.ended += usize::from(!traced.output.status.success());
            let told = marks(&traced);
            let told: Vec<&str> = told.iter().map(String::as_str).collect();
            let mut note = |found: Result<Verdict, String>| match found {
                Ok(Verdict::Served) => {}
                Ok(Verdict::Refused(reason)) => *runs.refused.entry(reason).or_default() += 1,
                Err(broken) => runs.broken.push(format!("{fault:?}: {broken}")),
            };
            note(check(&root, &told));
            // After the end, and after each failed sync and acknowledgement.
            let torture = Torture { images: 12, ..Torture::of_environment(12) };
            let report = torture.run(&traced.recording, &mut check);
            runs.images += report.images;
            runs.broken.extend(report.broken.iter().map(|broken| format!("{fault:?}: {broken}")));
            for (reason, count) in report.refused {
                *runs.refused.entry(reason).or_default() += count;
            }
        }
    }
    runs
}

/// R-FAULT-1: whichever call of the log fails, nothing that it acknowledged is lost, also if the power is cut then.
#[test]
fn no_failed_call_loses_what_the_log_acknowledged() {
    let runs = run("torture::log::writer", log::check);
    eprintln!("log: {runs:#?}");
    assert!(runs.broken.is_empty(), "{:#?}", runs.broken);
    assert!(runs.ended > 0, "{runs:#?}");
}

/// R-FAULT-1: the same of a whole node, which stops and says why.
#[test]
fn no_failed_call_loses_what_a_node_acknowledged() {
    let runtime = Runtime::new().unwrap();
    let runs = run("torture::node::writer", |dir, marks| node::check(&runtime, dir, marks));
    eprintln!("node: {runs:#?}");
    assert!(runs.broken.is_empty(), "{:#?}", runs.broken);
    assert!(runs.ended > 0, "{runs:#?}");
}

/// R-FAULT-1: a sync of the journal that fails once and succeeds when tried again has written nothing: the log that
/// would go on loses what it acknowledges.
#[test]
fn a_failed_sync_that_is_forgotten_is_found() {
    let recording = super::recorded("torture::log::writer");
    let journal = recording.named(|name| name == "journal");
    let forgetful = recording.with_steps(|mut steps| {
        let syncs = steps.iter_mut().filter_map(|step| {
            if let StepKind::Sync { inode } = step.kind
                && journal.contains(&inode)
            {
                return Some((inode, step));
            }
            None
        });
        for (inode, step) in syncs.skip(20).step_by(7) {
            step.kind = StepKind::SyncFailed { inode };
        }
        steps
    });
    let torture = Torture { images: 400, until_broken: true, ..Torture::of_environment(400) };
    let report = torture.run(&forgetful, log::check);
    eprintln!("a failed sync is forgotten: {report}");
    assert!(report.first_broken.is_some(), "{report}");
    let all = forgetful.image(forgetful.steps.len(), Draw::Everything);
    assert_eq!(all, recording.image(recording.steps.len(), Draw::Everything));
}
