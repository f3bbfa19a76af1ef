//! The leader dies at any moment of a rollout and of a drain: the next one finishes it.

use jaco_sim::script::run;

/// The moments at which the leader dies, milliseconds after the request: close enough to fall between
/// any two entries, which are a round trip and the planner's 50 ms apart.
fn moments() -> impl Iterator<Item = u64> {
    (0..3_000).step_by(40)
}

/// Runs the script once for each moment; `{kill}` stands for the death of the leader.
fn check(script: &str) {
    let mut failed = Vec::new();
    for moment in moments() {
        let kill = format!("advance {moment}ms\nkill leader\nadvance 3s\nstart all");
        let script = script.replace("{kill}", &kill);
        if let Err(error) = run(&script) {
            failed.push(format!("after {moment} ms: {error}: {}", source(&error)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn source(error: &jaco_sim::script::ScriptError) -> String {
    error.source.to_string()
}

/// R-ROLL-2: no replica is missing, each step is made once, and the rollout ends. The
/// simulation checks SIM-3, SIM-5 and SIM-6 at every event.
#[test]
fn a_rollout_survives_its_leader_at_every_moment() {
    check(
        "nodes n1 n2 n3
         apply shop web image=web:1 replicas=3
         settle
         change shop web image=web:2
         {kill}
         settle
         expect running shop/web 3
         expect rest",
    );
}

/// R-NODE-2: the same while a node is drained.
#[test]
fn a_drain_survives_its_leader_at_every_moment() {
    check(
        "nodes n1 n2 n3 n4
         apply shop web image=web:1 replicas=8
         settle
         drain n4
         {kill}
         settle
         expect running shop/web 8
         uncordon n4
         settle
         expect rest",
    );
}
