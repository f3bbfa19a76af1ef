//! How long a planner's pass takes: its own stopwatch, run several times.

use anyhow::{Result, ensure};

use super::table::{Promise, Row};
use crate::process;
use crate::workspace::Workspace;

const RUNS: usize = 3;
const NODES: &str = "1000";
const REPLICAS: &str = "20000";

/// Times passes over 1,000 nodes and 20,000 replicas.
///
/// # Errors
/// If the stopwatch does not build or says nothing.
pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..RUNS {
        let mut command = workspace.cargo();
        command.args(["run", "--quiet", "--release", "-p", "jaco-scheduler", "--example", "pass"]);
        let text = process::capture(command.args(["--", NODES, REPLICAS]))?;
        for (what, millis) in text.lines().filter_map(timed) {
            let name = format!("planner, {what}");
            match rows.iter_mut().find(|row| row.name == name) {
                Some(row) => row.ours.push(millis),
                None => rows.push(Row {
                    name,
                    unit: "ms".to_owned(),
                    ours: vec![millis],
                    theirs: None,
                    promise: Promise::None,
                }),
            }
        }
    }
    ensure!(!rows.is_empty(), "the planner's stopwatch shows no times");
    Ok(rows)
}

/// What was timed and for how many milliseconds, in a line like `nothing to do: 1.23 ms …`.
fn timed(line: &str) -> Option<(&str, f64)> {
    let (what, rest) = line.split_once(':')?;
    let (figure, _) = rest.trim_start().split_once(" ms")?;
    Some((what.trim(), figure.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let line = "         nothing to do:      6.06 ms      303 ns/replica  0 changes";
        assert_eq!(timed(line), Some(("nothing to do", 6.06)));
        assert_eq!(timed("1000 nodes, 20000 replicas"), None);
    }
}
