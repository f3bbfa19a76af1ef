//! Resource usage of cgroups. Files stay open between samples: opening them costs more than
//! reading.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::parse;
use crate::engine::Counters;

/// The largest file, `memory.stat`, has about 50 lines.
const PAGE: usize = 4096;

/// Available kernel interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    /// cgroup v2.
    V2,
    /// cgroup v1; also hybrid systems.
    V1,
    /// No cgroups.
    Proc,
}

impl Kernel {
    /// Detects the interface below `root`.
    pub(super) fn detect(root: &Path) -> Self {
        let groups = root.join("sys/fs/cgroup");
        if groups.join("cgroup.controllers").exists() {
            return Self::V2;
        }
        let is_v1 = CPU_TREES.iter().any(|tree| groups.join(tree).join("cpuacct.usage").exists());
        if is_v1 { Self::V1 } else { Self::Proc }
    }
}

/// Names of the hierarchy for processor time.
const CPU_TREES: [&str; 2] = ["cpuacct", "cpu,cpuacct"];

/// Open files of one cgroup.
#[derive(Debug, Default)]
pub(super) struct Group {
    cpu: Option<Source>,
    memory: Option<File>,
    memory_limit: Option<File>,
    memory_stat: Option<File>,
}

#[derive(Debug)]
struct Source {
    file: File,
    parse: fn(&str) -> Option<u64>,
}

impl Group {
    /// The cgroup of a container, by either naming scheme of engines; `None` if there is none.
    pub(super) fn of_container(root: &Path, kernel: Kernel, container: &str) -> Option<Self> {
        let names =
            [format!("docker/{container}"), format!("system.slice/docker-{container}.scope")];
        names.iter().map(|name| Self::open(root, kernel, name)).find(Self::is_there)
    }

    /// The root cgroup: of the machine, or of the container that holds this daemon and its engine.
    pub(super) fn of_machine(root: &Path, kernel: Kernel) -> Self {
        Self::open(root, kernel, "")
    }

    fn is_there(&self) -> bool {
        self.cpu.is_some() || self.memory.is_some()
    }

    /// Whether both processor time and memory can be read.
    pub(super) fn is_complete(&self) -> bool {
        self.cpu.is_some() && self.memory.is_some()
    }

    fn open(root: &Path, kernel: Kernel, name: &str) -> Self {
        let groups = root.join("sys/fs/cgroup");
        match kernel {
            Kernel::V2 => {
                let group = groups.join(name);
                let file = |file: &str| File::open(group.join(file)).ok();
                Self {
                    cpu: file("cpu.stat").map(|file| Source { file, parse: parse::cpu_stat }),
                    memory: file("memory.current"),
                    memory_limit: file("memory.max"),
                    memory_stat: file("memory.stat"),
                }
            }
            Kernel::V1 => {
                let memory = groups.join("memory").join(name);
                let cpu = CPU_TREES.iter().find_map(|tree| {
                    File::open(groups.join(tree).join(name).join("cpuacct.usage")).ok()
                });
                let file = |file: &str| File::open(memory.join(file)).ok();
                Self {
                    cpu: cpu.map(|file| Source { file, parse: parse::cpuacct_usage }),
                    memory: file("memory.usage_in_bytes"),
                    memory_limit: file("memory.limit_in_bytes"),
                    memory_stat: file("memory.stat"),
                }
            }
            Kernel::Proc => Self::default(),
        }
    }

    /// Both values, if both can be read.
    pub(super) fn counters(&self) -> Option<Counters> {
        let (cpu_micros, memory_bytes) = (self.cpu_micros()?, self.memory_bytes()?);
        Some(Counters { cpu_micros, memory_bytes })
    }

    /// Total processor time in microseconds.
    pub(super) fn cpu_micros(&self) -> Option<u64> {
        let Source { file, parse } = self.cpu.as_ref()?;
        read(file, parse)
    }

    /// Bytes in use that the kernel cannot reclaim immediately.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let used = read(self.memory.as_ref()?, parse::bytes)?;
        let cached = self.memory_stat.as_ref().and_then(|file| read(file, parse::reclaimable));
        Some(used.saturating_sub(cached.unwrap_or_default()))
    }

    /// Memory limit in bytes, if there is one.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        read(self.memory_limit.as_ref()?, parse::limit)
    }
}

/// Reads a file of `/proc`, which exists on every machine.
pub(super) fn read_path(path: &PathBuf, parse: fn(&str) -> Option<u64>) -> Option<u64> {
    read(&File::open(path).ok()?, parse)
}

fn read(file: &File, parse: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    // The kernel returns up to a page in one read, and none of the values is behind the first page.
    let mut buffer = [0; PAGE];
    let filled = file.read_at(&mut buffer, 0).ok()?;
    parse(std::str::from_utf8(&buffer[..filled]).ok()?)
}
