//! Measures this node again and again, for the signs of life to carry to the leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_agent::measure::{self, NodeUse, Sampler, Used};
use jaco_proto::v1::{InstanceLoad, NodeLoad};
use jaco_scheduler::rebalance::{Load, Share};
use jaco_server::Member;
use jaco_types::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// The last look; none before the second.
pub(crate) type Measured = watch::Receiver<Option<Arc<NodeUse>>>;

/// Runs until `shutdown`.
pub(crate) async fn run(
    member: Arc<Member>,
    mut sampler: Sampler,
    interval: Duration,
    measured: watch::Sender<Option<Arc<NodeUse>>>,
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
        // An engine that does not answer says nothing of its containers; the machine is measured.
        let containers = member.engine.list_owned().await.unwrap_or_default();
        let told = measure::ask(&*member.engine, sampler.unread(&containers)).await;
        match sampler.sample(&containers, told, started.elapsed()) {
            Some(sample) => {
                measured.send_replace(Some(Arc::new(sample)));
            }
            None => debug!("what this node uses is not known"),
        }
    }
}

/// Takes the leader's own measure.
pub(crate) fn record_own(member: &Member, measured: &NodeUse, now: Timestamp) {
    let load = |used: Used| Load { cpu: Share(used.cpu), memory: Share(used.memory) };
    let instances: BTreeMap<_, _> =
        measured.instances.iter().map(|(id, used)| (id.clone(), load(*used))).collect();
    member.rebalance.record(member.id, load(measured.node), instances, now);
}

/// What goes with a sign of life.
pub(crate) fn message(measured: &NodeUse) -> NodeLoad {
    let instances = measured.instances.iter().map(|(id, used)| InstanceLoad {
        replica: id.replica.to_string(),
        raft_index: id.raft_index.0,
        cpu: used.cpu,
        memory: used.memory,
    });
    let Used { cpu, memory } = measured.node;
    NodeLoad { cpu, memory, instances: instances.collect() }
}
