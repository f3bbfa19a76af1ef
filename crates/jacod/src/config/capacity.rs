//! Settings `capacity:` and `reserve:`: what replicas may use on this node.

use std::num::NonZeroU32;

use jaco_types::Gpu;
use jaco_types::unit::Bytes;
use serde::Deserialize;

/// Capacity of the node; an absent key takes the detected value. `jaco node facts --generate`
/// writes this block.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Capacity {
    /// Cores, in thousandths.
    pub(crate) cpu_millis: Option<u64>,
    /// Memory in bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// Disk on which the engine keeps images and containers, in bytes.
    pub(crate) disk_bytes: Option<u64>,
    /// GPUs, in the order in which the engine numbers them.
    pub(crate) gpus: Option<Vec<DeclaredGpu>>,
    /// Most instances of replicas at a time; any number without.
    pub(crate) instances: Option<NonZeroU32>,
}

/// A GPU declared in the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclaredGpu {
    /// Id under which the engine addresses it.
    id: String,
    /// Driver name, as in device requests.
    #[serde(default = "nvidia")]
    driver: String,
    /// Model name.
    #[serde(default)]
    model: String,
    /// Device memory, in bytes.
    #[serde(default)]
    memory_bytes: u64,
}

/// Default driver of device requests that name none.
fn nvidia() -> String {
    "nvidia".to_owned()
}

impl DeclaredGpu {
    pub(crate) fn to_gpu(&self) -> Gpu {
        Gpu {
            id: self.id.as_str().into(),
            driver: self.driver.clone(),
            model: self.model.clone(),
            memory: Bytes(self.memory_bytes),
        }
    }
}

/// Part of the capacity reserved for the system, the engine and this daemon.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reserve {
    /// Cores, in thousandths.
    pub(crate) cpu_millis: u64,
    /// Memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Disk in bytes.
    pub(crate) disk_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-RES-6: the block that `jaco node facts --generate` writes parses to the detected values.
    #[test]
    fn generated_capacity_block_parses() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            capacity: Capacity,
        }
        let text = include_str!("../../../jaco/tests/golden/capacity.yaml");
        let File { capacity } = serde_saphyr::from_str(text).unwrap();
        assert_eq!((capacity.cpu_millis, capacity.memory_bytes), (Some(4000), Some(8 << 30)));
        assert_eq!(capacity.disk_bytes, Some(100 << 30));
        let gpus: Vec<_> = capacity.gpus.unwrap().iter().map(DeclaredGpu::to_gpu).collect();
        let expected = Gpu {
            id: "GPU-6f9c".into(),
            driver: "nvidia".to_owned(),
            model: "Tesla \"T4\": 16 GB".to_owned(),
            memory: Bytes(16 << 30),
        };
        assert_eq!(gpus[0], expected);
        assert_eq!((&*gpus[1].id, gpus[1].driver.as_str()), ("1", "nvidia"));
    }
}
