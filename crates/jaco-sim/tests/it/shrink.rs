//! Histories that break a law become short without breaking another one.

use jaco_sim::{Sabotage, Session, shrink};

fn lines(script: &str) -> Vec<String> {
    script.lines().map(|line| line.trim().to_owned()).collect()
}

fn broken(lines: &[String], sabotage: Sabotage) -> Option<&'static str> {
    let mut session = Session::new(0, Some(sabotage));
    let _stopped = lines.iter().try_for_each(|line| session.line(line)).is_err();
    Some(session.world()?.violations().first()?.broken.id())
}

/// What is left breaks the same law, and not without any of its lines.
#[test]
fn what_is_left_breaks_the_same_law_and_no_line_can_go() {
    let sabotage = Sabotage::DropInsteadOfRetire;
    let script = lines(
        "nodes n1 n2 n3
        apply blog web image=web:1
        cordon n3
        advance 3s
        apply shop web image=web:1 replicas=3
        settle
        uncordon n3
        change shop web image=web:2
        settle
        delete blog
        settle",
    );
    assert_eq!(broken(&script, sabotage), Some("SIM-5"));
    let few = shrink(&script, Some(sabotage));
    assert_eq!(broken(&few, sabotage), Some("SIM-5"), "{few:?}");
    for left_out in 0..few.len() {
        let fewer = [&few[..left_out], &few[left_out + 1..]].concat();
        assert_ne!(broken(&fewer, sabotage), Some("SIM-5"), "{few:?} without line {left_out}");
    }
    assert!(few.len() <= 5, "{few:?}");
}

/// Nothing to shrink, nothing lost.
#[test]
fn what_breaks_no_law_stays() {
    let script = lines("nodes n1\napply shop web image=web:1\nsettle");
    assert_eq!(shrink(&script, None), script);
}
