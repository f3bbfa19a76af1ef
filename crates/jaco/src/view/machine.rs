//! The hardware of nodes, and a `capacity:` block generated from it.

use std::fmt::Write as _;

use jaco_proto::v1::{GpuInfo, NodeFactsInfo};
use jaco_types::unit::Bytes;
use serde_json::{Value, json};

use super::json::{non_empty, string_map, without_null};
use crate::format::table::Table;
use crate::output::{Detail, Frame};

/// The hardware of a node as JSON.
pub(crate) fn json(node: &NodeFactsInfo) -> Value {
    let known = |number: u64| (number > 0).then_some(number);
    without_null(json!({
        "node": node.hostname,
        "version": non_empty(&node.version),
        "os": non_empty(&node.os),
        "arch": non_empty(&node.arch),
        "engine": non_empty(&node.engine),
        "kernel": non_empty(&node.kernel),
        "cores": known(node.cores.into()),
        "cpu_mhz": known(node.mhz.into()),
        "memory_bytes": known(node.memory_bytes),
        "disk_bytes": known(node.disk_bytes),
        "disk_free_bytes": known(node.disk_free_bytes),
        "gpus": node.gpus.iter().map(gpu_json).collect::<Value>(),
        "capacity": without_null(json!({
            "cpu_millis": known(node.capacity_cpu_millis),
            "memory_bytes": known(node.capacity_memory_bytes),
            "disk_bytes": known(node.capacity_disk_bytes),
            "instances": known(node.capacity_instances.into()),
        })),
        "attributes": string_map(&node.attributes),
    }))
}

fn gpu_json(gpu: &GpuInfo) -> Value {
    without_null(json!({
        "id": gpu.id,
        "driver": gpu.driver,
        "model": non_empty(&gpu.model),
        "memory_bytes": (gpu.memory_bytes > 0).then_some(gpu.memory_bytes),
    }))
}

/// The hardware of nodes as a table. Unknown values are empty.
pub(crate) fn table(nodes: &[NodeFactsInfo], frame: &Frame) -> String {
    let mut head = vec!["NODE", "CORES", "MEMORY", "DISK", "FREE", "GPUS", "PLATFORM", "ENGINE"];
    if frame.detail == Detail::Wide {
        head.extend(["MHZ", "KERNEL", "VERSION", "CAPACITY", "ATTRIBUTES"]);
    }
    let mut table = Table::new(&head);
    for node in nodes {
        let mut row = vec![
            node.hostname.clone(),
            number(node.cores.into()),
            amount(node.memory_bytes),
            amount(node.disk_bytes),
            amount(node.disk_free_bytes),
            gpus(&node.gpus),
            [node.os.as_str(), node.arch.as_str()].join("/"),
            node.engine.clone(),
        ];
        if frame.detail == Detail::Wide {
            row.extend(wide_cells(node));
        }
        table.row(row);
    }
    table.render()
}

fn wide_cells(node: &NodeFactsInfo) -> [String; 5] {
    let millis = node.capacity_cpu_millis;
    let cpu = if millis == 0 { String::new() } else { format!("{millis}m") };
    let capacity =
        [cpu, amount(node.capacity_memory_bytes), amount(node.capacity_disk_bytes)].join(" ");
    let mut attributes: Vec<_> =
        node.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    attributes.sort();
    [
        number(node.mhz.into()),
        node.kernel.clone(),
        node.version.clone(),
        capacity.trim().to_owned(),
        attributes.join(","),
    ]
}

fn number(number: u64) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

fn amount(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { Bytes(bytes).to_string() }
}

/// The number of GPUs and their distinct models; an unknown model is named by its driver.
fn gpus(gpus: &[GpuInfo]) -> String {
    let name = |gpu: &GpuInfo| non_empty(&gpu.model).unwrap_or(&gpu.driver).to_owned();
    let mut names: Vec<String> = gpus.iter().map(name).collect();
    names.sort();
    names.dedup();
    if names.is_empty() { "0".to_owned() } else { format!("{} {}", gpus.len(), names.join(", ")) }
}

/// A `capacity:` block for the node's `jacod.yaml` with all of its hardware, for the operator to lower.
pub(crate) fn capacity_block(node: &NodeFactsInfo) -> String {
    let mut block = format!(
        "# Hardware of {} as jacod detected it. Lower what replicas must not use, or set\n\
         # `reserve:`.\n\
         capacity:\n  cpu_millis: {}\n  memory_bytes: {}\n  disk_bytes: {}\n",
        node.hostname,
        u64::from(node.cores).saturating_mul(1000),
        node.memory_bytes,
        node.disk_bytes,
    );
    if node.gpus.is_empty() {
        block.push_str("  gpus: []\n");
        return block;
    }
    block.push_str("  gpus:\n");
    for gpu in &node.gpus {
        let GpuInfo { id, driver, model, memory_bytes } = gpu;
        // JSON strings are valid YAML.
        let [id, driver, model] = [id, driver, model].map(|text| Value::from(text.as_str()));
        let written = write!(
            block,
            "    - id: {id}\n      driver: {driver}\n      model: {model}\n      memory_bytes: \
             {memory_bytes}\n"
        );
        written.expect("writing to a string cannot fail");
    }
    block
}

/// The contents of the `capacity:` block as JSON.
pub(crate) fn capacity_json(node: &NodeFactsInfo) -> Value {
    json!({
        "node": node.hostname,
        "capacity": {
            "cpu_millis": u64::from(node.cores).saturating_mul(1000),
            "memory_bytes": node.memory_bytes,
            "disk_bytes": node.disk_bytes,
            "gpus": node.gpus.iter().map(gpu_json).collect::<Value>(),
        },
    })
}
