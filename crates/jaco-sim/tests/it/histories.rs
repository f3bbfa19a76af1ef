//! Random histories: nothing that must never be is, and after the last fault everything heals.

use jaco_sim::nemesis::{STEPS, run};

/// Runs these seeds; says what failed with the script that shows it again.
fn check(seeds: std::ops::Range<u64>) {
    let mut failed = Vec::new();
    for seed in seeds {
        let run = run(seed, STEPS, None);
        let Some(failure) = run.failure else { continue };
        let script = run.script.join("\n");
        failed.push(format!("{script}\n# seed {seed}: {failure}"));
    }
    assert!(failed.is_empty(), "{}\n{} seeds failed", failed.join("\n\n"), failed.len());
}

// In three parts, so that they run side by side.

/// Every row that an invariant of `check.rs` stands for, R-NODE-1 and R-LOOP-4 above all.
#[test]
fn random_histories_heal_1() {
    check(0..100);
}

/// See above.
#[test]
fn random_histories_heal_2() {
    check(100..200);
}

/// See above.
#[test]
fn random_histories_heal_3() {
    check(200..300);
}

/// A failure that cannot be seen again is worth nothing.
#[test]
fn a_seed_has_one_history() {
    for seed in [1, 7, 23] {
        let (one, other) = (run(seed, STEPS, None), run(seed, STEPS, None));
        assert_eq!(one.script, other.script);
        assert_eq!(one.commits, other.commits);
        assert_eq!(one.seen, other.seen);
    }
}

/// What the nemesis wrote is a script like any other, and the same happens under it.
#[test]
fn a_history_can_be_replayed_as_a_script() {
    let history = run(3, STEPS, None);
    let replayed = jaco_sim::script::run(&history.script.join("\n"));
    assert_eq!(replayed.is_ok(), history.failure.is_none());
}
