//! Stops the consensus core's ticker while none of its timers can be due.
//!
//! By default the core checks its timers five times per heartbeat interval: for the one heartbeat,
//! and for an election timeout that only matters without a leader. Here a leader triggers each
//! heartbeat when it is due, a follower's ticker runs only while its leader is silent, and a learner's never. The core
//! itself decides about elections, by its own clock; its check is delayed by less than one tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::{Instant as _, ServerState};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::machine::{MachineStore, StateMachine};
use crate::timing::Timing;
use crate::types::TypeConfig;

/// Time of the last message from a leader. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct LeaderActivity {
    start: Instant,
    /// Milliseconds after `start`.
    at: Arc<AtomicU64>,
}

impl LeaderActivity {
    /// Starts as if a leader had just sent a message: the core, too, waits for one before it
    /// campaigns.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), at: Arc::default() }
    }

    /// Records a message from the leader.
    pub(crate) fn record(&self) {
        let elapsed = self.start.elapsed().as_millis();
        self.at.store(u64::try_from(elapsed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Records that a quorum acknowledged this node, which leads, so long ago: it had contact then.
    pub(crate) fn record_before(&self, age: Duration) {
        let at = self.start.elapsed().saturating_sub(age).as_millis();
        self.at.fetch_max(u64::try_from(at).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Time since the last message.
    pub(crate) fn age(&self) -> Duration {
        self.at().elapsed()
    }

    fn at(&self) -> Instant {
        self.start + Duration::from_millis(self.at.load(Ordering::Relaxed))
    }
}

/// How to drive the core's timers until its role changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimerMode {
    /// Leader: only heartbeats.
    Heartbeats,
    /// Ticker on, until the next check.
    Ticking { until: Instant },
    /// Ticker off until then.
    Stopped { until: Instant },
}

/// Drives the timers until the core stops.
pub(crate) async fn run<M: StateMachine>(
    core: openraft::Raft<TypeConfig, MachineStore<M>>,
    last_message: LeaderActivity,
    timing: Timing,
) {
    let mut metrics = core.server_metrics();
    loop {
        let state = metrics.borrow_and_update().state;
        if state == ServerState::Shutdown {
            return;
        }
        let mode = mode_of(state, last_message.at(), Instant::now(), ticker_pause(timing));
        core.runtime_config().tick(matches!(mode, TimerMode::Ticking { .. }));
        let is_open = match mode {
            TimerMode::Heartbeats => tokio::select! {
                changed = metrics.changed() => changed.is_ok(),
                () = trigger_heartbeats(&core, &last_message, timing.heartbeat) => false,
            },
            TimerMode::Ticking { until } | TimerMode::Stopped { until } => {
                // Most waits end with the timeout.
                timeout_at(until, metrics.changed()).await.unwrap_or(Ok(())).is_ok()
            }
        };
        if !is_open {
            return;
        }
    }
}

/// How long the leader may be silent before the core has to check its election timer: the shortest
/// timeout less two ticks, within which the ticker runs again.
///
/// The lease would extend this unless the leader gave it up; relying on that saves nothing.
fn ticker_pause(timing: Timing) -> Duration {
    timing.election_min.saturating_sub(2 * tick(timing))
}

/// Tick interval of the core (openraft 0.10, `Config::tick_interval`).
fn tick(timing: Timing) -> Duration {
    timing.heartbeat * 13 / 64
}

fn mode_of(
    state: ServerState,
    last_message: Instant,
    now: Instant,
    ticker_pause: Duration,
) -> TimerMode {
    match state {
        ServerState::Leader => TimerMode::Heartbeats,
        ServerState::Follower if now < last_message + ticker_pause => {
            TimerMode::Stopped { until: last_message + ticker_pause }
        }
        // It never campaigns, and hears of its leader less often.
        ServerState::Learner => TimerMode::Stopped { until: now.max(last_message) + ticker_pause },
        // A candidate needs its election timer.
        ServerState::Follower | ServerState::Candidate | ServerState::Shutdown => {
            TimerMode::Ticking { until: now + ticker_pause }
        }
    }
}

/// Triggers heartbeats until the core has stopped, and records when a quorum answered: a node that leads no more
/// knows by that how old its state is.
async fn trigger_heartbeats<M: StateMachine>(
    core: &openraft::Raft<TypeConfig, MachineStore<M>>,
    last_message: &LeaderActivity,
    every: Duration,
) {
    let mut beats = interval(every);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let metrics = core.metrics();
        let acknowledged = metrics.borrow_watched().last_quorum_acked.map(|at| at.elapsed());
        if let Some(age) = acknowledged {
            last_message.record_before(age);
        }
        if core.trigger().heartbeat().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKER_PAUSE: Duration = Duration::from_millis(200);

    /// R-CLI-10: what a node knows of the last contact is never taken back, and has the age of what it learns late.
    #[tokio::test(start_paused = true)]
    async fn contact_has_the_age_of_its_acknowledgement() {
        let activity = LeaderActivity::new();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(activity.age(), Duration::from_secs(60));
        activity.record_before(Duration::from_secs(8));
        assert_eq!(activity.age(), Duration::from_secs(8));
        activity.record_before(Duration::from_secs(20));
        assert_eq!(activity.age(), Duration::from_secs(8), "later contact counts");
        activity.record_before(Duration::from_secs(90));
        assert_eq!(activity.age(), Duration::from_secs(8));
    }

    /// R-LOOP-1: a silent leader is detected by the core's own timer, whose ticker runs again
    /// before the shortest election timeout ends.
    #[tokio::test(start_paused = true)]
    async fn ticker_stops_while_the_leader_is_active() {
        let last_message = Instant::now();
        let of = |state, after| {
            mode_of(state, last_message, last_message + Duration::from_millis(after), TICKER_PAUSE)
        };
        let until = last_message + TICKER_PAUSE;
        let follower = ServerState::Follower;
        assert_eq!(of(follower, 0), TimerMode::Stopped { until });
        assert_eq!(of(follower, 199), TimerMode::Stopped { until });
        assert_eq!(of(follower, 200), TimerMode::Ticking { until: until + TICKER_PAUSE });
        for after in [0, 200, 5_000] {
            let learner = of(ServerState::Learner, after);
            assert!(matches!(learner, TimerMode::Stopped { .. }), "a learner never campaigns");
        }
        assert!(
            matches!(of(ServerState::Candidate, 0), TimerMode::Ticking { .. }),
            "it has an election"
        );
        assert_eq!(of(ServerState::Leader, 500), TimerMode::Heartbeats);
        for timing in [Timing::lan(), Timing::wan()] {
            assert!(
                ticker_pause(timing) + tick(timing) < timing.election_min,
                "it runs again in time"
            );
            assert!(ticker_pause(timing) > timing.heartbeat, "it stops between heartbeats");
        }
    }
}
