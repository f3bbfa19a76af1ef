//! The second loop and what it works with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jaco_controller::rebalance::Mode;
use jaco_controller::{RebalanceLoop, RebalanceOptions, RebalanceState};
use jaco_scheduler::rebalance::{Load, RebalanceConfig, Share};
use jaco_store::Store;
use jaco_types::{InstanceId, Millis, NodeId, ReplicaId, StateIndex};
use tokio_util::sync::CancellationToken;

use crate::world::{NOW, Still, World, admit_second, deploy};

fn load(cpu: u64) -> Load {
    Load { cpu: Share(cpu * 10_000), memory: Share(0) }
}

fn instance(index: u64) -> InstanceId {
    let replica = ReplicaId::parse("shop-web-0").unwrap();
    InstanceId { replica, raft_index: StateIndex(index) }
}

fn options(mode: Mode) -> RebalanceOptions {
    let thresholds = RebalanceConfig {
        consecutive_cycles: 1,
        window: Millis(0),
        replica_cooldown: Millis(0),
        ..RebalanceConfig::default()
    };
    let interval = Millis(5);
    RebalanceOptions { mode, interval, thresholds }
}

/// A node's sample replaces its last one whole, and a new leadership begins with nothing.
#[test]
fn a_sample_replaces_the_last_one() {
    let rebalance = RebalanceState::new(RebalanceOptions::default());
    let of = |index| BTreeMap::from([(instance(index), load(10))]);
    rebalance.record(NodeId(1), load(50), of(1), NOW);
    rebalance.record(NodeId(2), load(60), of(2), NOW);
    rebalance.record(NodeId(1), load(70), of(3), NOW);
    let pressure = rebalance.pressure();
    assert_eq!(pressure.nodes[&NodeId(1)].load, load(70));
    let known: Vec<_> = pressure.instances.keys().map(|id| id.raft_index.0).collect();
    assert_eq!(known, [2, 3]);
    rebalance.start_over();
    assert_eq!(rebalance.pressure().nodes.len(), 0);
}

/// R-REB-1, R-REB-7: the leader moves a replica off a hot node, and a hot node that keeps what it has
/// costs as many events as there are replicas, however often it is looked at. Switched off, nothing is
/// written at all.
#[tokio::test(start_paused = true)]
async fn the_leader_moves_and_does_not_repeat_itself() {
    for (mode, moves) in [(Mode::On, true), (Mode::Off, false)] {
        let world = World::ready().await;
        world.log.write(deploy(1, 1)).await;
        world.state_is("one is placed", |state| state.slots.len() == 1).await;
        world.runs_all().await;
        let second = admit_second(&world).await;
        let rebalance = Arc::new(RebalanceState::new(options(mode)));
        let store = Arc::clone(&world.log) as Arc<dyn Store>;
        let stop = CancellationToken::new();
        let looping = RebalanceLoop::new(store, Arc::clone(&rebalance), Arc::new(Still));
        let looping = tokio::spawn(looping.run(stop.clone()));
        // What was heard before it led does not count, so it is said until it is heard.
        for _ in 0..40 {
            rebalance.record(NodeId(1), load(90), BTreeMap::new(), NOW);
            rebalance.record(second, load(20), BTreeMap::new(), NOW);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if moves {
            world
                .state_is("it has left", |state| {
                    state.slots.values().all(|slot| slot.current.node == second)
                })
                .await;
        }
        // The move; then its node is hot still, and has nothing left that could go.
        let expected = if moves { vec![(1, 0), (0, 1)] } else { vec![] };
        assert_eq!(world.log.rebalanced(), expected, "{mode:?}");
        stop.cancel();
        looping.await.unwrap();
    }
}
