//! How long a planner's pass takes: its own stopwatch, run several times at two sizes.

use anyhow::{Result, ensure};

use super::build::Build;
use super::table::{Promise, Row};
use crate::process;
use crate::workspace::Workspace;

const RUNS: usize = 5;

/// Nodes and replicas; the larger is the published limit of a Kubernetes cluster.
const SIZES: [(&str, &str); 2] = [("1250", "37500"), ("5000", "150000")];

/// Times passes at both sizes, and how the time of one replica grows from the smaller to the larger.
///
/// # Errors
/// If the stopwatch does not build or says nothing.
pub(super) fn measure(workspace: &Workspace, build: Build) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut per_replica = [const { Vec::new() }; SIZES.len()];
    for _ in 0..RUNS {
        for (size, (nodes, replicas)) in SIZES.into_iter().enumerate() {
            let mut command = workspace.cargo();
            command.args(["run", "--quiet"]).args(build.arguments());
            command.args(["-p", "jaco-scheduler"]);
            command.args(["--example", "pass", "--", nodes, replicas]);
            let text = process::capture(&mut command)?;
            for figure in text.lines().flat_map(figures) {
                if figure.what == "from scratch" && figure.unit == "ns/replica" {
                    per_replica[size].push(figure.value);
                }
                let name = format!("planner {nodes} × {replicas}, {}", figure.what);
                add(&mut rows, name, figure.unit, figure.value);
            }
        }
    }
    let [small, large] = per_replica.map(|times: Vec<f64>| times.into_iter().reduce(f64::min));
    if let (Some(small), Some(large)) = (small, large) {
        add(&mut rows, GROWTH.to_owned(), "×", large / small);
    }
    ensure!(!rows.is_empty(), "the planner's stopwatch shows no times");
    Ok(rows)
}

/// The growth of one replica's time: logarithmic if the whole grows as n log n. The ratio of the
/// shortest times, because what else runs on a machine only ever adds.
pub(super) const GROWTH: &str = "planner, ns/replica from 37500 to 150000";

/// What n log n allows: log 150,000 / log 37,500.
pub(super) const GROWTH_MAX: f64 = 1.132;

fn add(rows: &mut Vec<Row>, name: String, unit: &str, value: f64) {
    match rows.iter_mut().find(|row| row.name == name && row.unit == unit) {
        Some(row) => row.ours.push(value),
        None => rows.push(Row {
            name,
            unit: unit.to_owned(),
            ours: vec![value],
            theirs: None,
            promise: Promise::None,
        }),
    }
}

/// One figure of the stopwatch.
#[derive(Debug, PartialEq)]
struct Figure<'t> {
    what: &'t str,
    value: f64,
    unit: &'static str,
}

/// The figures in a line like `nothing to do: 1.23 ms  303 ns/replica  0 changes`. The time of one
/// replica says something only where all of them are placed.
fn figures(line: &str) -> Vec<Figure<'_>> {
    let Some((what, rest)) = line.split_once(':') else { return Vec::new() };
    let what = what.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let value_of = |unit: &str| {
        let at = words.iter().position(|word| *word == unit)?.checked_sub(1)?;
        words[at].parse().ok()
    };
    let units = ["ms", "ns/replica", "bytes/replica"];
    let wanted = units.into_iter().filter(|unit| *unit != "ns/replica" || what == "from scratch");
    wanted.filter_map(|unit| Some(Figure { what, value: value_of(unit)?, unit })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let line = "          from scratch:    293.49 ms     1957 ns/replica  157500 changes";
        let of = |what, value, unit| Figure { what, value, unit };
        assert_eq!(
            figures(line),
            [of("from scratch", 293.49, "ms"), of("from scratch", 1957.0, "ns/replica"),]
        );
        let line = "nothing to do:      6.06 ms      303 ns/replica  0 changes";
        assert_eq!(figures(line), [of("nothing to do", 6.06, "ms")]);
        let line = "                memory: 689 bytes/replica at the peak";
        assert_eq!(figures(line), [of("memory", 689.0, "bytes/replica")]);
        assert_eq!(figures("1000 nodes, 20000 replicas"), []);
    }
}
