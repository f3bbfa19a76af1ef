//! How long writes stop when the leader is killed, beside etcd's.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_testkit::Engine;
use tokio::task::JoinSet;

use crate::Plan;
use crate::etcd::{self, Etcd};
use crate::figure::{Figure, say};
use crate::load::millis;
use crate::ours::{self, NODES, Ours};

/// Deadline of one write. A writer that waited longer for an answer that died with the leader would
/// measure its own patience.
const WRITE_LIMIT: Duration = Duration::from_millis(100);

/// Pause after a refusal, so that writers do not take the processor away from an election.
const PAUSE: Duration = Duration::from_millis(5);

/// Writers per node, so that one that waits for its deadline does not hide what another could do.
const WRITERS: usize = 2;

/// Writes go on this long before the kill: there must be an acknowledged one.
const BEFORE: Duration = Duration::from_secs(1);

/// And this long after it: several times what either side needs for an election.
const AFTER: Duration = Duration::from_secs(6);

/// Kills the leaders in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let mut ours = Ours::start(Engine::Fake).await?;
    let mut etcd = Etcd::start().await?;
    let mut gaps = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let gap_ours = kill_ours(&mut ours).await?;
        let gap_theirs = kill_etcd(&mut etcd).await?;
        say(&format!("gap, round {round}: {gap_ours:?}; {} {gap_theirs:?}", etcd::WHO));
        gaps.0.push(millis(gap_ours));
        gaps.1.push(millis(gap_theirs));
    }
    let name = "write gap after kill -9 of the leader";
    Ok(vec![Figure::beside(name, "ms", gaps.0, etcd::WHO, gaps.1)])
}

async fn kill_ours(ours: &mut Ours) -> Result<Duration> {
    ours.cluster.settled().await;
    let leader = ours.cluster.leader().await;
    let writers = Writers::default();
    let mut tasks = JoinSet::new();
    for number in 0..NODES * WRITERS {
        let client = ours.client(number % NODES)?;
        tasks.spawn(writers.clone().run(move |_| {
            let client = client.clone();
            async move { ours::write(&client).await }
        }));
    }
    tokio::time::sleep(BEFORE).await;
    let killed = Instant::now();
    ours.cluster.nodes[leader].kill();
    tokio::time::sleep(AFTER).await;
    tasks.shutdown().await;
    ours.cluster.nodes[leader].start();
    writers.gap(killed)
}

async fn kill_etcd(etcd: &mut Etcd) -> Result<Duration> {
    let leader = etcd.leader().await?;
    let writers = Writers::default();
    let mut tasks = JoinSet::new();
    for number in 0..NODES * WRITERS {
        let client = etcd.client(number % NODES, u32::try_from(number)?).await?;
        tasks.spawn(writers.clone().run(move |number| {
            let client = client.clone();
            async move { client.write(number).await }
        }));
    }
    tokio::time::sleep(BEFORE).await;
    let killed = Instant::now();
    etcd.kill(leader)?;
    tokio::time::sleep(AFTER).await;
    tasks.shutdown().await;
    etcd.restart(leader).await?;
    writers.gap(killed)
}

/// When writes were acknowledged, by any writer.
#[derive(Debug, Clone, Default)]
struct Writers(Arc<Mutex<Vec<Instant>>>);

impl Writers {
    /// Writes until it is ended.
    async fn run<F, R>(self, send: F)
    where
        F: Fn(u64) -> R,
        R: Future<Output = Result<()>>,
    {
        for number in 0.. {
            match tokio::time::timeout(WRITE_LIMIT, send(number)).await {
                Ok(Ok(())) => self.note(Instant::now()),
                Ok(Err(_)) => tokio::time::sleep(PAUSE).await,
                Err(_) => {}
            }
        }
    }

    fn note(&self, at: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(at);
    }

    fn gap(&self, killed: Instant) -> Result<Duration> {
        let mut acknowledged = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        acknowledged.sort_unstable();
        longest_pause(&acknowledged, killed)
    }
}

/// The longest time between two acknowledgements of which the second came after the kill.
fn longest_pause(acknowledged: &[Instant], killed: Instant) -> Result<Duration> {
    ensure!(acknowledged.first().is_some_and(|at| *at < killed), "nothing was written before");
    let last = acknowledged.last().context("nothing was written")?;
    // Else the cluster has not come back, and the pause has no end.
    ensure!(*last > killed + AFTER / 2, "no write was acknowledged any more after the kill");
    let pauses = acknowledged.windows(2).filter(|pair| pair[1] > killed);
    pauses.map(|pair| pair[1] - pair[0]).max().context("nothing was written after the kill")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_around_the_kill_is_found() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let pause = |times: &[u64], killed| {
            let times: Vec<Instant> = times.iter().map(|time| at(*time)).collect();
            longest_pause(&times, at(killed)).ok()
        };
        // The pause of 900 ms was before the kill, and is not its doing.
        let times = [0, 900, 1000, 1700, 1710, 6000, 6001];
        assert_eq!(pause(&times[..5], 1001), None, "it has not come back");
        assert_eq!(
            pause(&[0, 900, 1000, 1700, 2000, 3000, 4000, 5000], 1001),
            Some(Duration::from_secs(1))
        );
        assert_eq!(pause(&times, 1001), Some(Duration::from_millis(4290)));
        assert_eq!(pause(&[2000, 8000], 1001), None, "nothing was written before");
    }
}
