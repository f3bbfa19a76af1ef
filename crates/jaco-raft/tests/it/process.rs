//! A node in a process of its own: what the kernel is asked before a write is acknowledged, and what
//! is left of it after `kill -9`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jaco_raft::testing::{Journal, Loopback};
use jaco_raft::{Options, Raft};

use crate::support::DEADLINE;

const DIR: &str = "JACO_RAFT_WRITER_DIR";
const COUNT: &str = "JACO_RAFT_WRITER_COUNT";

async fn open(dir: &Path) -> Raft<Journal> {
    let network = Loopback::default();
    let options = Options::new(1, "process", dir);
    let raft = Raft::open(options, Journal::default(), network.transport(1)).await.unwrap();
    network.attach(raft.clone());
    if !raft.status().is_initialized() {
        raft.initialize("n1").await.unwrap();
    }
    raft.wait_for(|status| status.is_leader(), DEADLINE).await.unwrap();
    raft.linearizable().await.unwrap();
    raft
}

fn texts(raft: &Raft<Journal>) -> Vec<String> {
    raft.with_state(|journal| {
        journal.records().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect()
    })
}

/// The other tests run this one as a process of its own. By itself it writes three entries.
#[tokio::test]
async fn writer() {
    let held = tempfile::tempdir().unwrap();
    let dir = std::env::var_os(DIR).map_or_else(|| held.path().to_owned(), PathBuf::from);
    let count = std::env::var(COUNT).map_or(3, |count| count.parse().unwrap());
    let raft = open(&dir).await;
    let before = texts(&raft).len();
    for n in before..before + count {
        let text = format!("write-{n}");
        raft.propose(text.clone().into()).await.unwrap();
        // One system call, so that a trace shows the moment of the promise.
        std::io::stdout().write_all(format!("ack {text}\n").as_bytes()).unwrap();
    }
    assert_eq!(texts(&raft).len(), before + count);
}

fn writer_command(mut command: Command, dir: &Path, count: usize) -> Command {
    command
        .args(["--exact", "process::writer", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn this_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Every acknowledged write is on stable storage first: between the last write to the journal and
/// the acknowledgement there is a completed fdatasync of that file. A missing barrier survives every
/// kill and every simulation; only a trace or a power cut shows it.
#[test]
fn no_write_is_acknowledged_before_it_is_synced() {
    let found = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    assert!(found.is_ok(), "this test needs strace: `apt-get install strace`");
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "64", "-e", "trace=write,pwrite64,fdatasync,fsync", "-o"]);
    strace.arg(&trace).arg(this_program());
    let output = writer_command(strace, &dir.path().join("data"), 50).output().unwrap();
    assert!(output.status.success(), "the traced writer failed");

    let trace = std::fs::read_to_string(&trace).unwrap();
    let order = Order::of(&trace);
    assert_eq!(order.acknowledged, 50, "every acknowledgement is in the trace");
    assert_eq!(order.unsynced, Vec::<String>::new());
    assert!(order.synced_writes >= 50, "every write reached the file: {}", order.synced_writes);
}

/// What a trace says about the order of writes, syncs and acknowledgements.
#[derive(Default)]
struct Order {
    acknowledged: usize,
    /// Syncs that had something to sync.
    synced_writes: usize,
    /// Acknowledgements made while written data was not synced.
    unsynced: Vec<String>,
}

impl Order {
    fn of(trace: &str) -> Self {
        let mut order = Self::default();
        let mut dirty = false;
        // A thread's call that is interrupted by another's line is finished on a later line.
        let mut syncing: Vec<&str> = Vec::new();
        for line in trace.lines() {
            let thread = line.split_whitespace().next().unwrap_or_default();
            let on_log = line.contains("/log/journal>");
            if line.contains("pwrite64(") && on_log {
                dirty = true;
            } else if line.contains("fdatasync(") && on_log {
                if line.contains("unfinished") {
                    syncing.push(thread);
                } else if line.ends_with("= 0") {
                    order.synced_writes += usize::from(std::mem::take(&mut dirty));
                }
            } else if line.contains("fdatasync resumed") && syncing.contains(&thread) {
                syncing.retain(|waiting| *waiting != thread);
                if line.ends_with("= 0") {
                    order.synced_writes += usize::from(std::mem::take(&mut dirty));
                }
            } else if line.contains("\"ack write-") {
                order.acknowledged += 1;
                if dirty {
                    order.unsynced.push(line.to_owned());
                }
            }
        }
        order
    }
}

#[test]
fn trace_parser_detects_a_missing_sync() {
    let good = "7 pwrite64(9</d/log/journal>, ...) = 8\n\
                7 fdatasync(9</d/log/journal> <unfinished ...>\n\
                8 write(2<pipe>, \"x\") = 1\n\
                7 <... fdatasync resumed>) = 0\n\
                8 write(1<pipe>, \"ack write-0\\n\", 12) = 12\n";
    let order = Order::of(good);
    assert_eq!((order.acknowledged, order.synced_writes, order.unsynced.len()), (1, 1, 0));
    let without: String = good
        .lines()
        .filter(|line| !line.contains("sync"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(Order::of(&without).unsynced.len(), 1);
    let failed = good.replace("resumed>) = 0", "resumed>) = -1 EIO");
    assert_eq!(Order::of(&failed).unsynced.len(), 1);
}

/// A process that is killed at any moment leaves every acknowledged write behind, in order.
#[test]
fn killed_process_loses_no_acknowledged_write() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut acknowledged = 0;
    for round in 0..8 {
        let child = writer_command(Command::new(this_program()), &data, 1_000_000).spawn().unwrap();
        acknowledged += kill_after(child, 20 + 37 * round);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let found = runtime.block_on(async {
        let raft = open(&data).await;
        let found = texts(&raft);
        raft.shutdown().await.unwrap();
        found
    });
    let expected: Vec<String> = (0..found.len()).map(|n| format!("write-{n}")).collect();
    assert_eq!(found, expected);
    assert!(acknowledged > 100, "the rounds got somewhere: {acknowledged}");
    assert!(found.len() >= acknowledged, "{} of {acknowledged}", found.len());
}

/// Kills `child` when it has acknowledged `writes`; returns how many it had acknowledged.
fn kill_after(mut child: Child, writes: usize) -> usize {
    let mut seen = 0;
    let output = BufReader::new(child.stdout.take().unwrap());
    for line in output.lines() {
        let Ok(line) = line else { break };
        // What the dying process still had in the pipe counts as well.
        seen += usize::from(line.contains("ack write-"));
        if seen == writes {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    seen
}
