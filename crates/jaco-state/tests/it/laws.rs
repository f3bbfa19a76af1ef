//! Laws over random histories.

use jaco_state::command::{
    Batch, DataMove, DeploymentDelete, DisabledSet, Disabling, ImageRemove, InUse, JoinTokenIssue,
    NodeRemove, NodeSetAvailability, Observe, Previous,
};
use jaco_state::invariants::violations;
use jaco_state::{Change, ClusterState, Command, Entry, Outcome, apply};
use jaco_types::slot::Exhausted;
use jaco_types::{
    AllocationScope, Availability, Millis, NodeId, NodeStatus, ReplicaState, Revision, StateIndex,
};
use proptest::prelude::*;

use crate::history::{
    History, admit, create, deploy, deployment, digest, instance, join_token, key, replace, seen,
    service,
};
use crate::{images, registries};

const NAMES: [&str; 3] = ["shop", "shop-web", "blog"];
const SERVICES: [&str; 3] = ["web", "db", "web-api"];
const REGISTRIES: [&str; 3] = ["docker.io", "ghcr.io", "localhost:5000"];
const HOSTS: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// One step of a history, with small numbers in place of names.
#[derive(Debug, Clone)]
enum Step {
    Token(usize),
    Admit(usize),
    RemoveNode(u64),
    Availability(u64, bool),
    Deploy(usize, Vec<usize>, u8),
    Delete(usize),
    Batch(u64, Vec<Tick>),
    Observe(u64, usize, bool),
    Rest(Disabling, Vec<Place>),
    Login(usize, u8),
    Logout(usize),
    MoveData(usize, u64),
    Image(u8, u8, u64),
}

/// Allocations that may or may not be there.
#[derive(Debug, Clone)]
enum Place {
    Node(u64),
    Service(usize, usize),
    Pair(usize, usize, u64),
    Replica(usize),
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        (1..9u64).prop_map(Place::Node),
        (0..3usize, 0..3usize).prop_map(|(d, s)| Place::Service(d, s)),
        (0..3usize, 0..3usize, 1..9u64).prop_map(|(d, s, n)| Place::Pair(d, s, n)),
        (0..6usize).prop_map(Place::Replica),
    ]
}

fn scope(state: &ClusterState, place: &Place) -> Option<AllocationScope> {
    let service = |name: usize, service: usize| key(NAMES[name], SERVICES[service]);
    Some(match place {
        Place::Node(node) => AllocationScope::Node(NodeId(*node)),
        Place::Service(d, s) => AllocationScope::Service(service(*d, *s)),
        Place::Pair(d, s, node) => {
            AllocationScope::Pair { service: service(*d, *s), node: NodeId(*node) }
        }
        Place::Replica(slot) => {
            let slot = nth_slot(state, *slot)?;
            AllocationScope::Replica { service: slot.service.clone(), id: slot.id.clone() }
        }
    })
}

/// One change of a batch.
#[derive(Debug, Clone)]
enum Tick {
    Create(usize, usize, u64, u64),
    Replace(usize, u64, bool),
    Settle(usize),
    Revert(usize),
    Exhaust(usize),
    Remove(usize),
    Disable(usize, u64),
    Status(u64, bool),
    Resolve(usize, usize, u64, u8),
}

fn tick() -> impl Strategy<Value = Tick> {
    prop_oneof![
        (0..3usize, 0..3usize, 0..4u64, 1..9u64).prop_map(|(d, s, i, n)| Tick::Create(d, s, i, n)),
        (0..6usize, 1..9u64, any::<bool>()).prop_map(|(slot, n, r)| Tick::Replace(slot, n, r)),
        (0..6usize).prop_map(Tick::Settle),
        (0..6usize).prop_map(Tick::Revert),
        (0..6usize).prop_map(Tick::Exhaust),
        (0..6usize).prop_map(Tick::Remove),
        (0..6usize, 1..9u64).prop_map(|(slot, n)| Tick::Disable(slot, n)),
        (1..9u64, any::<bool>()).prop_map(|(n, ready)| Tick::Status(n, ready)),
        (0..3usize, 0..3usize, 1..4u64, 0..3u8)
            .prop_map(|(d, s, revision, digest)| Tick::Resolve(d, s, revision, digest)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let services = proptest::collection::vec(0..3usize, 0..3);
    prop_oneof![
        (0..4usize).prop_map(Step::Token),
        (0..4usize).prop_map(Step::Admit),
        (1..9u64).prop_map(Step::RemoveNode),
        (1..9u64, any::<bool>()).prop_map(|(n, cordon)| Step::Availability(n, cordon)),
        (0..3usize, services, 0..4u8).prop_map(|(d, s, image)| Step::Deploy(d, s, image)),
        (0..3usize).prop_map(Step::Delete),
        (0..3u64, proptest::collection::vec(tick(), 0..4)).prop_map(|(lag, t)| Step::Batch(lag, t)),
        (1..9u64, 0..6usize, any::<bool>())
            .prop_map(|(n, slot, gone)| Step::Observe(n, slot, gone)),
        (disabling(), proptest::collection::vec(place(), 0..4))
            .prop_map(|(change, places)| Step::Rest(change, places)),
        (0..3usize, 0..3u8).prop_map(|(registry, sealed)| Step::Login(registry, sealed)),
        (0..3usize).prop_map(Step::Logout),
        (0..6usize, 1..9u64).prop_map(|(slot, to)| Step::MoveData(slot, to)),
        (0..6u8, 0..3u8, 0..6u64).prop_map(|(what, image, node)| Step::Image(what, image, node)),
    ]
}

fn disabling() -> impl Strategy<Value = Disabling> {
    prop_oneof![Just(Disabling::Disable), Just(Disabling::Enable), Just(Disabling::Replace)]
}

fn nth_slot(state: &ClusterState, n: usize) -> Option<&jaco_types::Slot> {
    state.slots.values().nth(n)
}

fn command(state: &ClusterState, now: jaco_types::Timestamp, step: &Step) -> Option<Command> {
    Some(match step {
        Step::Token(n) => JoinTokenIssue::new(join_token(&format!("t{n}"), now, 1)).into(),
        Step::Admit(n) => admit(HOSTS[*n], &format!("t{n}")),
        Step::RemoveNode(n) => NodeRemove::new(NodeId(*n)).into(),
        Step::Availability(n, cordon) => {
            let availability = if *cordon { Availability::Cordoned } else { Availability::Active };
            NodeSetAvailability::new(NodeId(*n), availability).into()
        }
        Step::Deploy(name, services, image) => {
            let image = format!("image:{image}");
            let services: Vec<_> = services.iter().map(|n| service(SERVICES[*n], &image)).collect();
            deploy(NAMES[*name], &services)
        }
        Step::Delete(name) => DeploymentDelete::new(deployment(NAMES[*name])).into(),
        Step::Batch(lag, ticks) => {
            let changes = ticks.iter().filter_map(|tick| change(state, tick)).collect();
            Batch::new(StateIndex(state.index.0.saturating_sub(*lag)), changes).into()
        }
        Step::Rest(change, places) => {
            let scopes = places.iter().filter_map(|place| scope(state, place)).collect();
            DisabledSet::new(*change, scopes).into()
        }
        Step::MoveData(slot, to) => {
            let slot = nth_slot(state, *slot)?;
            let replicas = [(slot.id.clone(), slot.current.raft_index)].into();
            DataMove::new(replicas, NodeId(*to)).into()
        }
        Step::Login(registry, sealed) => {
            registries::store(REGISTRIES[*registry], &vec![1; usize::from(*sealed)])
        }
        Step::Logout(registry) => registries::remove(REGISTRIES[*registry]),
        Step::Image(what, image, node) => {
            let name = ["image:0", "image:1", "other"][usize::from(*image)];
            match what {
                0 | 1 => images::push(*image).keep_unused(Millis(50)).into(),
                2 | 3 => images::held(NodeId(*node), &[*image, 1]),
                4 => images::tag(name, *image),
                _ => ImageRemove::new(images::name(name), InUse::Remove).into(),
            }
        }
        Step::Observe(node, slot, gone) => {
            let id = nth_slot(state, *slot)?.current_id();
            let node = NodeId(*node);
            let observed = vec![seen(id.clone(), node, ReplicaState::Running)];
            if *gone {
                Observe::new(node).gone(vec![id]).into()
            } else {
                Observe::new(node).observed(observed).into()
            }
        }
    })
}

fn change(state: &ClusterState, tick: &Tick) -> Option<Change> {
    let id = |n: usize| nth_slot(state, n).map(|slot| slot.id.clone());
    Some(match tick {
        Tick::Create(name, service, index, node) => {
            create(&key(NAMES[*name], SERVICES[*service]), *index, NodeId(*node))
        }
        Tick::Replace(slot, node, retire) => {
            let previous = if *retire { Previous::Retire } else { Previous::Drop };
            replace(&id(*slot)?, NodeId(*node), previous)
        }
        Tick::Settle(slot) => Change::SlotSettle { id: id(*slot)? },
        Tick::Revert(slot) => Change::SlotRevert { id: id(*slot)? },
        Tick::Exhaust(slot) => {
            Change::SlotSetRestarts { id: id(*slot)?, consecutive: 3, exhausted: Exhausted::Yes }
        }
        Tick::Disable(slot, node) => {
            Change::SlotDisable { id: id(*slot)?, instance: instance(NodeId(*node), 2) }
        }
        Tick::Remove(slot) => Change::SlotRemove { id: id(*slot)? },
        Tick::Resolve(name, service, revision, digit) => Change::ImageResolve {
            service: key(NAMES[*name], SERVICES[*service]),
            revision: Revision(*revision),
            digest: digest(*digit),
        },
        Tick::Status(node, ready) => {
            let status = if *ready { NodeStatus::Ready } else { NodeStatus::Down };
            Change::NodeStatusSet { node: NodeId(*node), status, reason: String::new() }
        }
    })
}

/// Applies the steps, and keeps the entries.
fn run(steps: &[Step]) -> (History, Vec<Entry>) {
    let mut history = History::founded();
    let mut entries = Vec::new();
    for step in steps {
        history.now = history.now.after(jaco_types::Millis(1000));
        let Some(command) = command(&history.state, history.now, step) else { continue };
        let entry = history.entry(Some(&format!("r{}", entries.len())), command);
        apply(&mut history.state, &entry);
        entries.push(entry);
    }
    (history, entries)
}

proptest! {
    /// ST-1, ST-5 to ST-12, ST-14 to ST-16: `apply` takes any command in any state, and what must hold, holds.
    #[test]
    fn every_history_keeps_the_invariants(steps in proptest::collection::vec(step(), 0..40)) {
        let (history, _) = run(&steps);
        prop_assert_eq!(violations(&history.state), vec![]);
    }

    /// Two nodes that applied the same entries hold equal states, whoever else keeps copies.
    #[test]
    fn the_same_entries_give_the_same_state(steps in proptest::collection::vec(step(), 0..40)) {
        let (history, entries) = run(&steps);
        let mut again = History::founded();
        let mut copies = Vec::new();
        for entry in &entries {
            apply(&mut again.state, entry);
            copies.push(again.state.clone());
        }
        prop_assert_eq!(&again.state, &history.state);
        // And an older copy stays as it was.
        for (copy, entry) in copies.iter().zip(&entries) {
            prop_assert_eq!(copy.index, entry.index);
        }
    }

    /// ST-16: the digest of an image at a revision is pinned once, and stays for as long as the revision.
    #[test]
    fn a_settled_image_stays(steps in proptest::collection::vec(step(), 0..40)) {
        let (_, entries) = run(&steps);
        let mut history = History::founded();
        for entry in &entries {
            let before = history.state.clone();
            apply(&mut history.state, entry);
            for deployment in before.deployments.values() {
                let Some(after) = history.state.deployments.get(&deployment.name) else { continue };
                for (revision, record) in &deployment.revisions {
                    let Some(kept) = after.revisions.get(revision) else { continue };
                    let stays = |(service, digest)| kept.digests.get(service) == Some(digest);
                    prop_assert!(record.digests.iter().all(stays), "{revision}");
                }
            }
        }
    }

    /// R-CLI-9: applying every entry a second time, under its request id, changes nothing.
    #[test]
    fn a_retry_changes_nothing(steps in proptest::collection::vec(step(), 1..30)) {
        let (mut history, entries) = run(&steps);
        let before = history.state.clone();
        for entry in &entries {
            let index = StateIndex(history.state.index.0 + 1);
            apply(&mut history.state, &Entry { index, ..entry.clone() });
        }
        let ClusterState { index: _, .. } = &before;
        prop_assert_eq!(&history.state, &ClusterState { index: history.state.index, ..before });
    }

    /// ST-2: a refused entry leaves no trace but its outcome and its event.
    #[test]
    fn a_refusal_leaves_no_trace(steps in proptest::collection::vec(step(), 0..30), last in step()) {
        let (mut history, _) = run(&steps);
        let before = history.state.clone();
        let Some(command) = command(&history.state, history.now, &last) else { return Ok(()) };
        if let Outcome::Rejected(_) = history.apply(command) {
            let after = &history.state;
            let undone = ClusterState {
                index: before.index,
                audit: before.audit.clone(),
                requests: before.requests.clone(),
                ..after.clone()
            };
            prop_assert_eq!(undone, before);
        }
    }
}
