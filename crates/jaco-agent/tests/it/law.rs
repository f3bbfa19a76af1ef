//! Laws of the comparison, and of the whole state machine on a fake host.

use std::collections::BTreeMap;

use jaco_agent::engine::{ContainerId, ContainerStatus, Health, ObservedContainer};
use jaco_agent::plan::{Action, Desired, History, Phase, own, plan};
use jaco_state::view::Role;
use jaco_types::{InstanceId, Timestamp};
use proptest::prelude::*;

use crate::names::{instance, owner, web};

type WantedSet = BTreeMap<InstanceId, Desired>;
type ActualSet = BTreeMap<InstanceId, Phase>;

fn id() -> impl Strategy<Value = InstanceId> {
    (0..3u64, 1..5u64).prop_map(|(slot, raft_index)| instance(slot, raft_index))
}

fn wanted_set() -> impl Strategy<Value = WantedSet> {
    let role = prop_oneof![Just(Role::Current), Just(Role::Retiring)];
    let history = prop_oneof![Just(History::NeverRan), Just(History::Ran)];
    let want = (role, history).prop_map(|(role, history)| Desired { role, history });
    prop::collection::btree_map(id(), want, 0..8)
}

fn actual_set() -> impl Strategy<Value = ActualSet> {
    let phase = prop_oneof![Just(Phase::Created), Just(Phase::Up), Just(Phase::Exited)];
    prop::collection::btree_map(id(), phase, 0..8)
}

/// What the world is after the actions were carried out.
fn after(actions: &[Action], wanted: &WantedSet, actual: &ActualSet) -> (WantedSet, ActualSet) {
    let (mut wanted, mut actual) = (wanted.clone(), actual.clone());
    for action in actions {
        match action {
            Action::Start(id) => {
                actual.insert(id.clone(), Phase::Up);
                wanted.get_mut(id).unwrap().history = History::Ran;
            }
            Action::Stop(id) => drop(actual.insert(id.clone(), Phase::Exited)),
            Action::Remove(id) => drop(actual.remove(id)),
            Action::ReportMissing(_) => {}
        }
    }
    (wanted, actual)
}

proptest! {
    /// Law AG-1: what was carried out is not carried out again. Only the next step of a container
    /// on its way out, and what that makes room for, may follow.
    #[test]
    fn execution_is_idempotent(wanted in wanted_set(), actual in actual_set()) {
        let (mut wanted, mut actual) = (wanted, actual);
        let mut done: Vec<Action> = Vec::new();
        for _ in 0..10 {
            let actions = plan(&wanted, &actual);
            for action in &actions {
                if !matches!(action, Action::ReportMissing(_)) {
                    prop_assert!(!done.contains(action), "{action:?} twice");
                    done.push(action.clone());
                }
            }
            (wanted, actual) = after(&actions, &wanted, &actual);
        }
        let rest = plan(&wanted, &actual);
        prop_assert!(rest.iter().all(|action| matches!(action, Action::ReportMissing(_))), "{rest:?}");
    }

    /// Law AG-1: an older raft_index never replaces a newer one, and R-HEAL-1: an instance that
    /// ran is never started again.
    #[test]
    fn only_new_instances_are_started(
        wanted in wanted_set(), actual in actual_set(),
    ) {
        for action in plan(&wanted, &actual) {
            let Action::Start(id) = action else { continue };
            prop_assert_eq!(wanted[&id], Desired { role: Role::Current, history: History::NeverRan });
            let newer = actual.keys().any(|other| {
                other.replica == id.replica && other.raft_index > id.raft_index
            });
            prop_assert!(!newer);
        }
    }

    /// R-RUN-1: what is wanted, current or retiring, is never stopped or removed.
    #[test]
    fn desired_instances_are_not_stopped(wanted in wanted_set(), actual in actual_set()) {
        for action in plan(&wanted, &actual) {
            if let Action::Stop(id) | Action::Remove(id) = action {
                prop_assert!(!wanted.contains_key(&id));
            }
        }
    }

    /// Containers of another cluster or node never enter the comparison.
    #[test]
    fn foreign_containers_are_ignored(nodes in prop::collection::vec(1..4u64, 0..8)) {
        let listed = nodes.iter().zip(1..).map(|(node, raft_index)| seen(*node, raft_index));
        let own = own(&owner(1), listed.collect());
        prop_assert_eq!(own.len(), nodes.iter().filter(|node| **node == 1).count());
        prop_assert!(own.values().all(|seen| seen.owner == owner(1)));
    }
}

fn seen(node: u64, raft_index: u64) -> ObservedContainer {
    ObservedContainer {
        instance: instance(0, raft_index),
        service: web(),
        owner: owner(node),
        container: ContainerId(format!("c{raft_index}").into()),
        status: ContainerStatus::Up { health: Health::None, started_at: Timestamp(0) },
        ports: BTreeMap::new(),
        spec_hash: None,
    }
}
