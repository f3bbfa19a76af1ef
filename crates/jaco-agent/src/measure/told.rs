//! What the engine says of containers that the kernel's files say nothing of: other cgroup drivers,
//! engines in a machine of their own. It costs a request for each, so it is the last resort.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use jaco_types::InstanceId;
use tracing::debug;

use crate::engine::{ContainerEngine, ContainerId, Counters};

/// What the engine said, by instance.
pub type Told = BTreeMap<InstanceId, Counters>;

/// How many containers are asked about at the same time. Each question costs the engine some
/// milliseconds; what people want of it comes first.
const ASKED_AT_ONCE: usize = 4;

/// How long all answers together may take: what came by then is a sample as well.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks about these containers. One that is not answered for is left out.
pub async fn ask(engine: &dyn ContainerEngine, unread: Vec<(InstanceId, ContainerId)>) -> Told {
    if unread.is_empty() {
        return Told::new();
    }
    gather(unread, |instance, container| async move {
        match engine.used(&container).await {
            Ok(counters) => Some((instance, counters?)),
            Err(error) => {
                debug!(replica = %instance.replica, %error, "the engine does not say what is used");
                None
            }
        }
    })
    .await
}

async fn gather<A, F>(unread: Vec<(InstanceId, ContainerId)>, ask: A) -> Told
where
    A: Fn(InstanceId, ContainerId) -> F,
    F: Future<Output = Option<(InstanceId, Counters)>>,
{
    let answers = stream::iter(unread).map(|(instance, container)| ask(instance, container));
    let answers = answers.buffer_unordered(ASKED_AT_ONCE);
    let answers = answers.take_until(tokio::time::sleep(PATIENCE));
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

    /// R-REB-2: few questions at a time, and an end: what was answered by then counts, and who does not
    /// answer keeps nobody else from it for ever.
    #[tokio::test(start_paused = true)]
    async fn questions_are_bounded() {
        let (asked, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let answer = |instance: InstanceId, _| {
            let (asked, most) = (&asked, &most);
            async move {
                most.fetch_max(asked.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                // The first three never answer, the others in a tenth of a second each.
                let secs = if instance.raft_index.0 < 3 { 3600.0 } else { 0.1 };
                tokio::time::sleep(Duration::from_secs_f64(secs)).await;
                asked.fetch_sub(1, Ordering::Relaxed);
                Some((instance, Counters::default()))
            }
        };
        let begun = tokio::time::Instant::now();
        let told = gather(instances(200), answer).await;
        assert_eq!(most.load(Ordering::Relaxed), ASKED_AT_ONCE);
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
        assert!((45..=50).contains(&told.len()), "{}", told.len());
    }
}
