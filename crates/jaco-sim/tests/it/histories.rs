//! Random histories: nothing that must never be is, and after the last fault everything heals.

use jaco_sim::coverage::{Coverage, Decision, Met};
use jaco_sim::nemesis::{STEPS, Style, run};
use jaco_state::command::{Previous, ReplaceCause};
use jaco_types::{Completion, ReplicaState};

/// Runs these seeds; says what failed with the script that shows it again. Returns what was decided in which states.
fn check(style: Style, seeds: std::ops::Range<u64>) -> Coverage {
    let (mut failed, mut coverage) = (Vec::new(), Coverage::default());
    for seed in seeds {
        let run = run(seed, STEPS, style, None);
        coverage.add(&run.coverage);
        let Some(failure) = run.failure else { continue };
        let script = run.script.join("\n");
        failed.push(format!("{script}\n# seed {seed}: {failure}"));
    }
    assert!(failed.is_empty(), "{}\n{} seeds failed", failed.join("\n\n"), failed.len());
    coverage
}

// In three parts, so that they run side by side.

/// Every row that an invariant of the simulation stands for, R-NODE-1 and R-LOOP-4 above all.
#[test]
fn random_histories_heal() {
    check(Style::Plain, 0..60);
}

/// The same with more nodes, every key of the planner, and faults that come together.
#[test]
fn harsh_histories_heal_1() {
    check(Style::Harsh, 0..40);
}

/// See above.
#[test]
fn harsh_histories_heal_2() {
    check(Style::Harsh, 40..80);
}

/// What histories reach, laws are asked about: these are not left out by a change of the nemesis or of the planner.
#[test]
fn swarm_histories_heal_and_reach_what_the_planner_decides() {
    let coverage = check(Style::Swarm, 0..60);
    let replace = |cause, previous| Decision::Replace(cause, previous);
    let reached = [
        (replace(ReplaceCause::SpecChanged, Previous::Retire), ReplicaState::Running),
        (replace(ReplaceCause::SpecChanged, Previous::Drop), ReplicaState::Running),
        (replace(ReplaceCause::Failed, Previous::Drop), ReplicaState::Failed),
        (replace(ReplaceCause::Failed, Previous::Drop), ReplicaState::Stopped),
        (replace(ReplaceCause::NodeLost, Previous::Drop), ReplicaState::Running),
        (replace(ReplaceCause::Moved, Previous::Retire), ReplicaState::Running),
        (Decision::Finish(Completion::Succeeded), ReplicaState::Stopped),
        (Decision::Settle, ReplicaState::Running),
        (Decision::SetRestarts, ReplicaState::Running),
        (Decision::SetRestarts, ReplicaState::Failed),
        (Decision::Disable, ReplicaState::Running),
        (Decision::Remove, ReplicaState::Running),
        (Decision::Remove, ReplicaState::Pulling),
    ];
    for (decision, state) in reached {
        assert!(
            coverage.count(decision, Met::Seen(state)) > 0,
            "{decision}, {state:?}:\n{coverage}"
        );
    }
    let enabled = replace(ReplaceCause::Enabled, Previous::Drop);
    assert!(coverage.count(enabled, Met::AtRest) > 0, "{coverage}");
    assert!(coverage.count(Decision::Remove, Met::NodeAway) > 0, "{coverage}");
    assert!(coverage.count(Decision::Remove, Met::Unseen) > 0, "{coverage}");
}

/// A replica that is disabled by itself and with its whole node is enabled in the end, whatever was disabled first.
#[test]
fn what_is_disabled_within_another_is_enabled_in_the_end() {
    check(Style::Swarm, 9508..9509);
}

/// SIM-12: a clock that is set by minutes delays nothing. It did while entries and reports carried clocks themselves.
#[test]
fn a_clock_that_is_set_delays_nothing() {
    check(Style::Harsh, 101..102);
}

/// SIM-11: an agent does what it waits for although the cluster's time steps back when its node hears of another leader.
#[test]
fn an_agent_waits_by_a_time_that_does_not_step() {
    check(Style::Harsh, 355..356);
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
