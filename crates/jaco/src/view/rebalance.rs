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
        let RebalanceResponse { moves, index, .. } = self.0;
        if moves.is_empty() {
            return format!("nothing to move: {}\n", why_no_load_moves(self.0));
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
pub(crate) struct PlacementMoves<'a> {
    pub(crate) answer: &'a RebalanceResponse,
    /// The placements that the goal is about.
    pub(crate) placements: &'static str,
}

impl Show for PlacementMoves<'_> {
    fn json(&self) -> Value {
        let answer = self.answer;
        let mut json = LoadMoves(answer).json();
        json["concerned"] = answer.concerned.into();
        json["movable"] = answer.movable.into();
        json
    }

    fn text(&self, _: &Frame) -> String {
        let RebalanceResponse { moves, index, .. } = self.answer;
        if moves.is_empty() {
            return format!("nothing to move: {}\n", self.why_nothing_moves());
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

impl PlacementMoves<'_> {
    fn why_nothing_moves(&self) -> String {
        let RebalanceResponse { concerned, movable, .. } = self.answer;
        let replicas = count(*concerned as usize, "replica");
        let placements = self.placements;
        match (concerned, movable) {
            (0, _) => format!("no replica has {placements}"),
            (_, 0) => format!(
                "of {replicas} with {placements} none can be moved now: data, GPUs, colocation and \
                 stop-first updates keep them where they are, or they do not run yet"
            ),
            (_, movable) => format!(
                "{movable} of {replicas} with {placements} can be moved, and no single move improves the \
                 placement"
            ),
        }
    }
}

fn why_no_load_moves(answer: &RebalanceResponse) -> String {
    let RebalanceResponse { measured, hottest, hottest_pressure, trigger, .. } = answer;
    let (pressure, hot) = (percent(*hottest_pressure), percent(*trigger));
    match (measured, hottest_pressure >= trigger) {
        (0, _) => "no node has reported measurements".to_owned(),
        (_, false) => {
            format!("no node is hot; the hottest is {hottest} at {pressure}, and {hot} is hot")
        }
        (_, true) => format!(
            "{hottest} is hot at {pressure}, and no move would lower that enough; `jaco audit --type \
             rebalance_skipped` shows why"
        ),
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
