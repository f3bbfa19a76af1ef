//! Facts that this node reports about itself: its machine, and the resources that replicas may use.
//! Read once, at start-up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Gpu, Machine, NodeFacts, VolumeClass};
use rustix::fs::statvfs;
use tracing::{debug, warn};

use crate::config::{Capacity, Config, ConfigError, Reserve, VolumeClassSettings};
use crate::gpu;

/// The facts of this node, without the engine's version.
///
/// # Errors
/// When `reserve` leaves nothing for replicas, or a GPU is declared twice.
pub(crate) fn facts(config: &Config) -> Result<NodeFacts, ConfigError> {
    let root = config.rebalance.system_root();
    let machine = machine(root, &config.disk.engine_dir, &config.data_dir);
    let allocatable = allocatable(&machine, &config.capacity, &config.reserve)?;
    Ok(NodeFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        os: std::env::consts::OS.to_owned(),
        arch: architecture(std::env::consts::ARCH).to_owned(),
        engine: String::new(),
        capacity: allocatable.resources,
        storage: allocatable.storage,
        gpus: gpus(&config.capacity, root)?,
        volume_classes: volume_classes(config)?,
        labels: config.labels.clone(),
        machine,
        // Reported once there are networks of the cluster.
        router: None,
        // Reported once there are routes.
        edge: None,
        instances_max: config.capacity.instances,
    })
}

/// Docker's name of the architecture, as users write it in `platform`.
fn architecture(name: &str) -> &str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// Describes the machine. `/sys` and `/proc` are read below `root`; the disk is that of the first
/// of the two directories that exists.
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

/// Size of the disk of a directory, and the space available to users, in whole GiB.
fn disk(folder: &Path) -> Option<(Bytes, Bytes)> {
    let stat = statvfs(folder)
        .inspect_err(|error| debug!(path = %folder.display(), %error, "disk size unavailable"))
        .ok()?;
    let size = stat.f_blocks.saturating_mul(stat.f_frsize);
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    Some((Bytes(size), Bytes(free >> 30 << 30)))
}

/// Maximum clock rate of the processor in MHz; without a governor the current one, rounded to
/// hundreds so that it is the same at the next start.
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

/// Resources that replicas may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allocatable {
    resources: Resources,
    storage: Bytes,
}

/// The declared capacity, else the detected one, less the reserve.
fn allocatable(
    machine: &Machine,
    declared: &Capacity,
    reserved: &Reserve,
) -> Result<Allocatable, ConfigError> {
    let cores = u64::from(machine.cores).saturating_mul(1000);
    let cpu = declared.cpu_millis.unwrap_or(cores);
    let memory = declared.memory_bytes.unwrap_or(machine.memory.0);
    let disk = declared.disk_bytes.unwrap_or(machine.disk.0);
    let bytes = |n| Bytes(n).to_string();
    let cpu = subtract_reserve("reserve.cpu_millis", cpu, reserved.cpu_millis, |n| {
        MilliCores(n).to_string()
    })?;
    let memory = subtract_reserve("reserve.memory_bytes", memory, reserved.memory_bytes, bytes)?;
    let disk = subtract_reserve("reserve.disk_bytes", disk, reserved.disk_bytes, bytes)?;
    let resources = Resources { cpu: MilliCores(cpu), memory: Bytes(memory) };
    Ok(Allocatable { resources, storage: Bytes(disk) })
}

/// Subtracts the reserve. The rest must not be zero: zero capacity means that no limit is enforced.
fn subtract_reserve(
    key: &'static str,
    all: u64,
    reserved: u64,
    amount: fn(u64) -> String,
) -> Result<u64, ConfigError> {
    match all.checked_sub(reserved) {
        Some(left) if left > 0 || reserved == 0 => Ok(left),
        Some(_) | None => {
            let reason = format!(
                "{} leaves replicas nothing of {}; reserve less, or declare more under `capacity`",
                amount(reserved),
                amount(all)
            );
            Err(ConfigError::Value { key, reason })
        }
    }
}

/// The classes of volumes, each with its declared capacity, else the size of its disk.
fn volume_classes(config: &Config) -> Result<BTreeMap<VolumeClass, Bytes>, ConfigError> {
    let capacity = |(class, settings): (VolumeClass, VolumeClassSettings)| {
        let size = || disk(&settings.path).map_or(Bytes(0), |(size, _)| size);
        (class, settings.capacity_bytes.map_or_else(size, Bytes))
    };
    Ok(config.volume_classes()?.into_iter().map(capacity).collect())
}

/// The declared GPUs, else the detected ones.
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
        warn!(found = gpus.len(), used = Gpu::PER_NODE_MAX, "too many GPUs, ignoring some");
        gpus.truncate(Gpu::PER_NODE_MAX);
    }
    Ok(gpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::machine_of;

    const MACHINE: Machine = Machine {
        kernel: String::new(),
        cores: 4,
        mhz: 0,
        memory: Bytes(8 << 30),
        disk: Bytes(100 << 30),
        disk_free: Bytes(0),
    };

    /// R-RES-3, R-RES-6: declared capacity replaces the detected one, and the reserve is
    /// subtracted.
    #[test]
    fn reserve_is_not_allocatable() {
        let all = allocatable(&MACHINE, &Capacity::default(), &Reserve::default()).unwrap();
        assert_eq!((all.resources.cpu, all.storage), (MilliCores(4000), Bytes(100 << 30)));
        let declared = Capacity { cpu_millis: Some(2000), ..Capacity::default() };
        let reserved = Reserve { cpu_millis: 500, memory_bytes: 1 << 30, disk_bytes: 20 << 30 };
        let left = allocatable(&MACHINE, &declared, &reserved).unwrap();
        let expected = Resources { cpu: MilliCores(1500), memory: Bytes(7 << 30) };
        assert_eq!((left.resources, left.storage), (expected, Bytes(80 << 30)));
    }

    /// R-RES-3: capacity 0 means unlimited, so reserving all of it is rejected.
    #[test]
    fn reserving_everything_is_rejected() {
        for cpu_millis in [4000, 4001] {
            let reserved = Reserve { cpu_millis, ..Reserve::default() };
            let refused =
                allocatable(&MACHINE, &Capacity::default(), &reserved).unwrap_err().to_string();
            assert!(refused.contains("reserve.cpu_millis"), "{refused}");
        }
        let reserved = Reserve { memory_bytes: 9 << 30, ..Reserve::default() };
        let refused =
            allocatable(&MACHINE, &Capacity::default(), &reserved).unwrap_err().to_string();
        assert!(
            refused.contains("9 GiB leaves replicas nothing of 8 GiB; reserve less"),
            "{refused}"
        );
        let nothing = Capacity { cpu_millis: Some(0), ..Capacity::default() };
        let allocatable = allocatable(&MACHINE, &nothing, &Reserve::default()).unwrap();
        assert_eq!(allocatable.resources.cpu, MilliCores(0), "0 still means unlimited");
    }

    /// R-RES-6: the reported clock rate is the same at each start.
    #[test]
    fn clock_rate_is_read_from_sys_and_proc() {
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
    fn real_machine_is_described() {
        let machine = machine(Path::new("/"), Path::new("/nowhere/at/all"), Path::new("/"));
        assert!(machine.cores > 0 && machine.memory.0 > 0 && machine.disk.0 > 0, "{machine:?}");
        assert!(!machine.kernel.is_empty() && machine.disk_free <= machine.disk, "{machine:?}");
    }

    /// R-RES-6: declared GPUs replace the detected ones, also an empty list.
    #[test]
    fn declared_gpus_replace_detected_ones() {
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
