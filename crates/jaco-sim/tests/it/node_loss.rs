//! What stops by itself on a node that is cut off has stopped before its successor starts, whenever
//! the node is cut off, however, and however wrong its clock goes within the bound.

use jaco_sim::Sabotage;
use jaco_sim::script::{CommandError, Session};

/// How the node n1 is cut off from the rest.
const CUTS: [&str; 3] = [
    "partition n1 | n2 n3",
    // It hears everything, and nobody hears it.
    "cut n1 -> n2\ncut n1 -> n3",
    // It is heard, and hears nothing.
    "cut n2 -> n1\ncut n3 -> n1",
];

/// Runs `web` on all nodes, cuts n1 off and heals it. Its containers take most of their grace.
fn run(drift: i64, moment: u64, cut: &str, sabotage: Option<Sabotage>) -> Result<(), CommandError> {
    let script = format!(
        "nodes n1 n2 n3
         image web:1 stops in 9s
         apply shop web image=web:1 replicas=3 loss=stop_self:20s
         settle
         drift n1 {drift}
         advance {moment}ms
         {cut}
         advance 90s
         heal
         settle
         expect running shop/web 3
         expect rest"
    );
    let mut session = Session::new(0, sabotage);
    script.lines().try_for_each(|line| session.line(line.trim()))
}

/// R-NODE-1, SIM-15: at no moment a successor beside an instance that its node should have stopped.
#[test]
fn an_isolated_instance_stops_before_its_successor_starts() {
    for cut in CUTS {
        for drift in [-90, 0, 90] {
            for moment in (0..3_000).step_by(230) {
                let result = run(drift, moment, cut, None);
                assert!(result.is_ok(), "{cut}, drift {drift}, after {moment} ms: {result:?}");
            }
        }
    }
}

/// The law can be broken: by an agent that does not look, and by a clock far beyond the bound.
#[test]
fn an_instance_that_runs_on_is_found() {
    let is_found =
        |result| matches!(result, Err(CommandError::Broken(it)) if it.broken.id() == "SIM-15");
    assert!(is_found(run(0, 0, CUTS[0], Some(Sabotage::NeverIsolated))));
    assert!(is_found(run(-600, 0, CUTS[0], None)));
}
