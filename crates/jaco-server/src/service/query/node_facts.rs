//! Hardware and software of the nodes, as they reported it.

use jaco_proto::v1;
use jaco_scheduler::attribute::{attributes, value_of};
use jaco_state::ClusterState;
use jaco_types::{ErrorCode, Gpu, Machine, Node, Rejection};

/// The facts of one node, or of all by host name if `hostname` is empty.
///
/// # Errors
/// `node_not_found`, with the names of the members.
pub(super) fn answer(
    state: &ClusterState,
    hostname: &str,
) -> Result<v1::NodeFactsResponse, Rejection> {
    let asked = |node: &&Node| hostname.is_empty() || node.hostname.as_str() == hostname;
    let mut nodes: Vec<_> = state.nodes.values().filter(asked).map(info).collect();
    if nodes.is_empty() && !hostname.is_empty() {
        let members = state.nodes.values().map(|node| node.hostname.as_str());
        let mut members: Vec<&str> = members.collect();
        members.sort_unstable();
        let members = members.join(", ");
        let message = format!("there is no node {hostname:?}; the members are {members}");
        return Err(Rejection::new(ErrorCode::NodeNotFound, message));
    }
    nodes.sort_by(|a, b| a.hostname.cmp(&b.hostname));
    Ok(v1::NodeFactsResponse { nodes })
}

fn info(node: &Node) -> v1::NodeFactsInfo {
    let facts = &node.facts;
    let Machine { kernel, cores, mhz, memory, disk, disk_free } = &facts.machine;
    v1::NodeFactsInfo {
        hostname: node.hostname.to_string(),
        version: facts.version.clone(),
        os: facts.os.clone(),
        arch: facts.arch.clone(),
        engine: facts.engine.clone(),
        kernel: kernel.clone(),
        cores: *cores,
        mhz: *mhz,
        memory_bytes: memory.0,
        disk_bytes: disk.0,
        disk_free_bytes: disk_free.0,
        gpus: facts.gpus.iter().map(gpu_info).collect(),
        capacity_cpu_millis: facts.capacity.cpu.0,
        capacity_memory_bytes: facts.capacity.memory.0,
        capacity_disk_bytes: facts.storage.0,
        attributes: attributes_of(node).collect(),
        capacity_instances: facts.instances_max.map_or(0, std::num::NonZeroU32::get),
    }
}

fn attributes_of(node: &Node) -> impl Iterator<Item = (String, String)> {
    let labels = node.all_labels().into_keys().map(|key| format!("node.{key}"));
    let names = attributes().into_iter().map(|attribute| attribute.name.to_owned()).chain(labels);
    names.filter_map(|name| value_of(node, &name).map(|value| (name.clone(), value.into_owned())))
}

fn gpu_info(gpu: &Gpu) -> v1::GpuInfo {
    v1::GpuInfo {
        id: gpu.id.to_string(),
        driver: gpu.driver.clone(),
        model: gpu.model.clone(),
        memory_bytes: gpu.memory.0,
    }
}
