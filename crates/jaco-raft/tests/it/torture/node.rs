//! A whole node: identity, log and snapshots together, over several starts; and one that is made the only member.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use jaco_raft::testing::{Journal, Loopback};
use jaco_raft::{Offline, OpenError, Options, Raft, SnapshotLimits, Status};
use jaco_torture::{Recording, Torture, Verdict};
use tokio::runtime::Runtime;

use super::{SHARE, empty_root, own_folder, recorded, run_traced, tell};
use crate::support::{Cluster, DEADLINE};

/// Writes between two starts, and how often the node starts.
const WRITES: usize = 14;
const STARTS: usize = 3;

/// As a daemon opens it: what it knows of the log from before is kept outside of the folder.
fn options(dir: &Path, log: Option<&str>, starts: u64) -> Options {
    let snapshots =
        SnapshotLimits { entries_between: 6, entries_kept: 2, ..SnapshotLimits::default() };
    let (expected_log, expected_starts) = (log.map(str::to_owned), starts);
    Options { snapshots, expected_log, expected_starts, ..Options::new(1, "torture", dir) }
}

async fn write(dir: &Path) {
    let mut opened: Option<(String, u64)> = None;
    for start in 0..STARTS {
        let network = Loopback::default();
        let (log, starts) = opened.clone().unzip();
        let options = options(dir, log.as_deref(), starts.unwrap_or_default());
        let raft = Raft::open(options, Journal::default(), network.transport(1)).await.unwrap();
        network.attach(raft.clone());
        tell(&format!("opened {} {}", raft.log_id(), raft.starts()));
        opened = Some((raft.log_id().to_owned(), raft.starts()));
        if start == 0 {
            raft.initialize("n1").await.unwrap();
        }
        raft.wait_for(Status::is_leader, DEADLINE).await.unwrap();
        raft.linearizable().await.unwrap();
        tell(&format!("leads {}", raft.status().term));
        for number in start * WRITES..(start + 1) * WRITES {
            tell(&format!("begin {number}"));
            raft.propose(text(number)).await.unwrap();
            tell(&format!("ack {number}"));
        }
        raft.shutdown().await.unwrap();
        network.detach(1);
    }
}

fn text(number: usize) -> Bytes {
    format!("write-{number}").into()
}

/// The other tests run this one as a process of its own. By itself it does the same in a folder that it drops.
#[test]
fn writer() {
    let held = tempfile::tempdir().unwrap();
    let dir = own_folder().unwrap_or_else(|| held.path().to_owned());
    Runtime::new().unwrap().block_on(write(&dir.join("raft")));
}

/// The words after the last mark that begins with `word`.
fn last<'m>(marks: &[&'m str], word: &str) -> Option<&'m str> {
    marks.iter().filter_map(|mark| mark.strip_prefix(word)?.strip_prefix(' ')).next_back()
}

fn count(marks: &[&str], word: &str) -> usize {
    last(marks, word).map_or(0, |number| number.parse::<usize>().unwrap() + 1)
}

/// Opens a node, and compares what it holds with what was acknowledged.
pub(super) fn check(runtime: &Runtime, dir: &Path, marks: &[&str]) -> Result<Verdict, String> {
    let opened = last(marks, "opened").and_then(|opened| opened.split_once(' '));
    let (log, starts) = opened.unzip();
    let starts = starts.map_or(0, |starts| starts.parse().unwrap());
    let options = options(&dir.join("raft"), log, starts);
    runtime.block_on(async {
        let node = match Offline::open(options, Journal::default()).await {
            Ok(node) => node,
            Err(error) => return Ok(Verdict::Refused(reason(&error))),
        };
        let found = writes(&node).await?;
        let term = node.status().term;
        node.close().await.map_err(|error| error.to_string())?;
        let wanted: Vec<Bytes> = (0..found.len()).map(text).collect();
        if found != wanted {
            return Err(format!("other writes than were made: {found:?}"));
        }
        let (begun, acknowledged) = (count(marks, "begin"), count(marks, "ack"));
        if found.len() < acknowledged || found.len() > begun {
            return Err(format!("{} writes, {acknowledged} were acknowledged", found.len()));
        }
        let led: u64 = last(marks, "leads").map_or(0, |term| term.parse().unwrap());
        if term < led {
            return Err(format!("term {term}, it led in {led}"));
        }
        Ok(Verdict::Served)
    })
}

/// The whole chain of causes.
fn reason(error: &OpenError) -> String {
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    reason
}

/// All commands, applied or not.
async fn writes(node: &Offline<Journal>) -> Result<Vec<Bytes>, String> {
    let applied = |journal: &Journal| journal.records().map(|(_, write)| write.clone()).collect();
    let mut found: Vec<Bytes> = node.with_state(applied);
    found.extend(node.unconfirmed().await.map_err(|error| error.to_string())?.into_values());
    Ok(found)
}

/// R-FAULT-1: whatever a power cut leaves of a node, from its first start on, it opens, holds every acknowledged write,
/// and its term has not gone back.
#[test]
fn no_power_cut_loses_what_a_node_acknowledged() {
    let recording = recorded("torture::node::writer");
    let runtime = Runtime::new().unwrap();
    let report =
        Torture::of_environment(SHARE).run(&recording, |dir, marks| check(&runtime, dir, marks));
    eprintln!("node: {} steps, {report}", recording.steps.len());
    assert!(report.broken.is_empty() && report.refused.is_empty(), "{report}");
}

/// Writes that the three of the lost cluster agreed on.
const AGREED: usize = 20;

fn survivor(dir: PathBuf) -> Options {
    Options::new(2, "test", dir)
}

/// Makes node 2 the only member.
async fn recover(dir: PathBuf) -> Result<(), String> {
    let node = Offline::open(survivor(dir), Journal::default()).await;
    let node = node.map_err(|error| reason(&error))?;
    let commands = vec![Bytes::from_static(b"removed")];
    node.recover("n2", commands).await.map_err(|error| reason(&error))?;
    Ok(())
}

/// The other test runs this one as a process of its own, on the folder of a stopped member.
#[test]
fn recoverer() {
    let Some(dir) = own_folder() else { return };
    Runtime::new().unwrap().block_on(recover(dir.join("raft"))).unwrap();
    tell("ack 0");
}

/// What a recovery of a stopped member of three does.
fn recorded_recovery() -> Recording {
    let (_held, root) = empty_root();
    Runtime::new().unwrap().block_on(async {
        let mut cluster = Cluster::of_three().await;
        cluster.write_everywhere((0..AGREED).map(|number| format!("write-{number}"))).await;
        for id in 1..=3 {
            cluster.stop(id).await;
        }
        let stopped = jaco_torture::Folder::read(&cluster.options(2).dir).unwrap();
        stopped.write(&root.join("raft")).unwrap();
    });
    let traced = run_traced("torture::node::recoverer", &root, None);
    assert!(traced.output.status.success(), "{:?}", traced.output);
    traced.recording
}

fn check_recovery(runtime: &Runtime, dir: &Path, marks: &[&str]) -> Result<Verdict, String> {
    let dir = dir.join("raft");
    let wanted: Vec<Bytes> = (0..AGREED).map(text).collect();
    runtime.block_on(async {
        let look = async || -> Result<Result<bool, String>, String> {
            let node = match Offline::open(survivor(dir.clone()), Journal::default()).await {
                Ok(node) => node,
                Err(error) => return Ok(Err(reason(&error))),
            };
            let found = writes(&node).await?;
            // The membership counts as soon as it is in the log.
            let alone = found.contains(&Bytes::from_static(b"removed"));
            let voters = node.status().voters;
            node.close().await.map_err(|error| error.to_string())?;
            if found.len() < wanted.len() || found[..wanted.len()] != wanted {
                return Err(format!("other writes than were made: {found:?}"));
            }
            if voters == BTreeSet::from([2]) && !alone {
                return Err("it is alone, and what it has to know then is lost".to_owned());
            }
            Ok(Ok(alone))
        };
        let alone = match look().await? {
            Ok(alone) => alone,
            Err(refused) => return Ok(Verdict::Refused(refused)),
        };
        if !alone && marks.contains(&"ack 0") {
            return Err("it was recovered, and is not".to_owned());
        }
        // It can be run again.
        recover(dir.clone()).await?;
        match look().await? {
            Ok(true) => Ok(Verdict::Served),
            other => Err(format!("after another recovery: {other:?}")),
        }
    })
}

/// R-FAULT-1, R-FAULT-2: whatever a power cut leaves of a recovery, every write is there, and it can be run again.
#[test]
fn no_power_cut_spoils_a_recovery() {
    let recording = recorded_recovery();
    let runtime = Runtime::new().unwrap();
    let report = Torture::of_environment(SHARE)
        .run(&recording, |dir, marks| check_recovery(&runtime, dir, marks));
    eprintln!("recovery: {} steps, {report}", recording.steps.len());
    assert!(report.broken.is_empty() && report.refused.is_empty(), "{report}");
}
