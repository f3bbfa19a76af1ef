//! The test programs of a layer, one after the other, or some of them at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::Result;

use super::outcome::Outcome;
use super::program::{Program, Start};

/// Runs them and shows their lines: those of one that is alone as they come, else all of a program at its end.
///
/// # Errors
/// If it was interrupted.
pub(super) fn run(
    programs: &[Program],
    start: &Start,
    show: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let mut outcome = match start.layer.programs_at_once() {
        1 => in_turn(programs, start, show)?,
        count => at_once(count, programs, start, show)?,
    };
    if outcome.counts().is_empty() {
        outcome.fail("not one test ran".to_owned());
    }
    Ok(outcome)
}

fn in_turn(programs: &[Program], start: &Start, show: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for program in programs {
        outcome.add(program.run(start, &mut *show)?);
    }
    Ok(outcome)
}

fn at_once(
    count: usize,
    programs: &[Program],
    start: &Start,
    show: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let next = AtomicUsize::new(0);
    let (ended, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..count {
            let (ended, next) = (ended.clone(), &next);
            scope.spawn(move || {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut lines = Vec::new();
                    let result = program.run(start, |line| lines.push(line.to_owned()));
                    // Nobody reads on after an interrupt.
                    if ended.send((lines, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(ended);
        let mut outcome = Outcome::default();
        for (lines, result) in results {
            lines.iter().for_each(|line| show(line));
            outcome.add(result?);
        }
        Ok(outcome)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::layer::Layer;
    use crate::test::outcome::Counts;
    use crate::test::program::Effort;
    use crate::workspace::Package;

    #[test]
    fn programs_at_once_are_all_run_and_their_lines_stay_together() {
        let script =
            "echo begin $CARGO_PKG_NAME; sleep 0.$((5 - CARGO_PKG_NAME)); echo end $CARGO_PKG_NAME
            echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit $((CARGO_PKG_NAME / 4))";
        let program = |number: usize| {
            let package = Package {
                id: String::new(),
                name: number.to_string(),
                version: String::new(),
                manifest: "/Cargo.toml".into(),
                dependencies: Vec::new(),
                targets: Vec::new(),
            };
            let executable = "/bin/sh".into();
            Program { name: number.to_string(), layer: Layer::Unit, executable, package }
        };
        let programs: Vec<Program> = (0..5).map(program).collect();
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        let (folders, effort) = (Vec::new(), Effort::Usual);
        let start = Start { layer: Layer::Unit, folders, arguments, effort };
        let mut lines = Vec::new();
        let mut show = |line: &str| lines.push(line.to_owned());
        let outcome = at_once(2, &programs, &start, &mut show).expect("nobody interrupts");
        assert_eq!(outcome.counts(), Counts { passed: 10, failed: 1 });
        assert!(outcome.trouble.expect("one failed").starts_with("4 ended with"));
        assert_eq!(lines.len(), 15);
        for part in lines.chunks(3) {
            assert_eq!(part[0].strip_prefix("begin "), part[1].strip_prefix("end "), "{lines:?}");
        }
    }
}
