//! What the nodes say about their machines, and a `capacity:` block made of it.

use std::fmt::Write as _;

use jaco_proto::v1::{GpuInfo, NodeFactsInfo};
use jaco_types::unit::Bytes;
use serde_json::{Value, json};

use super::{facts, non_empty, without_null};
use crate::table::Table;
use crate::ui::{Detail, Frame};

/// For programs.
#[must_use]
pub fn json(node: &NodeFactsInfo) -> Value {
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
        })),
        "attributes": facts(&node.attributes),
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

/// For people. What a node does not say is left out.
#[must_use]
pub fn table(nodes: &[NodeFactsInfo], frame: &Frame) -> String {
    let mut head = vec!["NODE", "CORES", "MEMORY", "DISK", "FREE", "GPUS", "PLATFORM", "ENGINE"];
    if frame.detail == Detail::Wide {
        head.extend(["MHZ", "KERNEL", "VERSION", "FOR REPLICAS", "ATTRIBUTES"]);
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
    let given =
        [cpu, amount(node.capacity_memory_bytes), amount(node.capacity_disk_bytes)].join(" ");
    let mut attributes: Vec<_> =
        node.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    attributes.sort();
    [
        number(node.mhz.into()),
        node.kernel.clone(),
        node.version.clone(),
        given.trim().to_owned(),
        attributes.join(","),
    ]
}

fn number(number: u64) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

fn amount(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { Bytes(bytes).to_string() }
}

/// How many, and which; models that are not known go by their drivers.
fn gpus(gpus: &[GpuInfo]) -> String {
    let name = |gpu: &GpuInfo| non_empty(&gpu.model).unwrap_or(&gpu.driver).to_owned();
    let mut names: Vec<String> = gpus.iter().map(name).collect();
    names.sort();
    names.dedup();
    if names.is_empty() { "0".to_owned() } else { format!("{} {}", gpus.len(), names.join(", ")) }
}

/// A `capacity:` block for the node's `jacod.yaml`: what its machine has, for a person to lower.
#[must_use]
pub fn capacity_block(node: &NodeFactsInfo) -> String {
    let mut block = format!(
        "# What jacod found on {}. Lower what replicas shall not take, or keep it back with\n\
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
        // JSON's texts are YAML's, whatever stands in them.
        let [id, driver, model] = [id, driver, model].map(|text| Value::from(text.as_str()));
        let written = write!(
            block,
            "    - id: {id}\n      driver: {driver}\n      model: {model}\n      memory_bytes: \
             {memory_bytes}\n"
        );
        written.expect("a text takes any text");
    }
    block
}

/// The same for programs.
#[must_use]
pub fn capacity_json(node: &NodeFactsInfo) -> Value {
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
