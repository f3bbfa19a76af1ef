//! Networks of the cluster, and the addresses in them.

pub(crate) use jaco_json::network::json;
use jaco_proto::v1::{NetworkAddress, NetworkInfo, NetworkPoolInfo};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::quantity::natural_order;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame, Show};

/// The pool as JSON.
pub(crate) fn pool_json(pool: &NetworkPoolInfo) -> Value {
    json!({ "pool": pool.prefix, "mesh": pool.mesh, "mtu": pool.mtu })
}

/// A WireGuard public key as `wg` shows it: in base64.
pub(crate) fn key(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, at| {
            number << 8 | usize::from(group.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let digit = char::from(DIGITS[number >> (18 - 6 * at) & 63]);
            text.push(if at <= group.len() { digit } else { '=' });
        }
    }
    text
}

/// Networks as a table.
pub(crate) fn table(networks: &[NetworkInfo], frame: &Frame) -> String {
    let mut head = vec!["NAME", "SUBNET", "USED", "FREE", "NODES", "INTERNAL", "DEPLOYMENTS"];
    if frame.detail == Detail::Wide {
        head.extend(["ID", "QUARANTINE", "GATEWAY", "ROUTER", "BRIDGE"]);
    }
    let mut table = Table::new(&head);
    for network in networks {
        let mut row = vec![
            network.name.clone(),
            network.subnet.clone(),
            network.used.to_string(),
            network.free.to_string(),
            network.nodes.len().to_string(),
            if network.internal { "yes" } else { "no" }.to_owned(),
            network.deployments.join(", "),
        ];
        if frame.detail == Detail::Wide {
            row.extend([
                network.id.to_string(),
                network.quarantined.to_string(),
                network.gateway.clone(),
                network.router.clone(),
                network.bridge.clone(),
            ]);
        }
        table.row(row);
    }
    table.render()
}

/// The networks of one name, with their addresses.
#[derive(Debug)]
pub(crate) struct Inspected<'a> {
    pub(crate) networks: &'a [NetworkInfo],
    pub(crate) pool: Option<&'a NetworkPoolInfo>,
}

impl Show for Inspected<'_> {
    fn json(&self) -> Value {
        let one = |network: &NetworkInfo| {
            let mut value = json(network);
            value["addresses"] = network.addresses.iter().map(address_json).collect();
            value["mtu"] = self.pool.map(|pool| pool.mtu).into();
            without_null(value)
        };
        self.networks.iter().map(one).collect()
    }

    fn text(&self, frame: &Frame) -> String {
        let parts: Vec<String> =
            self.networks.iter().map(|network| self.describe(network, frame)).collect();
        parts.join("\n")
    }
}

impl Inspected<'_> {
    fn describe(&self, network: &NetworkInfo, frame: &Frame) -> String {
        let mtu = self.pool.map(|pool| pool.mtu.to_string()).unwrap_or_default();
        let addresses = format!(
            "{} used, {} in quarantine, {} free",
            network.used, network.quarantined, network.free
        );
        let facts = [
            ("Network", network.name.clone()),
            ("Id", network.id.to_string()),
            ("Subnet", network.subnet.clone()),
            ("Gateway", network.gateway.clone()),
            ("Router", network.router.clone()),
            ("Bridge", network.bridge.clone()),
            ("MTU", mtu),
            ("Internal", if network.internal { "yes" } else { "no" }.to_owned()),
            ("Nodes", network.nodes.join(", ")),
            ("Deployments", network.deployments.join(", ")),
            ("Addresses", addresses),
        ];
        let shown = |(key, value): &(&str, String)| {
            let value = if value.is_empty() { "-" } else { value };
            format!("{:<13}{value}\n", format!("{key}:"))
        };
        let mut text: String = facts.iter().map(shown).collect();
        if !network.addresses.is_empty() {
            text.push('\n');
            text.push_str(&address_table(&network.addresses, frame));
        }
        text
    }
}

fn address_table(addresses: &[NetworkAddress], frame: &Frame) -> String {
    let mut table = Table::new(&["REPLICA", "ADDRESS", "NODE", "STATUS"]);
    let mut addresses: Vec<&NetworkAddress> = addresses.iter().collect();
    addresses.sort_by(|a, b| natural_order(&a.replica, &b.replica));
    for address in addresses {
        let node = address.node.clone();
        table.row([address.replica.clone(), address.address.clone(), node, status(address, frame)]);
    }
    table.render()
}

fn status(address: &NetworkAddress, frame: &Frame) -> String {
    match (address.quarantined, address.free_at_ms) {
        (false, _) => "in use".to_owned(),
        (true, 0) => "in quarantine until its node reports that the instance is gone".to_owned(),
        (true, at) if at <= frame.now_ms => "free".to_owned(),
        (true, at) => format!("in quarantine for {} s", (at - frame.now_ms + 999) / 1000),
    }
}

fn address_json(address: &NetworkAddress) -> Value {
    let rfc3339 = time::rfc3339(address.free_at_ms);
    without_null(json!({
        "address": address.address,
        "replica": address.replica,
        "raft_index": address.raft_index,
        "node": non_empty(&address.node),
        "quarantined": address.quarantined,
        "free_at": rfc3339,
    }))
}
