//! Parsers of kernel files, one pure function per format.

/// Limits of this size or more mean "unlimited".
const UNLIMITED: u64 = 1 << 60;

/// Microseconds per tick of `/proc/stat`: 100 ticks a second on every architecture.
const MICROS_PER_TICK: u64 = 10_000;

/// Processor time so far in microseconds, from `cpu.stat` of cgroup v2.
#[must_use]
pub fn cpu_stat(text: &str) -> Option<u64> {
    row(text, "usage_usec")
}

/// Processor time so far in microseconds, from `cpuacct.usage` of cgroup v1.
#[must_use]
pub fn cpuacct_usage(text: &str) -> Option<u64> {
    bytes(text).map(|nanos| nanos / 1000)
}

/// Processor time in microseconds of the whole machine, from `/proc/stat`: all but idle and iowait.
/// Guest time is included in user time.
#[must_use]
pub fn proc_stat(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let (before, after) = (ticks.get(..3)?, ticks.get(5..ticks.len().min(8))?);
    let busy = before.iter().chain(after).fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
    Some(busy.saturating_mul(MICROS_PER_TICK))
}

/// A file with one number, such as `memory.current` and `memory.usage_in_bytes`.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A limit, from `memory.max` or `memory.limit_in_bytes`; `None` if unlimited.
#[must_use]
pub fn limit(text: &str) -> Option<u64> {
    bytes(text).filter(|limit| *limit < UNLIMITED)
}

/// Reclaimable memory, from `memory.stat` of cgroup v2 or v1: inactive file cache.
#[must_use]
pub fn reclaimable(text: &str) -> Option<u64> {
    // `total_inactive_file` comes after `inactive_file` where both exist.
    let mut found = None;
    for line in text.lines().filter(|line| line.contains("inactive_file")) {
        found = row(line, "total_inactive_file").or_else(|| found.or(row(line, "inactive_file")));
    }
    found
}

/// Used memory of the machine in bytes, from `/proc/meminfo`.
#[must_use]
pub fn meminfo(text: &str) -> Option<u64> {
    let total = row(text, "MemTotal:")?;
    let available = row(text, "MemAvailable:")?;
    Some(total.saturating_sub(available).saturating_mul(1024))
}

/// The number after a key at the start of a line.
fn row(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        if rest.starts_with(' ') { rest.split_whitespace().next()?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (&'static str, fn(&str) -> Option<u64>, &'static str, Option<u64>);

    /// R-REB-2: each format of each kernel: complete, damaged and empty.
    #[test]
    fn kernel_files_are_parsed() {
        let cases: [Case; 18] = [
            ("v2", cpu_stat, "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n", Some(1500)),
            ("v2 later kernels", cpu_stat, "usage_usec 7\nnr_periods 0\nburst_usec 0\n", Some(7)),
            ("v2 damaged", cpu_stat, "usage_usec\n", None),
            ("v2 empty", cpu_stat, "", None),
            ("v1", cpuacct_usage, "1234567890\n", Some(1_234_567)),
            ("v1 damaged", cpuacct_usage, "-1\n", None),
            ("/proc", proc_stat, "cpu  10 1 5 900 30 2 3 4 7 7\ncpu0 1 1 1\n", Some(250_000)),
            ("/proc, old kernels", proc_stat, "cpu  10 1 5 900 30 2\n", Some(180_000)),
            ("/proc, one processor only", proc_stat, "cpu0 10 1 5 900 30 2 3 4 0 0\n", None),
            ("/proc, cut off", proc_stat, "cpu  10 1\n", None),
            ("limit", limit, "1073741824\n", Some(1 << 30)),
            ("no limit of v2", limit, "max\n", None),
            ("no limit of v1", limit, "9223372036854771712\n", None),
            ("cache of v2", reclaimable, "anon 5\nfile 9\ninactive_file 7\n", Some(7)),
            ("cache of v1", reclaimable, "inactive_file 1\ntotal_inactive_file 8\n", Some(8)),
            (
                "memory",
                meminfo,
                "MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:  60 kB\n",
                Some(40 << 10),
            ),
            ("memory of kernels before 3.14", meminfo, "MemTotal:  100 kB\nMemFree: 1 kB\n", None),
            ("number", bytes, "42", Some(42)),
        ];
        for (name, parse, text, expected) in cases {
            assert_eq!(parse(text), expected, "{name}");
        }
    }
}
