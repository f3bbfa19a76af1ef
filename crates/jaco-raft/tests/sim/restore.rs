//! Named regression: a restarted leader that resumes its term gives one log id to two writes.
//!
//! A leader sends an entry before its own disk has it, which raft allows, because a leader that
//! crashes must be elected again. If it resumes its term instead, it has forgotten the entry, uses
//! its id for the next write, and the follower that holds the first keeps it: an acknowledged write
//! is gone there. The library does so by default; `timing.rs` turns it off.

use std::collections::BTreeMap;
use std::time::Duration;

use jaco_raft::testing::{Sabotage, SimStorage, Syncing};

use crate::world::{self, Shared, name};

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Every acknowledged write is everywhere.
    Kept,
    /// A follower refused its leader because their histories differ, before the loss.
    Noticed,
    /// An acknowledged write is gone, or nodes differ.
    Lost,
}

/// Shows the loss with both protections off, that either suffices, and that both are on.
pub(crate) fn check() -> Result<(), String> {
    let expected = [
        (Sabotage::LeaderRestoreUnnoticed, Outcome::Lost),
        (Sabotage::LeaderRestore, Outcome::Noticed),
        (Sabotage::None, Outcome::Kept),
    ];
    for (sabotage, expected) in expected {
        let outcome = run(sabotage)?;
        if outcome != expected {
            return Err(format!("{sabotage:?} ended with {outcome:?}, not {expected:?}"));
        }
    }
    Ok(())
}

fn run(sabotage: Sabotage) -> Result<Outcome, String> {
    let shared = Shared::new(1, 3, sabotage).without_clients();
    let storages: BTreeMap<u64, SimStorage> =
        (1..=3).map(|id| (id, SimStorage::new(id, Syncing::Honest))).collect();
    let mut sim = turmoil::Builder::new()
        .rng_seed(1)
        .tick_duration(Duration::from_millis(1))
        .simulation_duration(Duration::from_secs(120))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(2))
        .build();
    world::start_nodes(&mut sim, &shared, &storages);
    world::settle(&mut sim, &shared)?;
    let handles = shared.handles.lock().unwrap().clone();
    let status = handles[&1].status();
    if !status.is_leader() {
        return Err("the scenario needs node 1 to lead".to_owned());
    }
    let index = status.last_log.unwrap() + 1;
    drop(handles);

    // The leader's disk hangs; the entry reaches one follower and is durable there alone.
    storages[&1].log.stall();
    sim.partition(name(1), name(3));
    let (first, payload) = shared.oracle.payload(0);
    shared.orders.lock().unwrap().push((1, first, payload));
    while !storages[&2].log.durable_indices().contains(&index) {
        world::step(&mut sim)?;
    }

    // The leader crashes without it, returns, and is asked for another write.
    sim.crash(name(1));
    shared.handles.lock().unwrap().remove(&1);
    storages[&1].crash();
    sim.bounce(name(1));
    let (second, payload) = shared.oracle.payload(0);
    shared.orders.lock().unwrap().push((1, second, payload));
    let until = sim.elapsed() + Duration::from_millis(300);
    while sim.elapsed() < until && !shared.oracle.is_acknowledged(second) {
        world::step(&mut sim)?;
        if shared.oracle.check_now().is_err() {
            return Ok(Outcome::Noticed);
        }
    }

    world::repair_all(&sim, 3);
    world::settle(&mut sim, &shared)?;
    let handles = shared.handles.lock().unwrap().clone();
    Ok(match shared.oracle.check_end(&handles) {
        Ok(()) => Outcome::Kept,
        Err(lost) => {
            println!("leader restore, {sabotage:?}: {lost}");
            Outcome::Lost
        }
    })
}
