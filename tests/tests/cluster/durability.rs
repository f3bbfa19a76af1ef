//! Disk handling of the daemon: it syncs before it acknowledges, and refuses a data directory that
//! is damaged or foreign.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use jaco_testkit::{Cluster, Engine, Node, binary, eventually, v1};

use crate::scenario::{digest, jacod};

/// Writes that are traced.
const WRITES: usize = 40;

fn name(write: usize) -> String {
    format!("traced-write-{write:04}")
}

async fn issue(node: &Node, name: String) {
    let request = v1::IssueOperatorTokenRequest { name, ..Default::default() };
    node.client().issue_operator_token(request).await.expect("the node takes writes");
}

/// Between the write of an entry to the log's file and its acknowledgement, an `fdatasync` of that
/// file begins and completes. A missing sync survives every kill; only a trace or a power cut shows
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_was_synced_first() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    let node = &mut cluster.nodes[0];
    node.stop();
    let trace = node.folder().join("trace");
    node.start_under(&mut tracer(&trace));
    cluster.settled().await;
    let node = &mut cluster.nodes[0];
    for write in 0..WRITES {
        issue(node, name(write)).await;
    }
    let pid = node.pid();
    node.stop();
    // strace may write the daemon's exit a moment late.
    let end = format!("{pid} +++ exited with 0 +++");
    // strace pads short pids.
    let is_end = |line: &str| line.split_whitespace().eq(end.split_whitespace());
    let trace = eventually("the trace is complete", || async {
        let text = std::fs::read_to_string(&trace).map_err(|error| error.to_string())?;
        if text.lines().any(is_end) { Ok(text) } else { Err(text.len().to_string()) }
    })
    .await;

    let calls = calls(&trace);
    let unproven: Vec<_> = (0..WRITES).filter_map(|write| unsynced(&calls, &name(write))).collect();
    assert_eq!(unproven, Vec::<String>::new());

    // Control: without the syncs the same trace must not pass.
    let without: Vec<_> = calls.iter().filter(|call| call.name != "fdatasync").cloned().collect();
    for write in 0..WRITES {
        let found = unsynced(&without, &name(write)).expect("a missing barrier is noticed");
        assert!(found.contains("no fdatasync"), "{found}");
    }
}

/// strace beside the daemon: the daemon remains our child.
fn tracer(trace: &Path) -> Command {
    let there = Command::new("strace").arg("-V").output();
    assert!(
        there.is_ok_and(|out| out.status.success()),
        "strace is not there: `apt-get install strace`, or `cargo xtask test cluster` installs it"
    );
    let mut command = Command::new("strace");
    // Full buffers, so that a name is found anywhere in them.
    command.args(["-D", "-f", "-y", "-s", "1048576", "-e", "signal=none", "-e"]);
    command.arg("trace=pwrite64,pwritev,fdatasync,fsync,write,writev,sendto,sendmsg");
    command.arg("-o").arg(trace).arg(binary("jacod"));
    command
}

/// One system call; begin and end are line numbers of the trace.
#[derive(Debug, Clone)]
struct Call<'t> {
    name: &'t str,
    /// Path of its file descriptor.
    target: &'t str,
    arguments: &'t str,
    result: &'t str,
    begun: usize,
    ended: usize,
}

/// Parses a trace in the order of call begins. A call interrupted by another thread's line is
/// resumed on a later line.
fn calls(trace: &str) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    for (line_number, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let result = rest.rsplit_once(" = ").map_or("", |(_, result)| result);
        if rest.starts_with("<... ") {
            if let Some(at) = waiting.remove(thread) {
                calls[at].ended = line_number;
                calls[at].result = result;
            }
            continue;
        }
        let Some((name, arguments)) = rest.split_once('(') else { continue };
        let target = arguments.split_once('<').map_or("", |(_, target)| target);
        let target = target.split_once('>').map_or("", |(target, _)| target);
        let mut call =
            Call { name, target, arguments, result, begun: line_number, ended: line_number };
        if rest.ends_with("<unfinished ...>") {
            // Unfinished until its end is seen.
            (call.ended, call.result) = (usize::MAX, "");
            waiting.insert(thread, calls.len());
        }
        calls.push(call);
    }
    calls
}

/// Why the trace does not show that a write was durable before its acknowledgement.
fn unsynced(calls: &[Call<'_>], write: &str) -> Option<String> {
    let named = |call: &&Call<'_>| call.arguments.contains(write);
    // The journal is written first; what does not fit is in the file behind it.
    let on_log = |call: &&Call<'_>| {
        ["/raft/log/journal", "/raft/log/db"].iter().any(|file| call.target.ends_with(file))
    };
    let Some(stored) =
        calls.iter().filter(named).find(|call| call.name == "pwrite64" && on_log(call))
    else {
        return Some(format!("{write}: not written to the log"));
    };
    let is_answer = |call: &&Call<'_>| call.target.starts_with("socket:") && named(call);
    let Some(answer) = calls.iter().find(is_answer) else {
        return Some(format!("{write}: not acknowledged"));
    };
    let between = |call: &&Call<'_>| call.begun > stored.ended && call.ended < answer.begun;
    let mut syncs = calls.iter().filter(|call| call.name == "fdatasync" && call.result == "0");
    match syncs.find(|call| call.target == stored.target && between(call)) {
        Some(_) => None,
        None => Some(format!(
            "{write}: no fdatasync between its record, line {}, and its answer, line {}",
            stored.begun, answer.begun
        )),
    }
}

/// The parser is tested with made-up traces, valid and invalid.
#[test]
fn trace_without_a_sync_is_rejected() {
    const GOOD: &str = "\
7 pwrite64(9</d/raft/log/journal>, \"w-1\", 3, 0 <unfinished ...>
8 write(2</d/log>, \"w-1\", 3) = 3
7 <... pwrite64 resumed>) = 3
7 fdatasync(9</d/raft/log/journal> <unfinished ...>
8 fdatasync(4</d/raft/log/db>) = 0
7 <... fdatasync resumed>) = 0
8 writev(5<socket:[77]>, [{iov_base=\"w-1\", iov_len=3}], 1) = 3
";
    // The sync began before the record was written: it need not cover it.
    const EARLY: &str = "\
7 fdatasync(9</d/raft/log/journal> <unfinished ...>
8 pwrite64(9</d/raft/log/journal>, \"w-1\", 3, 0) = 3
7 <... fdatasync resumed>) = 0
8 writev(5<socket:[77]>, [{iov_base=\"w-1\", iov_len=3}], 1) = 3
";
    let check = |trace: &str, expected: Option<&str>| {
        let found = unsynced(&calls(trace), "w-1");
        let right = match (&found, expected) {
            (None, None) => true,
            (Some(found), Some(expected)) => found.contains(expected),
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert!(right, "{found:?}, not {expected:?}, for\n{trace}");
    };
    check(GOOD, None);
    let without = |part: &str| {
        let kept = GOOD.lines().filter(|line| !line.contains(part));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    check(&without("fdatasync"), Some("no fdatasync"));
    check(&without("fdatasync resumed"), Some("no fdatasync"));
    check(&without("writev"), Some("not acknowledged"));
    check(&without("pwrite64("), Some("not written"));
    check(&GOOD.replace("fdatasync resumed>) = 0", "fdatasync resumed>) = -1 EIO"), Some("no "));
    check(EARLY, Some("no fdatasync"));
}

/// A second daemon on a data directory is refused with the path, whatever its addresses, and the
/// first one is not affected; also without a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn second_daemon_on_a_data_directory_is_refused() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    cluster.add_daemon();
    for node in &cluster.nodes {
        eventually(&format!("{} answers", node.name), || async {
            let status = node.client().status(v1::ClusterStatusRequest {}).await;
            status.map(drop).map_err(|error| error.to_string())
        })
        .await;
        let elsewhere = std::fs::read_to_string(node.folder().join("jacod.yaml")).unwrap();
        let elsewhere = elsewhere.replace(":7000", ":7001").replace("/s\n", "/s2\n");
        let config = node.folder().join("second.yaml");
        std::fs::write(&config, elsewhere).unwrap();
        for config in [node.folder().join("jacod.yaml"), config] {
            let out = Command::new(binary("jacod")).arg("--config").arg(config).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{said}");
            assert!(said.contains("/data is in use by another jacod"), "{said}");
        }
        let status = node.client().status(v1::ClusterStatusRequest {}).await;
        status.expect("the first daemon kept its socket");
    }
}

/// `--digest` needs exclusive access, does not change the data, and is deterministic.
#[tokio::test(flavor = "multi_thread")]
async fn digest_requires_a_stopped_node_and_changes_nothing() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    issue(&cluster.nodes[0], name(0)).await;
    let busy = jacod(&cluster.nodes[0], &["--digest"]);
    let said = String::from_utf8_lossy(&busy.stderr);
    assert!(!busy.status.success() && said.contains("in use by another jacod"), "{said}");
    let index = cluster.overview(0).await.unwrap().raft_index;
    cluster.nodes[0].stop();
    let first = digest(&cluster.nodes[0]);
    let hash = first.strip_prefix(&format!("index {index} sha256 ")).expect("the state's index");
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    assert_eq!(digest(&cluster.nodes[0]), first);

    cluster.nodes[0].start();
    cluster.settled().await;
    issue(&cluster.nodes[0], name(1)).await;
    cluster.nodes[0].stop();
    assert_ne!(digest(&cluster.nodes[0]), first);

    let unborn = cluster.add_daemon();
    unborn.kill();
    let nothing = jacod(unborn, &["--digest"]);
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(!nothing.status.success() && said.contains("no data of a cluster"), "{said}");
}

/// A damaged or incomplete data directory is refused with a message that says why. Restored, it is
/// accepted: the refusal destroyed nothing.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_data_directory_is_refused() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    let node = &mut cluster.nodes[0];
    issue(node, name(0)).await;
    node.stop();
    let before = digest(node);
    let identity = node.folder().join("data/raft/identity");
    let whole = std::fs::read(&identity).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&identity, damaged).unwrap();
    refused(node, "identity file is damaged");
    std::fs::remove_file(&identity).unwrap();
    refused(node, "it is incomplete: run `jacod rejoin`");
    std::fs::write(&identity, &whole).unwrap();
    assert_eq!(digest(node), before);
    node.start();
    cluster.settled().await;
}

/// Neither the daemon nor a digest opens the directory, and both say why.
fn refused(node: &Node, why: &str) {
    for out in [jacod(node, &[]), jacod(node, &["--digest"])] {
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}
