//! What a figure depends on besides the programs: the machine. Never its name or its paths.

use std::path::Path;
use std::process::Command;

use crate::process;

/// Facts about this machine and the programs compared, as `(what, how much)`.
pub(super) fn facts() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = rustix::system::sysinfo();
    let bytes = memory.totalram.saturating_mul(u64::from(memory.mem_unit));
    let disk = file_system(&std::env::temp_dir()).unwrap_or_else(|| "unknown".to_owned());
    let system = rustix::system::uname();
    vec![
        ("processor", processor().unwrap_or_else(|| "unknown".to_owned())),
        ("cores", cores.to_string()),
        ("memory", format!("{} GiB", bytes >> 30)),
        ("file system of the data", disk),
        ("kernel", system.release().to_string_lossy().into_owned()),
        ("jacod", env!("CARGO_PKG_VERSION").to_owned()),
        ("etcd", first_line("etcd", &["--version"], "etcd Version: ")),
        ("HAProxy", first_line("haproxy", &["-v"], "HAProxy version ")),
        ("Caddy", first_line("caddy", &["version"], "")),
        ("Docker Engine", first_line("docker", &["version", "-f", "{{.Server.Version}}"], "")),
        ("compiler", first_line("rustc", &["--version"], "rustc ")),
    ]
}

/// The day and the commit of a run, as the rows that it measured say it.
pub(super) fn run(root: &Path) -> String {
    let root = root.to_string_lossy();
    let commit = first_line("git", &["-C", &root, "rev-parse", "--short=7", "HEAD"], "");
    format!("{} {commit}", first_line("date", &["--utc", "+%F"], ""))
}

/// The kind of file system that a path lies on, by the longest mount point above it.
pub(super) fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    kind_of(&std::fs::read_to_string("/proc/mounts").ok()?, &path)
}

fn kind_of(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    // Of two mounts on one point the later one hides the earlier.
    above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// Said of a program that cannot be asked.
pub(super) const ABSENT: &str = "none";

/// The first line that a program prints, without `prefix`; [`ABSENT`] when it cannot be asked.
fn first_line(program: &str, args: &[&str], prefix: &str) -> String {
    let text = process::capture(Command::new(program).args(args)).unwrap_or_default();
    let line = text.lines().next().unwrap_or(ABSENT);
    line.strip_prefix(prefix).unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmpdata xfs rw 0 0\n";
        let kind = |path: &str| kind_of(mounts, Path::new(path));
        assert_eq!(kind("/tmp/x").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/tmpdata").as_deref(), Some("xfs"));
        assert_eq!(kind("/home").as_deref(), Some("ext4"));
        assert_eq!(kind_of("", Path::new("/")), None);
    }
}
