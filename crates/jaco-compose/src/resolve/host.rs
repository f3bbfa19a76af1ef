//! What a service takes from the nodes that run it: devices, privileges.

use std::collections::BTreeSet;

use jaco_types::spec::Privilege;

use crate::facts::GpuRequest;
use crate::resolve::audit::is_engine_socket;
use crate::resolve::options::Contents;
use crate::resolve::scene::{below, text};
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

/// Whether a security option may weaken the isolation of the container: `no-new-privileges` hardens it.
fn weakens(option: &Node) -> bool {
    let hardens = ["no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"];
    !option.as_str().is_some_and(|option| hardens.contains(&option))
}

pub(super) fn privileges(service: &Map, contents: &Contents) -> BTreeSet<Privilege> {
    let on = |key: &str| service.get(key).and_then(Node::as_bool) == Some(true);
    let host = |key: &str| text(service, key) == Some("host");
    let has = |key: &str| !items(service, key).is_empty();
    let has_privileged_hook = items(service, "pre_stop")
        .iter()
        .any(|hook| hook.get("privileged").and_then(Node::as_bool) == Some(true));
    let mounts = items(service, "volumes");
    let is_socket = |mount: &Node| mount.get_str("source").is_some_and(is_engine_socket);
    // What is shipped is no part of the node.
    let is_path = |mount: &Node| {
        let source = mount.get_str("source").filter(|path| !contents.binds.contains_key(*path));
        mount.get_str("type") == Some("bind") && source.is_some() && !is_socket(mount)
    };
    [
        (on("privileged") || has_privileged_hook, Privilege::Privileged),
        (items(service, "security_opt").iter().any(weakens), Privilege::SecurityOpt),
        (mounts.iter().any(is_socket), Privilege::EngineSocket),
        (host("network_mode"), Privilege::HostNetwork),
        (host("pid"), Privilege::HostPid),
        (host("ipc"), Privilege::HostIpc),
        (host("userns_mode"), Privilege::HostUsers),
        (mounts.iter().any(is_path), Privilege::HostPath),
        (has("devices") || has("device_cgroup_rules"), Privilege::Devices),
        (has("cap_add"), Privilege::Capabilities),
    ]
    .into_iter()
    .filter_map(|(asked, privilege)| asked.then_some(privilege))
    .collect()
}
