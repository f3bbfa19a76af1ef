//! Closed-loop load: each client sends its next request when the last one was answered.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;

/// Connections, caches and the processor's clock settle in this time, which is not counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// What a stretch of load came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Answered requests, the warm-up's included.
    pub(crate) answered: usize,
}

/// Lets every client send for `stretch`. A request that fails ends the measurement: a rate of
/// refusals is no rate.
pub(crate) async fn run<C, F, R>(clients: Vec<C>, stretch: Duration, send: F) -> Result<Load>
where
    C: Clone + Send + 'static,
    F: Fn(C, u64) -> R + Clone + Send + 'static,
    R: Future<Output = Result<()>> + Send + 'static,
{
    let begin = Instant::now() + WARM_UP;
    let end = begin + stretch;
    let mut tasks = JoinSet::new();
    for client in clients {
        let send = send.clone();
        tasks.spawn(one(client, begin, end, send));
    }
    let mut latencies = Vec::new();
    let mut answered = 0;
    while let Some(done) = tasks.join_next().await {
        let (counted, all) = done.context("a client panicked")??;
        latencies.extend(counted);
        answered += all;
    }
    summary(latencies, stretch, answered)
}

/// One client's loop: the latencies that count, and how many requests there were in all.
async fn one<C, F, R>(
    client: C,
    begin: Instant,
    end: Instant,
    send: F,
) -> Result<(Vec<Duration>, usize)>
where
    C: Clone,
    F: Fn(C, u64) -> R,
    R: Future<Output = Result<()>>,
{
    let mut latencies = Vec::new();
    for number in 0.. {
        let sent = Instant::now();
        if sent >= end {
            return Ok((latencies, usize::try_from(number)?));
        }
        send(client.clone(), number).await.with_context(|| format!("request {number} failed"))?;
        let answered = Instant::now();
        if answered >= begin && answered < end {
            latencies.push(answered - sent);
        }
    }
    bail!("ran out of numbers")
}

fn summary(mut latencies: Vec<Duration>, stretch: Duration, answered: usize) -> Result<Load> {
    latencies.sort_unstable();
    let count = u32::try_from(latencies.len())?;
    let at = |share| millis(quantile(&latencies, share));
    if latencies.is_empty() {
        bail!("no request was answered in {stretch:?}");
    }
    Ok(Load {
        per_second: f64::from(count) / stretch.as_secs_f64(),
        p50_ms: at(50),
        p99_ms: at(99),
        answered,
    })
}

/// The latency that `percent` of the requests did not exceed; of sorted latencies.
pub(crate) fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks() {
        let sorted: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(quantile(&sorted, 50), Duration::from_millis(100));
        assert_eq!(quantile(&sorted, 99), Duration::from_millis(198));
        assert_eq!(quantile(&sorted[..1], 99), Duration::from_millis(1));
        assert_eq!(quantile(&[], 99), Duration::ZERO);
    }

    #[tokio::test]
    async fn only_what_was_answered_counts() {
        let stretch = Duration::from_millis(200);
        let failing = run(vec![()], stretch, |(), number| async move {
            if number == 3 { bail!("refused") } else { Ok(()) }
        });
        assert!(failing.await.is_err());
        let load = run(vec![(); 2], stretch, |(), _| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        });
        let load = load.await.unwrap();
        assert!(load.per_second > 0.0 && load.p50_ms >= 1.0 && load.p99_ms >= load.p50_ms);
        assert!(load.answered > 2);
    }
}
