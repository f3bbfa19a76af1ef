//! How soon a leader is replaced: at once where its process has ended, and after its lease where it only cannot be
//! reached.

use std::collections::BTreeMap;
use std::time::Duration;

use jaco_raft::Timing;
use jaco_raft::testing::{Sabotage, SimStorage, Syncing};
use turmoil::Sim;

use crate::world::{self, Shared, name};

/// What happens to the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// `kill -9`: its machine closes its connections and its port.
    Ended,
    /// Nobody hears of it any more.
    CutOff,
}

/// Both fates, on a few seeds each.
pub(crate) fn check() -> Result<(), String> {
    let Timing { election_min, election_max: lease, .. } = Timing::default();
    for seed in 1..=10 {
        let ended = replaced_after(seed, Fate::Ended)?;
        if ended >= election_min {
            return Err(format!("seed {seed}: a leader that ended was replaced after {ended:?}"));
        }
        let cut_off = replaced_after(seed, Fate::CutOff)?;
        if cut_off < lease {
            return Err(format!(
                "seed {seed}: a leader was replaced within its lease: {cut_off:?}"
            ));
        }
    }
    Ok(())
}

fn replaced_after(seed: u64, fate: Fate) -> Result<Duration, String> {
    let shared = Shared::new(seed, 3, Sabotage::None).without_clients();
    let storages: BTreeMap<u64, SimStorage> =
        (1..=3).map(|id| (id, SimStorage::new(seed ^ id, Syncing::Honest))).collect();
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(1))
        .simulation_duration(Duration::from_secs(120))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(2))
        .build();
    world::start_nodes(&mut sim, &shared, &storages);
    world::settle(&mut sim, &shared)?;
    let first = leader(&shared, 0).ok_or("a settled cluster has a leader")?;
    match fate {
        Fate::Ended => {
            sim.crash(name(first));
            shared.handles.lock().unwrap().remove(&first);
            storages[&first].crash();
        }
        Fate::CutOff => {
            for other in (1..=3).filter(|id| *id != first) {
                sim.partition(name(first), name(other));
            }
        }
    }
    let begin = sim.elapsed();
    await_successor(&mut sim, &shared, first)?;
    Ok(sim.elapsed() - begin)
}

fn await_successor(sim: &mut Sim<'_>, shared: &Shared, first: u64) -> Result<(), String> {
    let end = sim.elapsed() + Duration::from_secs(20);
    while leader(shared, first).is_none() {
        if sim.elapsed() > end {
            return Err("no successor within 20 s".to_owned());
        }
        world::step(sim)?;
        shared.oracle.check_now()?;
    }
    Ok(())
}

/// Who leads, apart from `other_than`.
fn leader(shared: &Shared, other_than: u64) -> Option<u64> {
    let handles = shared.handles.lock().unwrap();
    let mut leaders = handles.values().filter(|node| node.status().is_leader());
    leaders.find(|node| node.id() != other_than).map(|node| node.id())
}
