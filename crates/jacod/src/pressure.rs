//! Samples this node's resource usage periodically; heartbeats carry it to the leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_agent::measure::{self, NodeUsage, Sampler, Usage};
use jaco_proto::v1::{InstanceLoad, NodeLoad};
use jaco_scheduler::rebalance::{Load, Share};
use jaco_server::Member;
use jaco_types::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// The latest sample; `None` before the second measurement.
pub(crate) type Measured = watch::Receiver<Option<Arc<NodeUsage>>>;

/// Runs until `shutdown`.
pub(crate) async fn run(
    member: Arc<Member>,
    mut sampler: Sampler,
    interval: Duration,
    measured: watch::Sender<Option<Arc<NodeUsage>>>,
    shutdown: CancellationToken,
) {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // If the engine is unreachable, only the machine is measured.
        let containers = member.engine.list_owned().await.unwrap_or_default();
        let stats = measure::query_engine(&*member.engine, sampler.unmeasured(&containers)).await;
        match sampler.sample(&containers, stats, started.elapsed()) {
            Some(sample) => {
                measured.send_replace(Some(Arc::new(sample)));
            }
            None => debug!("usage unavailable"),
        }
    }
}

/// Records the leader's own sample.
pub(crate) fn record_own(member: &Member, measured: &NodeUsage, now: Timestamp) {
    let load = |used: Usage| Load { cpu: Share(used.cpu), memory: Share(used.memory) };
    let instances: BTreeMap<_, _> =
        measured.instances.iter().map(|(id, used)| (id.clone(), load(*used))).collect();
    member.rebalance.record(member.id, load(measured.node), instances, now);
}

/// The sample as part of a heartbeat.
pub(crate) fn message(measured: &NodeUsage) -> NodeLoad {
    let instances = measured.instances.iter().map(|(id, used)| InstanceLoad {
        replica: id.replica.to_string(),
        raft_index: id.raft_index.0,
        cpu: used.cpu,
        memory: used.memory,
    });
    let Usage { cpu, memory } = measured.node;
    NodeLoad { cpu, memory, instances: instances.collect() }
}
