//! Random histories: nothing that must never be is, and after the last fault everything heals.

use jaco_sim::nemesis::{STEPS, Style, run};

/// Runs these seeds; says what failed with the script that shows it again.
fn check(style: Style, seeds: std::ops::Range<u64>) {
    let mut failed = Vec::new();
    for seed in seeds {
        let run = run(seed, STEPS, style, None);
        let Some(failure) = run.failure else { continue };
        let script = run.script.join("\n");
        failed.push(format!("{script}\n# seed {seed}: {failure}"));
    }
    assert!(failed.is_empty(), "{}\n{} seeds failed", failed.join("\n\n"), failed.len());
}

// In three parts, so that they run side by side.

/// Every row that an invariant of the simulation stands for, R-NODE-1 and R-LOOP-4 above all.
#[test]
fn random_histories_heal() {
    check(Style::Plain, 0..120);
}

/// The same with more nodes, every key of the planner, and faults that come together.
#[test]
fn harsh_histories_heal_1() {
    check(Style::Harsh, 0..60);
}

/// See above.
#[test]
fn harsh_histories_heal_2() {
    check(Style::Harsh, 60..120);
}

/// A failure that cannot be seen again is worth nothing.
#[test]
fn a_seed_has_one_history() {
    for seed in [1, 7, 23] {
        let once = || run(seed, STEPS, Style::Harsh, None);
        let (one, other) = (once(), once());
        assert_eq!(one.script, other.script);
        assert_eq!(one.commits, other.commits);
        assert_eq!(one.seen, other.seen);
    }
}

/// What the nemesis wrote is a script like any other, and the same happens under it.
#[test]
fn a_history_can_be_replayed_as_a_script() {
    let history = run(3, STEPS, Style::Harsh, None);
    let replayed = jaco_sim::script::run(&history.script.join("\n"));
    assert_eq!(replayed.is_ok(), history.failure.is_none());
}
