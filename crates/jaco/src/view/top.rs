//! Resource usage of nodes and replicas, and requests of routes.

use jaco_proto::v1::{Amount, TopResponse};
use jaco_types::unit::Bytes;
use serde_json::{Value, json};

use super::json::without_null;
use super::traffic;
use crate::format::table::Table;
use crate::output::{Frame, Show};

/// The result of `jaco top`.
pub(crate) struct Top<'a>(pub(crate) &'a TopResponse);

impl Show for Top<'_> {
    fn json(&self) -> Value {
        let nodes = self.0.nodes.iter().map(|node| {
            without_null(json!({
                "hostname": node.hostname,
                "pressure": node.pressure.map(fraction),
                "measured": node.measured.as_ref().map(amount),
                "reserved": node.reserved.as_ref().map(amount),
                "limit": node.limit.as_ref().map(amount),
                "capacity": node.capacity.as_ref().map(amount),
                "replicas": node.replicas,
            }))
        });
        let replicas = self.0.replicas.iter().map(|replica| {
            without_null(json!({
                "id": replica.id,
                "deployment": replica.deployment,
                "service": replica.service,
                "node": replica.node,
                "pressure": replica.pressure.map(fraction),
                "measured": replica.measured.as_ref().map(amount),
                "reserved": replica.reserved.as_ref().map(amount),
                "limit": replica.limit.as_ref().map(amount),
            }))
        });
        json!({
            "nodes": nodes.collect::<Value>(),
            "replicas": replicas.collect::<Value>(),
            "routes": traffic::json(&self.0.routes),
            "idle_routes": self.0.idle_routes,
            "routes_left_out": self.0.routes_left_out,
            "unknown_edges": self.0.unknown_edges,
        })
    }

    fn text(&self, frame: &Frame) -> String {
        let columns = [
            "PRESSURE",
            "CPU",
            "CPU RESERVED",
            "CPU LIMIT",
            "MEMORY",
            "MEMORY RESERVED",
            "MEMORY LIMIT",
        ];
        let mut nodes = Table::new(&[["NODE", "REPLICAS"].as_slice(), &columns].concat());
        for node in &self.0.nodes {
            let used = (&node.measured, &node.reserved, &node.limit);
            let row = [node.hostname.clone(), node.replicas.to_string()];
            nodes.row(row.into_iter().chain(cells(node.pressure, used)));
        }
        let mut replicas = Table::new(&[["REPLICA", "NODE"].as_slice(), &columns].concat());
        for replica in &self.0.replicas {
            let used = (&replica.measured, &replica.reserved, &replica.limit);
            let row = [replica.id.clone(), replica.node.clone()];
            replicas.row(row.into_iter().chain(cells(replica.pressure, used)));
        }
        let replicas = (!replicas.is_empty()).then(|| replicas.render());
        let routes = traffic::text(self.0, frame.detail);
        let all: Vec<String> =
            [Some(nodes.render()), replicas, routes].into_iter().flatten().collect();
        all.join("\n")
    }
}

type Usage<'a> = (&'a Option<Amount>, &'a Option<Amount>, &'a Option<Amount>);

/// Pressure, then CPU and memory: measured, reserved, limit. An unknown or unset value is an empty cell.
fn cells(pressure: Option<u64>, (measured, reserved, limit): Usage<'_>) -> [String; 7] {
    let set = |amount: u64, show: fn(u64) -> String| match amount {
        0 => String::new(),
        amount => show(amount),
    };
    let cpu = |millis: u64| format!("{millis}m");
    let memory = |bytes: u64| Bytes(bytes).to_string();
    let (of_cpu, of_memory) = (|it: &Amount| it.cpu_millis, |it: &Amount| it.memory_bytes);
    let stated = |amount: &Option<Amount>, of: fn(&Amount) -> u64, show: fn(u64) -> String| {
        amount.as_ref().map(|amount| set(of(amount), show)).unwrap_or_default()
    };
    [
        pressure.map(percent).unwrap_or_default(),
        measured.as_ref().map(|amount| cpu(amount.cpu_millis)).unwrap_or_default(),
        stated(reserved, of_cpu, cpu),
        stated(limit, of_cpu, cpu),
        measured.as_ref().map(|amount| memory(amount.memory_bytes)).unwrap_or_default(),
        stated(reserved, of_memory, memory),
        stated(limit, of_memory, memory),
    ]
}

fn amount(amount: &Amount) -> Value {
    json!({ "cpu_millis": amount.cpu_millis, "memory_bytes": amount.memory_bytes })
}

/// A ratio with four decimals, as in audit events.
fn fraction(millionths: u64) -> Value {
    let rounded = millionths.saturating_add(50) / 100;
    Value::String(format!("{}.{:04}", rounded / 10_000, rounded % 10_000))
}

pub(super) fn percent(millionths: u64) -> String {
    format!("{}%", millionths.saturating_add(5_000) / 10_000)
}
