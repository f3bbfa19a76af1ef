//! How long compose files take from text to hashed specs, beside the YAML parser alone: the loader's
//! own stopwatch, run several times.

use anyhow::{Result, ensure};

use super::build::Build;
use super::table::{Promise, Row};
use crate::process;
use crate::workspace::Workspace;

const RUNS: usize = 5;
const WHO: &str = "YAML parser alone";

/// How the time of one service grows with their number. The ratio of the shortest times, because what
/// else runs on a machine only ever adds.
pub(super) const GROWTH: &str = "compose, time per service from 1000 to 4000";

/// Reading a file is linear in its length, but for what no longer fits into caches.
pub(super) const GROWTH_MAX: f64 = 1.1;

/// Times the median and the largest real file, where there are any, and made ones that grow.
///
/// # Errors
/// If the stopwatch does not build or says nothing.
pub(super) fn measure(workspace: &Workspace, build: Build) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..RUNS {
        let mut command = workspace.cargo();
        command.args(["run", "--quiet"]).args(build.arguments());
        command.args(["-p", "jaco-compose", "--example", "load"]);
        let text = process::capture(&mut command)?;
        for (what, parser, ours) in text.lines().filter_map(timed) {
            add(&mut rows, &format!("compose, {what}"), parser, ours);
        }
    }
    ensure!(!rows.is_empty(), "the loader's stopwatch shows no times");
    rows.extend(growth(&rows));
    Ok(rows)
}

fn growth(rows: &[Row]) -> Option<Row> {
    let per_service = |count: f64| {
        let name = format!("compose, {count} services");
        let row = rows.iter().find(|row| row.name == name)?;
        Some(row.ours.iter().copied().reduce(f64::min)? / count)
    };
    Some(Row {
        name: GROWTH.to_owned(),
        unit: "×".to_owned(),
        ours: vec![per_service(4000.0)? / per_service(1000.0)?],
        theirs: None,
        promise: Promise::None,
    })
}

fn add(rows: &mut Vec<Row>, name: &str, parser: f64, ours: f64) {
    let known = rows.iter_mut().find(|row| row.name == name);
    match known.and_then(|row| Some((&mut row.ours, &mut row.theirs.as_mut()?.1))) {
        Some((all, theirs)) => {
            all.push(ours);
            theirs.push(parser);
        }
        None => rows.push(Row {
            name: name.to_owned(),
            unit: "ms".to_owned(),
            ours: vec![ours],
            theirs: Some((WHO.to_owned(), vec![parser])),
            promise: Promise::None,
        }),
    }
}

/// Name, the parser's and our milliseconds, of a row `| name | bytes | 35.1µs | 65.2µs | 1.86 |`.
fn timed(line: &str) -> Option<(&str, f64, f64)> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [name, _, parser, ours, _] = cells.as_slice() else { return None };
    Some((name, millis(parser)?, millis(ours)?))
}

/// A duration as Rust prints it.
fn millis(text: &str) -> Option<f64> {
    let (number, scale) = [("ns", 1e-6), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3)]
        .into_iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    Some(number.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_gathered() {
        assert_eq!(
            timed("| 1000 services | 475281 | 7.5ms | 1.25s | 3.10 |"),
            Some(("1000 services", 7.5, 1250.0))
        );
        assert_eq!(timed("| file | bytes | parser | load+resolve+hash | ratio |"), None);
        assert_eq!(timed("|---|---|---|---|---|"), None);
        assert_eq!(
            (millis("500µs"), millis("250000ns"), millis("5")),
            (Some(0.5), Some(0.25), None)
        );
        let mut rows = Vec::new();
        for ours in [1.0, 3.0] {
            add(&mut rows, "compose, x", 0.5, ours);
        }
        assert_eq!((rows.len(), rows[0].ours.as_slice()), (1, [1.0, 3.0].as_slice()));
    }

    #[test]
    fn growth_is_that_of_the_shortest_times() {
        let mut rows = Vec::new();
        for (name, ours) in [("1000", 10.0), ("1000", 20.0), ("4000", 90.0), ("4000", 60.0)] {
            add(&mut rows, &format!("compose, {name} services"), 1.0, ours);
        }
        assert_eq!(growth(&rows).map(|row| row.ours), Some(vec![1.5]));
        assert!(growth(&rows[..1]).is_none());
    }
}
