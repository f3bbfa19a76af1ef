//! Daemon processes: started in their own process group, and stopped by their pid if it still is theirs.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::record::NodeRecord;

/// Time for a daemon to stop by itself before it is killed.
pub const GRACE: Duration = Duration::from_secs(10);

/// The interval in which a wait checks its condition.
pub const POLL: Duration = Duration::from_millis(50);

/// The daemon's program: the one given, else the one beside this program, else the one in `PATH`.
#[must_use]
pub fn program(given: Option<&Path>) -> PathBuf {
    let beside = || {
        let beside = std::env::current_exe().ok()?.with_file_name("jacod");
        beside.is_file().then_some(beside)
    };
    given.map(Path::to_owned).or_else(beside).unwrap_or_else(|| PathBuf::from("jacod"))
}

/// Starts the daemon of a node and records its pid; its output goes to its log. It outlives this process
/// and does not receive its Ctrl-C.
///
/// # Errors
/// If it cannot be started.
pub fn start(program: &Path, node: &mut NodeRecord) -> io::Result<()> {
    let log = File::options().create(true).append(true).open(&node.log)?;
    let mut child = Command::new(program)
        .arg("--config")
        .arg(&node.config)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    node.pid = Some(child.id());
    // A new process has no command line for a moment, and `is_running` identifies it by that.
    while !is_running(node) && child.try_wait()?.is_none() {
        std::thread::yield_now();
    }
    Ok(())
}

/// Whether the daemon of a node runs.
#[must_use]
pub fn is_running(node: &NodeRecord) -> bool {
    pid(node).is_some()
}

/// The pid of a node's daemon, if it runs: that of the record, or of one that a user has started since. Pids are
/// reused: only a process that was started with the node's configuration file is its daemon.
#[must_use]
pub fn pid(node: &NodeRecord) -> Option<u32> {
    let recorded = node.pid.filter(|pid| is_daemon(*pid, &node.config));
    recorded.or_else(|| processes().find(|pid| is_daemon(*pid, &node.config)))
}

fn is_daemon(pid: u32, config: &Path) -> bool {
    role(pid, config) == Some(Role::Daemon)
}

/// What a process does that was started with a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Daemon,
    /// A process that outlives the daemon which started it.
    RouterOrEdge,
}

/// What a process does whose command line has the words `--config FILE`.
fn role(pid: u32, config: &Path) -> Option<Role> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let config = config.as_os_str().as_encoded_bytes();
    let is_ours = words.windows(2).any(|pair| pair == [b"--config".as_slice(), config]);
    let is_beside = words.iter().any(|word| [b"net".as_slice(), b"edge"].contains(word));
    is_ours.then_some(if is_beside { Role::RouterOrEdge } else { Role::Daemon })
}

/// All processes.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The pids of router and edge that the nodes of a cluster share, of those that run: any of their daemons may have
/// started them.
pub fn beside(nodes: &[NodeRecord]) -> impl Iterator<Item = u32> {
    let is_beside =
        |pid: &u32| nodes.iter().any(|node| role(*pid, &node.config) == Some(Role::RouterOrEdge));
    processes().filter(is_beside)
}

/// Ends router and edge of a cluster whose daemons have stopped: they outlive them.
///
/// # Errors
/// If one still runs after [`GRACE`] and a kill, as one that another user has started.
pub async fn stop_beside(nodes: &[NodeRecord]) -> io::Result<()> {
    for signal in [Signal::TERM, Signal::KILL] {
        for pid in beside(nodes).filter_map(|pid| i32::try_from(pid).ok().and_then(Pid::from_raw)) {
            // Fails if it has ended since it was found; that it may not is found below.
            kill_process(pid, signal).ok();
        }
        let deadline = Instant::now() + GRACE;
        while beside(nodes).next().is_some() && Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
        }
    }
    match beside(nodes).next() {
        None => Ok(()),
        Some(pid) => Err(io::Error::other(format!("process {pid} does not end"))),
    }
}

/// How a daemon stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was not running.
    NotRunning,
    /// It stopped after SIGTERM.
    Gracefully,
    /// It had to be killed.
    Killed,
}

/// Sends SIGTERM to all daemons, and SIGKILL to those that run after [`GRACE`].
pub async fn stop(nodes: &[NodeRecord]) -> Vec<Stopped> {
    let running: Vec<bool> = nodes.iter().map(is_running).collect();
    for node in nodes {
        signal(node, Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    while nodes.iter().any(is_running) && Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
    let remaining: Vec<bool> = nodes.iter().map(is_running).collect();
    for node in nodes {
        signal(node, Signal::KILL);
    }
    while nodes.iter().any(is_running) {
        tokio::time::sleep(POLL).await;
    }
    let outcome = |(running, remaining)| match (running, remaining) {
        (false, _) => Stopped::NotRunning,
        (true, false) => Stopped::Gracefully,
        (true, true) => Stopped::Killed,
    };
    running.into_iter().zip(remaining).map(outcome).collect()
}

fn signal(node: &NodeRecord, signal: Signal) {
    if let Some(pid) = pid(node).and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
        // Fails if it has exited since it was checked.
        kill_process(pid, signal).ok();
    }
}

/// The last lines of a node's log, for an error message.
#[must_use]
pub fn last_lines(log: &Path, count: usize) -> Vec<String> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect()
}
