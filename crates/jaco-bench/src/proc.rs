//! What the system knows about a process: memory held, processor time used.

use std::time::Duration;

use anyhow::{Context, Result};

/// The resident set of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    resident_kib(&text).map(|kib| kib * 1024).context("the process has no VmRSS")
}

/// Processor time that a process has used, its ended threads included.
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks(&text).context("/proc/<pid>/stat has an unknown shape")?;
    // USER_HZ: 100 on every architecture that Debian is built for.
    Ok(Duration::from_millis(ticks * 10))
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// User and system time, fields 14 and 15; the name before them may contain anything.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 31 11 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("nonsense"), None);
        assert_eq!(resident_kib("Name:\tx\nVmRSS:\t   12345 kB\n"), Some(12345));
    }

    #[test]
    fn this_process_is_real() {
        let own = std::process::id();
        assert!(resident_bytes(own).unwrap() > 100_000);
        processor_time(own).unwrap();
    }
}
