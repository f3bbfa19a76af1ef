//! Published ports.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::inspected::PortBinding;

/// Addresses that mean all of a host.
const ALL_ADDRESSES: [&str; 3] = ["", "0.0.0.0", "::"];

/// The ports that a container was asked to publish, by `PORT/PROTOCOL`.
pub(super) fn published(bindings: &BTreeMap<String, Vec<PortBinding>>) -> Vec<Value> {
    let mut ports: Vec<Value> = Vec::new();
    for (of, bindings) in bindings {
        let (target, protocol) = of.split_once('/').unwrap_or((of, "tcp"));
        let Ok(target) = target.parse::<u16>() else { continue };
        for binding in bindings {
            let mut port = json!({ "target": target });
            if !matches!(binding.host_port.as_str(), "" | "0") {
                port["published"] = binding.host_port.as_str().into();
            }
            if protocol != "tcp" {
                port["protocol"] = protocol.into();
            }
            if !ALL_ADDRESSES.contains(&binding.host_ip.as_str()) {
                port["host_ip"] = binding.host_ip.as_str().into();
            }
            // Once for each family of addresses.
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
    }
    ports.sort_by_key(|port| port["target"].as_u64());
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-2: a port is published once, also where the engine has it for both families of addresses.
    #[test]
    fn ports_are_published_as_asked_for() {
        let binding = |host_ip: &str, host_port: &str| PortBinding {
            host_ip: host_ip.to_owned(),
            host_port: host_port.to_owned(),
        };
        let bindings = BTreeMap::from([
            ("80/tcp".to_owned(), vec![binding("0.0.0.0", "8080"), binding("::", "8080")]),
            ("53/udp".to_owned(), vec![binding("127.0.0.1", "5353")]),
            ("443/tcp".to_owned(), vec![binding("", "")]),
        ]);
        let expected = json!([
            { "target": 53, "published": "5353", "protocol": "udp", "host_ip": "127.0.0.1" },
            { "target": 80, "published": "8080" },
            { "target": 443 },
        ]);
        assert_eq!(json!(published(&bindings)), expected);
    }
}
