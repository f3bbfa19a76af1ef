//! What this node says about itself: what its machine is, and what of it replicas may take. Looked at
//! once, when the daemon starts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Gpu, Machine, NodeFacts};
use rustix::fs::statvfs;
use tracing::{debug, warn};

use crate::capacity::{Capacity, Reserve};
use crate::config::{Config, ConfigError};
use crate::gpu;

/// The facts of this node, apart from its engine's version.
///
/// # Errors
/// When what is kept back leaves replicas nothing, or a GPU is declared twice.
pub(crate) fn facts(config: &Config) -> Result<NodeFacts, ConfigError> {
    let root = config.rebalance.system_root();
    let machine = machine(root, &config.disk.engine_dir, &config.data_dir);
    let given = given(&machine, &config.capacity, &config.reserve)?;
    Ok(NodeFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        os: std::env::consts::OS.to_owned(),
        arch: architecture(std::env::consts::ARCH).to_owned(),
        engine: String::new(),
        capacity: given.resources,
        storage: given.storage,
        gpus: gpus(&config.capacity, root)?,
        labels: config.labels.clone(),
        machine,
    })
}

/// Docker's name of the machine's architecture, because that is how people write `platform`.
fn architecture(name: &str) -> &str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// What is found. `root` is where `/sys` and `/proc` are; the first of the folders that is there says
/// which disk is meant.
fn machine(root: &Path, engine_dir: &Path, data_dir: &Path) -> Machine {
    let system = rustix::system::uname();
    let memory = rustix::system::sysinfo();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (disk, disk_free) = [engine_dir, data_dir].into_iter().find_map(disk).unwrap_or_default();
    Machine {
        kernel: system.release().to_string_lossy().into_owned(),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        mhz: clock(root).unwrap_or_default(),
        memory: Bytes(memory.totalram.saturating_mul(memory.mem_unit.into())),
        disk,
        disk_free,
    }
}

/// The size of the disk of a folder, and what is free of it for people, in whole GiB.
fn disk(folder: &Path) -> Option<(Bytes, Bytes)> {
    let stat = statvfs(folder)
        .inspect_err(|error| debug!(path = %folder.display(), %error, "disk was not looked at"))
        .ok()?;
    let size = stat.f_blocks.saturating_mul(stat.f_frsize);
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    Some((Bytes(size), Bytes(free >> 30 << 30)))
}

/// The most that a processor is clocked at, in MHz. Where no governor says it, what it is clocked at
/// now, in whole hundreds, so that it is the same at the next start.
fn clock(root: &Path) -> Option<u32> {
    let governed = root.join("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    if let Ok(text) = std::fs::read_to_string(governed) {
        return text.trim().parse::<u32>().ok().map(|kilohertz| kilohertz / 1000);
    }
    let text = std::fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu MHz"))?;
    let whole = line.trim_start_matches([' ', '\t', ':']).split('.').next()?;
    whole.parse::<u32>().ok().map(|mhz| mhz.saturating_add(50) / 100 * 100)
}

/// What replicas may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Given {
    resources: Resources,
    storage: Bytes,
}

/// As declared, else all that was found, less what is kept back.
fn given(machine: &Machine, declared: &Capacity, kept: &Reserve) -> Result<Given, ConfigError> {
    let cores = u64::from(machine.cores).saturating_mul(1000);
    let cpu = declared.cpu_millis.unwrap_or(cores);
    let memory = declared.memory_bytes.unwrap_or(machine.memory.0);
    let disk = declared.disk_bytes.unwrap_or(machine.disk.0);
    let cpu = less("reserve.cpu_millis", cpu, kept.cpu_millis)?;
    let memory = less("reserve.memory_bytes", memory, kept.memory_bytes)?;
    let disk = less("reserve.disk_bytes", disk, kept.disk_bytes)?;
    let resources = Resources { cpu: MilliCores(cpu), memory: Bytes(memory) };
    Ok(Given { resources, storage: Bytes(disk) })
}

/// What is left of `all`. Nothing may not be left: no capacity means that none is enforced.
fn less(key: &'static str, all: u64, kept: u64) -> Result<u64, ConfigError> {
    match all.checked_sub(kept) {
        Some(left) if left > 0 || kept == 0 => Ok(left),
        Some(_) | None => {
            let reason = format!(
                "{kept} leaves replicas nothing of {all}; keep back less, or declare more under \
                 `capacity`"
            );
            Err(ConfigError::Value { key, reason })
        }
    }
}

/// As declared, else those that were found.
fn gpus(declared: &Capacity, root: &Path) -> Result<Vec<Gpu>, ConfigError> {
    let mut gpus = match &declared.gpus {
        Some(declared) => declared.iter().map(|gpu| gpu.to_gpu()).collect(),
        None => gpu::detect(root),
    };
    let mut ids = BTreeSet::new();
    if let Some(twice) = gpus.iter().find(|gpu| !ids.insert(Arc::clone(&gpu.id))) {
        let reason = format!("{:?} is there twice; each GPU has an id of its own", twice.id);
        return Err(ConfigError::Value { key: "capacity.gpus", reason });
    }
    if gpus.len() > Gpu::PER_NODE_MAX {
        warn!(found = gpus.len(), used = Gpu::PER_NODE_MAX, "more GPUs than are counted");
        gpus.truncate(Gpu::PER_NODE_MAX);
    }
    Ok(gpus)
}

/// A folder that stands for the root of a machine, in tests.
#[cfg(test)]
pub(crate) fn machine_of(files: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let root = folder.path().to_owned();
    (folder, root)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        kernel: String::new(),
        cores: 4,
        mhz: 0,
        memory: Bytes(8 << 30),
        disk: Bytes(100 << 30),
        disk_free: Bytes(0),
    };

    /// R-RES-3, R-RES-6: what is declared counts, else what was found, and what is kept back is not
    /// given to replicas.
    #[test]
    fn what_is_kept_back_is_not_given() {
        let all = given(&MACHINE, &Capacity::default(), &Reserve::default()).unwrap();
        assert_eq!((all.resources.cpu, all.storage), (MilliCores(4000), Bytes(100 << 30)));
        let declared = Capacity { cpu_millis: Some(2000), ..Capacity::default() };
        let kept = Reserve { cpu_millis: 500, memory_bytes: 1 << 30, disk_bytes: 20 << 30 };
        let left = given(&MACHINE, &declared, &kept).unwrap();
        let expected = Resources { cpu: MilliCores(1500), memory: Bytes(7 << 30) };
        assert_eq!((left.resources, left.storage), (expected, Bytes(80 << 30)));
    }

    /// R-RES-3: a node that declares nothing is not limited, so keeping all of it back is refused.
    #[test]
    fn all_of_it_cannot_be_kept_back() {
        for cpu_millis in [4000, 4001] {
            let kept = Reserve { cpu_millis, ..Reserve::default() };
            let refused = given(&MACHINE, &Capacity::default(), &kept).unwrap_err().to_string();
            assert!(refused.contains("reserve.cpu_millis"), "{refused}");
        }
        let nothing = Capacity { cpu_millis: Some(0), ..Capacity::default() };
        let given = given(&MACHINE, &nothing, &Reserve::default()).unwrap();
        assert_eq!(given.resources.cpu, MilliCores(0), "nothing is declared, as before");
    }

    /// R-RES-6: the clock is the same at each start.
    #[test]
    fn the_clock_is_read_as_the_kernel_writes_it() {
        let governed = ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3400000\n");
        let now = ("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2596.128\ncache size\t: 1 KB\n");
        let read = |files: &[(&str, &str)]| clock(&machine_of(files).1);
        assert_eq!(read(&[]), None);
        let (_folder, root) = machine_of(&[governed, now]);
        assert_eq!(clock(&root), Some(3400));
        let (_folder, root) = machine_of(&[now]);
        assert_eq!(clock(&root), Some(2600));
    }

    /// R-RES-6: a real machine has a kernel, processors, memory and a disk.
    #[test]
    fn a_real_machine_is_described() {
        let machine = machine(Path::new("/"), Path::new("/nowhere/at/all"), Path::new("/"));
        assert!(machine.cores > 0 && machine.memory.0 > 0 && machine.disk.0 > 0, "{machine:?}");
        assert!(!machine.kernel.is_empty() && machine.disk_free <= machine.disk, "{machine:?}");
    }

    /// R-RES-6: declared GPUs count instead of those that were found, also where there are none.
    #[test]
    fn declared_gpus_replace_what_was_found() {
        let (_folder, root) = machine_of(&[("dev/nvidia0", "")]);
        let ids = |text: &str| {
            let capacity: Capacity = serde_saphyr::from_str(text).unwrap();
            let gpus = gpus(&capacity, &root).map_err(|error| error.to_string())?;
            Ok::<_, String>(gpus.into_iter().map(|gpu| gpu.id.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(ids("cpu_millis: 1\n").unwrap(), ["0"]);
        assert_eq!(ids("gpus: []\n").unwrap(), [""; 0]);
        assert_eq!(
            ids("gpus: [{id: GPU-1}, {id: '7', driver: amdgpu}]\n").unwrap(),
            ["GPU-1", "7"]
        );
        let twice = ids("gpus: [{id: a}, {id: a}]\n").unwrap_err();
        assert!(twice.contains("capacity.gpus") && twice.contains("\"a\""), "{twice}");
    }
}
