//! What nodes and replicas use, and what leaves hot nodes.

use std::fmt::Write as _;

use jaco_proto::v1::{Amount, Move, RebalanceResponse, TopResponse};
use jaco_types::unit::Bytes;
use serde_json::{Value, json};

use super::{facts, without_null};
use crate::table::Table;
use crate::ui::{Frame, Show};

/// The answer of `jaco top`.
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
        json!({ "nodes": nodes.collect::<Value>(), "replicas": replicas.collect::<Value>() })
    }

    fn text(&self, _: &Frame) -> String {
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
        if replicas.is_empty() {
            return nodes.render();
        }
        format!("{}\n{}", nodes.render(), replicas.render())
    }
}

/// The answer of `jaco rebalance`.
pub(crate) struct Rebalanced<'a>(pub(crate) &'a RebalanceResponse);

impl Show for Rebalanced<'_> {
    fn json(&self) -> Value {
        let moves = self.0.moves.iter().map(|one| facts(&one.facts)).collect::<Value>();
        let index = Some(self.0.index).filter(|index| *index > 0);
        without_null(json!({ "moves": moves, "index": index, "measured": self.0.measured }))
    }

    fn text(&self, _: &Frame) -> String {
        let RebalanceResponse { moves, index, measured } = self.0;
        if moves.is_empty() {
            return match measured {
                0 => "nothing to move: no node has measured itself yet\n".to_owned(),
                measured => format!("nothing to move; {measured} nodes measure themselves\n"),
            };
        }
        let head = ["REPLICA", "FROM", "TO", "FOR", "RELIEF", "FROM PRESSURE", "TO PRESSURE"];
        let mut table = Table::new(&head);
        for one in moves {
            let fact = |name: &str| one.facts.get(name).cloned().unwrap_or_default();
            let change = |side: &str| {
                let of = |when: &str| percent_of(one, &format!("{side}_pressure_{when}"));
                format!("{} -> {}", of("before"), of("after"))
            };
            table.row([
                fact("replica_id"),
                fact("src"),
                fact("dst"),
                fact("dominant"),
                percent_of(one, "relief"),
                change("src"),
                change("dst"),
            ]);
        }
        with_sum(&table, moves.len(), *index)
    }
}

/// Moves that bring replicas in order, with what each buys.
pub(crate) struct Ordered<'a>(pub(crate) &'a RebalanceResponse);

impl Show for Ordered<'_> {
    fn json(&self) -> Value {
        Rebalanced(self.0).json()
    }

    fn text(&self, _: &Frame) -> String {
        let RebalanceResponse { moves, index, .. } = self.0;
        if moves.is_empty() {
            return "nothing to move: no single move makes it better\n".to_owned();
        }
        let mut table = Table::new(&["REPLICA", "FROM", "TO", "POTENTIAL"]);
        for one in moves {
            let fact = |name: &str| one.facts.get(name).cloned().unwrap_or_default();
            let falls = format!("{} -> {}", fact("potential_before"), fact("potential_after"));
            table.row([fact("replica_id"), fact("src"), fact("dst"), falls]);
        }
        with_sum(&table, moves.len(), *index)
    }
}

fn with_sum(table: &Table, moves: usize, index: u64) -> String {
    let mut text = table.render();
    let what = if index > 0 { "under way" } else { "planned; --apply makes them" };
    let plural = if moves == 1 { "move" } else { "moves" };
    writeln!(text, "\n{moves} {plural} {what}").expect("text takes all");
    text
}

type Uses<'a> = (&'a Option<Amount>, &'a Option<Amount>, &'a Option<Amount>);

/// Pressure, then processors and memory: in use, reserved, limited. What is not known or not said is
/// an empty cell.
fn cells(pressure: Option<u64>, (measured, reserved, limit): Uses<'_>) -> [String; 7] {
    let said = |amount: u64, show: fn(u64) -> String| match amount {
        0 => String::new(),
        amount => show(amount),
    };
    let cpu = |millis: u64| format!("{millis}m");
    let memory = |bytes: u64| Bytes(bytes).to_string();
    let (of_cpu, of_memory) = (|it: &Amount| it.cpu_millis, |it: &Amount| it.memory_bytes);
    let stated = |amount: &Option<Amount>, of: fn(&Amount) -> u64, show: fn(u64) -> String| {
        amount.as_ref().map(|amount| said(of(amount), show)).unwrap_or_default()
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

/// A share as the audit writes it: four decimals.
fn fraction(millionths: u64) -> Value {
    let rounded = millionths.saturating_add(50) / 100;
    Value::String(format!("{}.{:04}", rounded / 10_000, rounded % 10_000))
}

fn percent(millionths: u64) -> String {
    format!("{}%", millionths.saturating_add(5_000) / 10_000)
}

/// A fact such as `0.8500`, as people read it.
fn percent_of(one: &Move, fact: &str) -> String {
    let text = one.facts.get(fact).map(String::as_str).unwrap_or_default();
    let digits: Option<u64> = text.replacen('.', "", 1).parse().ok();
    digits.map(|tenthousandths| percent(tenthousandths.saturating_mul(100))).unwrap_or_default()
}
