//! Detects GPUs through the kernel; no vendor tool is needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jaco_types::Gpu;
use jaco_types::unit::Bytes;

/// Kernel drivers whose render nodes are GPUs with compute support. NVIDIA GPUs have files of their
/// own; virtual GPUs only render.
const RENDERING: [&str; 3] = ["amdgpu", "i915", "xe"];

/// The GPUs below `root`: NVIDIA's in the order of its tools, then others.
pub(crate) fn detect(root: &Path) -> Vec<Gpu> {
    let mut gpus = nvidia(root);
    gpus.extend(rendering(root));
    gpus
}

/// The driver has a directory for each GPU, named after its PCI address. Where only device files
/// are visible, as in a container, only their numbers are known.
fn nvidia(root: &Path) -> Vec<Gpu> {
    let folders = entries(&root.join("proc/driver/nvidia/gpus"));
    if folders.is_empty() {
        let number =
            |(name, _): (String, PathBuf)| name.strip_prefix("nvidia")?.parse::<u32>().ok();
        let mut numbers: Vec<u32> =
            entries(&root.join("dev")).into_iter().filter_map(number).collect();
        numbers.sort_unstable();
        return numbers.into_iter().map(|number| gpu(number.to_string(), "nvidia")).collect();
    }
    let folders = folders.into_iter().enumerate();
    let read = |(number, (_, folder)): (usize, (String, PathBuf))| {
        let text = fs::read_to_string(folder.join("information")).unwrap_or_default();
        let line = |key: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let mut of_key = lines.filter(|(name, _)| name.trim() == key);
            of_key.next().map(|(_, value)| value.trim().to_owned())
        };
        // A suspended GPU shows question marks instead of its UUID.
        let uuid = line("GPU UUID").filter(|uuid| !uuid.contains('?') && !uuid.is_empty());
        Gpu {
            model: line("Model").unwrap_or_default(),
            ..gpu(uuid.unwrap_or_else(|| number.to_string()), "nvidia")
        }
    };
    folders.map(read).collect()
}

/// GPUs with a render node.
fn rendering(root: &Path) -> Vec<Gpu> {
    let nodes = entries(&root.join("sys/class/drm"));
    let nodes = nodes.into_iter().filter(|(name, _)| name.starts_with("renderD"));
    let read = |(name, folder): (String, PathBuf)| {
        let device = folder.join("device");
        let text = |file: &str| fs::read_to_string(device.join(file)).ok();
        let event = text("uevent")?;
        let event: BTreeMap<&str, &str> =
            event.lines().filter_map(|line| line.split_once('=')).collect();
        let driver = event.get("DRIVER").filter(|driver| RENDERING.contains(driver))?;
        let id = event.get("PCI_SLOT_NAME").map_or(name, |slot| (*slot).to_owned());
        let memory = text("mem_info_vram_total").and_then(|text| text.trim().parse().ok());
        Some(Gpu {
            model: text("product_name").unwrap_or_default().trim().to_owned(),
            memory: Bytes(memory.unwrap_or_default()),
            ..gpu(id, driver)
        })
    };
    nodes.filter_map(read).collect()
}

fn gpu(id: String, driver: &str) -> Gpu {
    Gpu { id: id.into(), driver: driver.to_owned(), model: String::new(), memory: Bytes(0) }
}

/// Entries of a directory by name; none if it does not exist.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let read = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    let mut entries: Vec<_> = read.filter_map(named).collect();
    entries.sort();
    entries
}

/// A directory that serves as the root of a machine, in tests.
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

    fn show(files: &[(&str, &str)]) -> Vec<String> {
        let (_folder, root) = machine_of(files);
        let show = |gpu: Gpu| {
            format!("{} {} {} {}", gpu.driver, gpu.id, gpu.model, gpu.memory).trim().to_owned()
        };
        detect(&root).into_iter().map(show).collect()
    }

    /// R-PLACE-8, R-RES-6: GPUs are detected without vendor tools.
    #[test]
    fn nvidia_gpus_are_detected_through_the_kernel() {
        assert_eq!(show(&[]), [""; 0]);
        let information = "Model: \t\t Tesla T4\nIRQ:   \t\t 35\n\
            GPU UUID: \t GPU-6f9c1a2e-0000-4000-8000-000000000001\nBus Location: \t 0000:00:1e.0\n";
        let suspended =
            "Model: \t\t Tesla T4\nGPU UUID: \t GPU-????????-????-????-????-????????????\n";
        let found = show(&[
            ("proc/driver/nvidia/gpus/0000:00:1e.0/information", information),
            ("proc/driver/nvidia/gpus/0000:00:1f.0/information", suspended),
            ("dev/nvidia0", ""),
        ]);
        assert_eq!(
            found,
            [
                "nvidia GPU-6f9c1a2e-0000-4000-8000-000000000001 Tesla T4 0 B",
                "nvidia 1 Tesla T4 0 B"
            ]
        );
        let devices = ["dev/nvidia10", "dev/nvidia2", "dev/nvidiactl", "dev/nvidia-uvm"];
        assert_eq!(show(&devices.map(|path| (path, ""))), ["nvidia 2  0 B", "nvidia 10  0 B"]);
    }

    /// R-PLACE-8, R-RES-6: other GPUs are detected by render nodes, except those that only render.
    #[test]
    fn render_nodes_of_compute_drivers_are_gpus() {
        let event = "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n";
        let found = show(&[
            ("sys/class/drm/renderD128/device/uevent", event),
            ("sys/class/drm/renderD128/device/mem_info_vram_total", "17163091968\n"),
            ("sys/class/drm/renderD128/device/product_name", "Radeon Pro\n"),
            ("sys/class/drm/renderD129/device/uevent", "DRIVER=virtio-pci\n"),
            ("sys/class/drm/renderD130/device/uevent", "DRIVER=nvidia\n"),
            ("sys/class/drm/card0/device/uevent", event),
        ]);
        assert_eq!(found, ["amdgpu 0000:03:00.0 Radeon Pro 15.9 GiB"]);
    }
}
