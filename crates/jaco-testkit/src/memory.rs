//! Memory of processes under test.

use std::fs;

/// The resident set of a process, in bytes.
///
/// # Panics
/// When it does not run.
#[must_use]
pub fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("the kernel says so") * 1024
}
