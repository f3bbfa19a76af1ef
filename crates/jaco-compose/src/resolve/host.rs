//! What a service takes from the nodes that run it: devices.

use crate::facts::GpuRequest;
use crate::resolve::scene::below;
use crate::yaml::access::items;
use crate::yaml::node::{Map, Node};

pub(super) fn gpus(service: &Map) -> Vec<GpuRequest> {
    let reserved = below(service.get("deploy"), &["resources", "reservations", "devices"]);
    let reserved = reserved.and_then(Node::as_seq).unwrap_or_default();
    let texts = |node: &Node, key: &str| -> Vec<String> {
        let list = node.get(key).and_then(Node::as_seq).unwrap_or_default();
        list.iter().filter_map(Node::as_str).map(str::to_owned).collect()
    };
    let requested = items(service, "gpus").iter().map(|node| (node, true));
    requested
        .chain(reserved.iter().map(|node| (node, false)))
        .map(|(node, gpu)| {
            let mut capabilities = texts(node, "capabilities");
            if gpu && !capabilities.iter().any(|name| name == "gpu") {
                capabilities.push("gpu".to_owned());
            }
            GpuRequest {
                count: node
                    .get("count")
                    .and_then(Node::as_int)
                    .and_then(|number| u32::try_from(number).ok()),
                device_ids: texts(node, "device_ids"),
                driver: node.get_str("driver").map(str::to_owned),
                capabilities,
            }
        })
        .collect()
}
