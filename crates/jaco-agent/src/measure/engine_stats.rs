//! Usage of containers from the engine, where the kernel's files cannot be read: other cgroup
//! drivers, engines in a virtual machine. It costs a request per container, so it is the last
//! resort.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use jaco_types::InstanceId;
use tracing::debug;

use crate::engine::{ContainerEngine, ContainerId, Counters};

/// Usage by instance.
pub type EngineStats = BTreeMap<InstanceId, Counters>;

/// Concurrent requests. Each takes the engine some milliseconds; user requests have priority.
const CONCURRENT_MAX: usize = 4;

/// Time limit of all requests together; answers until then form a sample as well.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Queries the usage of these containers. Those without an answer are left out.
pub async fn query_engine(
    engine: &dyn ContainerEngine,
    unmeasured: Vec<(InstanceId, ContainerId)>,
) -> EngineStats {
    if unmeasured.is_empty() {
        return EngineStats::new();
    }
    gather(unmeasured, |instance, container| async move {
        match engine.used(&container).await {
            Ok(counters) => Some((instance, counters?)),
            Err(error) => {
                debug!(replica = %instance.replica, %error, "usage unavailable");
                None
            }
        }
    })
    .await
}

async fn gather<A, F>(unmeasured: Vec<(InstanceId, ContainerId)>, query_engine: A) -> EngineStats
where
    A: Fn(InstanceId, ContainerId) -> F,
    F: Future<Output = Option<(InstanceId, Counters)>>,
{
    let answers =
        stream::iter(unmeasured).map(|(instance, container)| query_engine(instance, container));
    let answers = answers.buffer_unordered(CONCURRENT_MAX);
    let answers = answers.take_until(tokio::time::sleep(TIMEOUT));
    answers.filter_map(|answer| async move { answer }).collect().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use jaco_types::{ReplicaId, StateIndex};

    use super::*;

    fn instances(count: u64) -> Vec<(InstanceId, ContainerId)> {
        let replica = ReplicaId::parse("shop-web-0").expect("a name");
        let instance =
            |index| InstanceId { replica: replica.clone(), raft_index: StateIndex(index) };
        (0..count).map(|index| (instance(index), ContainerId("c".into()))).collect()
    }

    /// R-REB-2: concurrency and total time are bounded: answers until then count, and a request
    /// without an answer does not block others for ever.
    #[tokio::test(start_paused = true)]
    async fn requests_are_bounded() {
        let (asked, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let answer = |instance: InstanceId, _| {
            let (asked, most) = (&asked, &most);
            async move {
                most.fetch_max(asked.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                // The first three never answer, the others after a tenth of a second each.
                let secs = if instance.raft_index.0 < 3 { 3600.0 } else { 0.1 };
                tokio::time::sleep(Duration::from_secs_f64(secs)).await;
                asked.fetch_sub(1, Ordering::Relaxed);
                Some((instance, Counters::default()))
            }
        };
        let begun = tokio::time::Instant::now();
        let stats = gather(instances(200), answer).await;
        assert_eq!(most.load(Ordering::Relaxed), CONCURRENT_MAX);
        assert_eq!(begun.elapsed().as_secs(), TIMEOUT.as_secs());
        assert!((45..=50).contains(&stats.len()), "{}", stats.len());
    }
}
