//! How long a change takes from the replicated state to the tables of a router, and what a router costs: the
//! stopwatch of `jaco-net`, which runs real routers in network namespaces.

use anyhow::{Result, ensure};

use super::build::Build;
use super::table::{Promise, Row};
use crate::process;
use crate::test;
use crate::workspace::Workspace;

const RUNS: usize = 3;

/// Runs the stopwatch, several times.
///
/// # Errors
/// If it does not build, needs what this machine has not, or shows no times.
pub(super) fn measure(workspace: &Workspace, build: Build) -> Result<Vec<Row>> {
    test::ensure_packet_tools()?;
    let mut rows = Vec::new();
    for _ in 0..RUNS {
        let mut command = workspace.cargo();
        command.args(["test", "--quiet", "-p", "jaco-net", "--test", "net"]);
        command.args(build.arguments()).args(["--", "--stopwatch"]);
        let text = process::capture(&mut command)?;
        text.lines().filter_map(figure).for_each(|figure| add(&mut rows, figure));
    }
    ensure!(!rows.is_empty(), "the stopwatch of the network shows no times");
    Ok(rows)
}

/// Name, value and unit of a line like `plan from a topology: 41.230 ms`.
fn figure(line: &str) -> Option<(&str, f64, &str)> {
    let (name, rest) = line.split_once(": ")?;
    let (value, unit) = rest.split_once(' ')?;
    Some((name, value.parse().ok()?, unit))
}

fn add(rows: &mut Vec<Row>, (name, value, unit): (&str, f64, &str)) {
    let name = format!("net, {name}");
    match rows.iter_mut().find(|row| row.name == name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_gathered() {
        assert_eq!(
            figure("plan from a topology: 41.230 ms"),
            Some(("plan from a topology", 41.23, "ms"))
        );
        assert_eq!(figure("# 500 x 50: the state itself took 193ms"), None);
        assert_eq!(figure(""), None);
        let mut rows = Vec::new();
        for value in [1.0, 3.0] {
            add(&mut rows, ("x", value, "ms"));
        }
        assert_eq!((rows.len(), rows[0].ours.as_slice()), (1, [1.0, 3.0].as_slice()));
    }
}
