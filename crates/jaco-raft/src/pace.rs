//! Parks the consensus core's ticker while no timer of the core can be due.
//!
//! Left alone, the core looks at its timers five times per heartbeat: for a heartbeat that is due
//! once, and for an election that is due when a leader falls silent. Here a leader is asked
//! for each heartbeat when it is due, and a follower's ticker runs only while its leader is silent.
//! Whether there is an election stays the core's decision, by its own clock: all that happens here is
//! that it looks less than a tick later than it might have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver as _;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::machine::{MachineStore, StateMachine};
use crate::timing::Timing;
use crate::types::TypeConfig;

/// When a leader was last listened to. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    start: Instant,
    /// Milliseconds after `start`.
    at: Arc<AtomicU64>,
}

impl Heard {
    /// As if a leader had spoken now: the core, too, waits for one before it asks for votes.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), at: Arc::default() }
    }

    /// A leader has spoken, just now.
    pub(crate) fn note(&self) {
        let elapsed = self.start.elapsed().as_millis();
        self.at.store(u64::try_from(elapsed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn at(&self) -> Instant {
        self.start + Duration::from_millis(self.at.load(Ordering::Relaxed))
    }
}

/// What the core's timers need until its role changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// A leader's: heartbeats, and nothing else.
    Beat,
    /// Its ticker, until it is looked at again.
    Tick { until: Instant },
    /// None before then.
    Rest { until: Instant },
}

/// Paces the core until it stops.
pub(crate) async fn run<M: StateMachine>(
    core: openraft::Raft<TypeConfig, MachineStore<M>>,
    heard: Heard,
    timing: Timing,
) {
    let mut metrics = core.server_metrics();
    loop {
        let state = metrics.borrow_and_update().state;
        if state == ServerState::Shutdown {
            return;
        }
        let pace = pace_of(state, heard.at(), Instant::now(), patience(timing));
        core.runtime_config().tick(matches!(pace, Pace::Tick { .. }));
        let is_open = match pace {
            Pace::Beat => tokio::select! {
                changed = metrics.changed() => changed.is_ok(),
                () = beat(&core, timing.heartbeat) => false,
            },
            Pace::Tick { until } | Pace::Rest { until } => {
                // Not having changed in time is what most waits end with.
                timeout_at(until, metrics.changed()).await.unwrap_or(Ok(())).is_ok()
            }
        };
        if !is_open {
            return;
        }
    }
}

/// How long a leader may be silent before the core has to look at its election timer: the least of
/// its timeouts, less two ticks, within which the ticker runs again.
///
/// A lease comes before the timeout as long as the leader did not give it up; nothing is saved by
/// counting on that.
fn patience(timing: Timing) -> Duration {
    timing.election_min.saturating_sub(2 * tick(timing))
}

/// The core's own (openraft 0.10, `Config::tick_interval`).
fn tick(timing: Timing) -> Duration {
    timing.heartbeat * 13 / 64
}

fn pace_of(state: ServerState, heard: Instant, now: Instant, patience: Duration) -> Pace {
    match state {
        ServerState::Leader => Pace::Beat,
        ServerState::Follower | ServerState::Learner if now < heard + patience => {
            Pace::Rest { until: heard + patience }
        }
        // A candidate's core counts how long its election takes.
        ServerState::Follower
        | ServerState::Learner
        | ServerState::Candidate
        | ServerState::Shutdown => Pace::Tick { until: now + patience },
    }
}

/// Asks for heartbeats until the core has stopped.
async fn beat<M: StateMachine>(
    core: &openraft::Raft<TypeConfig, MachineStore<M>>,
    every: Duration,
) {
    let mut beats = interval(every);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        if core.trigger().heartbeat().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    /// R-LOOP-1: a silent leader is noticed by the core's own timer, which runs again before the
    /// shortest election timeout is over.
    #[tokio::test(start_paused = true)]
    async fn a_ticker_rests_while_a_leader_speaks() {
        let heard = Instant::now();
        let of =
            |state, after| pace_of(state, heard, heard + Duration::from_millis(after), PATIENCE);
        let until = heard + PATIENCE;
        for state in [ServerState::Follower, ServerState::Learner] {
            assert_eq!(of(state, 0), Pace::Rest { until });
            assert_eq!(of(state, 199), Pace::Rest { until });
            assert_eq!(of(state, 200), Pace::Tick { until: until + PATIENCE });
        }
        assert!(matches!(of(ServerState::Candidate, 0), Pace::Tick { .. }), "it has an election");
        assert_eq!(of(ServerState::Leader, 500), Pace::Beat);
        for timing in [Timing::lan(), Timing::wan()] {
            assert!(patience(timing) + tick(timing) < timing.election_min, "it runs again in time");
            assert!(patience(timing) > timing.heartbeat, "it rests between heartbeats");
        }
    }
}
