//! Moves of a rebalance.

use std::fmt::Write as _;

use jaco_proto::v1::{Move, RebalanceResponse};
use serde_json::{Value, json};

use super::json::{string_map, without_null};
use super::top::percent;
use crate::format::quantity::count;
use crate::format::table::Table;
use crate::output::{Frame, Show};

/// Moves that lower the load of hot nodes.
pub(crate) struct LoadMoves<'a>(pub(crate) &'a RebalanceResponse);

impl Show for LoadMoves<'_> {
    fn json(&self) -> Value {
        let moves = self.0.moves.iter().map(|one| string_map(&one.facts)).collect::<Value>();
        let index = Some(self.0.index).filter(|index| *index > 0);
        without_null(json!({ "moves": moves, "index": index, "measured": self.0.measured }))
    }

    fn text(&self, _: &Frame) -> String {
        let RebalanceResponse { moves, index, measured } = self.0;
        if moves.is_empty() {
            return match measured {
                0 => "nothing to move: no node has reported measurements\n".to_owned(),
                measured => format!("nothing to move; {measured} nodes report measurements\n"),
            };
        }
        let head = ["REPLICA", "FROM", "TO", "RESOURCE", "GAIN", "FROM PRESSURE", "TO PRESSURE"];
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
        with_total(&table, moves.len(), *index)
    }
}

/// Moves that improve the placement, with the potential before and after each.
pub(crate) struct PlacementMoves<'a>(pub(crate) &'a RebalanceResponse);

impl Show for PlacementMoves<'_> {
    fn json(&self) -> Value {
        LoadMoves(self.0).json()
    }

    fn text(&self, _: &Frame) -> String {
        let RebalanceResponse { moves, index, .. } = self.0;
        if moves.is_empty() {
            return "nothing to move: no single move improves the placement\n".to_owned();
        }
        let mut table = Table::new(&["REPLICA", "FROM", "TO", "POTENTIAL"]);
        for one in moves {
            let fact = |name: &str| one.facts.get(name).cloned().unwrap_or_default();
            let falls = format!("{} -> {}", fact("potential_before"), fact("potential_after"));
            table.row([fact("replica_id"), fact("src"), fact("dst"), falls]);
        }
        with_total(&table, moves.len(), *index)
    }
}

fn with_total(table: &Table, moves: usize, index: u64) -> String {
    let mut text = table.render();
    let state = if index > 0 { "started" } else { "planned; --apply makes them" };
    writeln!(text, "\n{} {state}", count(moves, "move")).expect("writing to a string cannot fail");
    text
}

/// A value such as `0.8500` as a percentage.
fn percent_of(one: &Move, fact: &str) -> String {
    let text = one.facts.get(fact).map(String::as_str).unwrap_or_default();
    let digits: Option<u64> = text.replacen('.', "", 1).parse().ok();
    digits.map(|tenthousandths| percent(tenthousandths.saturating_mul(100))).unwrap_or_default()
}
