//! The router and the edge that a cluster under test leaves behind: they outlive its daemons on purpose.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a killed process may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of the process that keeps the router of this folder, if one does.
#[must_use]
pub fn pid(folder: &Path) -> Option<u32> {
    let pid: u32 = fs::read_to_string(folder.join("lock")).ok()?.trim().parse().ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    // Another process may have got the number since.
    let is_router = command.split(|byte| *byte == 0).any(|word| word == b"net");
    is_router.then_some(pid)
}

/// The processes of the edge beside the router of this folder: one, and two while one replaces the other.
#[must_use]
pub fn edges(folder: &Path) -> Vec<u32> {
    let mut edge = folder.as_os_str().to_owned();
    edge.push("-edge");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A successor is started in the folder: that is where both work.
    pids.filter(|pid: &u32| {
        let folder = fs::read_link(format!("/proc/{pid}/cwd"));
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_edge = command.split(|byte| *byte == 0).any(|word| word == b"edge");
        is_edge && folder.is_ok_and(|folder| folder.as_os_str() == edge)
    })
    .collect()
}

/// Kills the process of a router, as a crash would.
pub fn kill(folder: &Path) {
    if let Some(pid) = pid(folder) {
        end(pid);
    }
}

/// Kills a process as a crash would, and waits until it is gone.
pub fn end(pid: u32) {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended by itself.
    let _gone = raw.is_some_and(|raw| kill_process(raw, Signal::KILL).is_err());
    let begun = Instant::now();
    let is_there = || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    while is_there() && begun.elapsed() < PATIENCE {
        sleep(Duration::from_millis(5));
    }
}

/// Ends the router of a folder and the edge beside it, with everything that they made.
pub fn remove(folder: &Path) {
    edges(folder).into_iter().for_each(end);
    kill(folder);
    let namespace = folder.join("router");
    if namespace.exists() {
        // Without the binding the namespace ends, and its ports with it.
        let _unbound = Command::new("umount").arg("-l").arg(&namespace).status().is_err();
    }
}
