//! Daemons as processes: started in a group of their own, ended by number, and only if the number is
//! still theirs.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::record::NodeRecord;

/// How long a daemon may take to end by itself.
pub const GRACE: Duration = Duration::from_secs(10);

/// How often a wait looks up.
pub const POLL: Duration = Duration::from_millis(50);

/// Finds the daemon's program: the one that is named, else the one beside this program, else the one
/// on the path.
#[must_use]
pub fn program(named: Option<&Path>) -> PathBuf {
    let beside = || {
        let beside = std::env::current_exe().ok()?.with_file_name("jacod");
        beside.is_file().then_some(beside)
    };
    named.map(Path::to_owned).or_else(beside).unwrap_or_else(|| PathBuf::from("jacod"))
}

/// Starts the daemon of a node and notes its number; what it says goes to its log. It outlives this
/// process, and a Ctrl-C that is meant for us does not reach it.
///
/// # Errors
/// When it cannot be started.
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
    // For a moment a new process has no command line yet, by which it is known.
    while !is_running(node) && child.try_wait()?.is_none() {
        std::thread::yield_now();
    }
    Ok(())
}

/// Whether the process of a node lives. Process numbers are used again: only a process whose command
/// line names the node's configuration is ours.
#[must_use]
pub fn is_running(node: &NodeRecord) -> bool {
    let Some(pid) = node.pid else { return false };
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let config = node.config.as_os_str().as_encoded_bytes();
    line.split(|byte| *byte == 0).any(|word| word == config)
}

/// How a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was not running.
    NotRunning,
    /// It ended by itself when it was asked to.
    Gracefully,
    /// It had to be killed.
    Killed,
}

/// Asks all nodes to end, and kills those that have not after [`GRACE`].
pub async fn stop(nodes: &[NodeRecord]) -> Vec<Stopped> {
    let running: Vec<bool> = nodes.iter().map(is_running).collect();
    for node in nodes {
        signal(node, Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    while nodes.iter().any(is_running) && Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
    let late: Vec<bool> = nodes.iter().map(is_running).collect();
    for node in nodes {
        signal(node, Signal::KILL);
    }
    while nodes.iter().any(is_running) {
        tokio::time::sleep(POLL).await;
    }
    let how = |(running, late)| match (running, late) {
        (false, _) => Stopped::NotRunning,
        (true, false) => Stopped::Gracefully,
        (true, true) => Stopped::Killed,
    };
    running.into_iter().zip(late).map(how).collect()
}

fn signal(node: &NodeRecord, signal: Signal) {
    let pid = node.pid.filter(|_| is_running(node));
    if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
        // It may have ended since it was looked at.
        kill_process(pid, signal).ok();
    }
}

/// The end of a node's log, for an error message.
#[must_use]
pub fn last_lines(log: &Path, count: usize) -> Vec<String> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect()
}
