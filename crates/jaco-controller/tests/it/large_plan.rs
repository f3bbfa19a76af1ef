//! Plans that are larger than an entry may be.

use std::collections::BTreeSet;

use jaco_controller::{CHANGES_PER_ENTRY, PassStatus};
use jaco_store::Store;
use jaco_types::Revision;

use crate::world::{Batch, World, deploy};

fn sizes(batches: &[Batch]) -> Vec<usize> {
    batches.iter().map(|batch| batch.changes.len()).collect()
}

/// R-LOOP-3: 50,000 replicas are one plan and several entries, each based on the state that the plan
/// was made from. In their order they are the plan.
#[tokio::test]
async fn fifty_thousand_replicas_are_several_entries() {
    let world = World::ready().await;
    let batches = placed(&world, 50_000).await;
    // Each replica, and what is kept about the service.
    let mut expected = vec![CHANGES_PER_ENTRY; 50_001 / CHANGES_PER_ENTRY];
    expected.push(50_001 % CHANGES_PER_ENTRY);
    assert_eq!(sizes(&batches), expected);
    is_one_plan(&world, &batches);
    let state = world.log.snapshot();
    let indices: BTreeSet<_> = state.slots.values().map(|slot| slot.current.raft_index).collect();
    assert_eq!(indices.len(), expected.len(), "each entry numbers its instances");
}

/// A part that does not fit an entry all the same is cut until it does.
#[tokio::test]
async fn what_does_not_fit_is_halved() {
    let world = World::ready().await;
    world.log.narrow(1000);
    let batches = placed(&world, 3000).await;
    assert_eq!(sizes(&batches), [750, 750, 750, 751]);
    is_one_plan(&world, &batches);
}

/// Has so many replicas placed, and tells in which entries.
async fn placed(world: &World, replicas: u32) -> Vec<Batch> {
    world.log.forget(None);
    world.log.write(deploy(replicas, 1)).await;
    let wanted = usize::try_from(replicas).unwrap();
    world.state_is("all are placed", |state| state.slots.len() == wanted).await;
    world.at_rest().await;
    world.log.batches()
}

/// The sum of the entries is what one pass wanted.
fn is_one_plan(world: &World, batches: &[Batch]) {
    let based_on: BTreeSet<_> = batches.iter().map(|batch| batch.based_on).collect();
    assert_eq!(based_on, BTreeSet::from([batches[0].before.index]));
    let sum: Vec<_> = batches.iter().flat_map(|batch| batch.changes.clone()).collect();
    assert!(sum == world.plan(&batches[0].before), "the entries are another plan");
}

/// ST-2: what people change between two parts makes the rest stale, and the rest is planned anew.
#[tokio::test]
async fn a_change_in_between_ends_the_plan() {
    let world = World::ready().await;
    world.log.narrow(100);
    world.log.forget(Some(deploy(150, 2)));
    world.log.write(deploy(350, 1)).await;
    world
        .state_is("the newer wish is fulfilled", |state| {
            state.slots.len() == 150
                && state.slots.values().any(|slot| slot.current.revision == Revision(2))
        })
        .await;
    let batches = world.log.batches();
    let first = batches[0].based_on;
    let of_first = batches.iter().filter(|batch| batch.based_on == first).count();
    assert_eq!(of_first, 1, "nothing of the old plan is agreed on after the change");
}

/// What cannot be cut is said, and not wanted again and again.
#[tokio::test]
async fn a_change_larger_than_an_entry_is_told() {
    let world = World::ready().await;
    world.log.narrow(0);
    world.log.write(deploy(1, 1)).await;
    let at = world.log.snapshot().index;
    world.status_is("it is told", |status| *status == PassStatus::TooLarge { based_on: at }).await;
}
