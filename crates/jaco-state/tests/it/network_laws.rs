//! Laws of networks over random histories of commands, and that breaking each of them is found.

use jaco_state::command::{
    Batch, DeploymentDelete, DeploymentRollback, NetworkCreate, NetworkRemove, NetworkResize,
    NodeRemove, Observe, Previous, ReplaceCause,
};
use jaco_state::invariants::network::AddressWatch;
use jaco_state::invariants::{Law, Violation, violations};
use jaco_state::network::Quarantine;
use jaco_state::{Change, ClusterState, Command, Entry, NewInstance, apply};
use jaco_types::spec::NetworkSpec;
use jaco_types::{
    Completion, DesiredState, InstanceId, Millis, NetworkReach, NetworkScope, NodeId, NodeStatus,
    Ordinal, ReplicaId, ReplicaState, Revision, Slot, StateIndex,
};
use proptest::prelude::*;

use crate::attached::{begin, deploy_networks, deploy_shared, joining, network_name, networked};
use crate::history::{History, admit, deployment, join_token, key, seen};

const NAMES: [&str; 2] = ["blog", "shop"];
const KEYS: [&str; 2] = ["back", "default"];

/// One step of a history, with small numbers in place of names.
#[derive(Debug, Clone)]
enum Step {
    Begin,
    Admit(usize),
    RemoveNode(u64),
    /// Deployment, image, keys with their reach.
    Deploy(usize, u8, Vec<(usize, bool)>),
    DeployShared(usize, u8),
    Rollback(usize),
    Delete(usize),
    Shared(bool),
    Resize(usize, u8),
    Consumer(bool),
    Batch(Vec<Tick>),
    Observe(u64, usize, ReplicaState),
    Gone(u64, usize),
    Joined(u64, usize),
    Wait(u64),
}

#[derive(Debug, Clone)]
enum Tick {
    Create(usize, u64, u64, u64),
    Replace(usize, u64, u64, bool),
    Settle(usize),
    Revert(usize),
    Remove(usize),
    Disable(usize),
    Finish(usize),
    Release(usize),
    Status(u64, bool),
}

fn tick() -> impl Strategy<Value = Tick> {
    prop_oneof![
        6 => (0..2usize, 0..4u64, 1..4u64, 1..9u64)
            .prop_map(|(name, index, node, revision)| Tick::Create(name, index, node, revision)),
        6 => (0..6usize, 1..4u64, 1..9u64, any::<bool>())
            .prop_map(|(slot, node, revision, retire)| Tick::Replace(slot, node, revision, retire)),
        1 => (0..6usize).prop_map(Tick::Settle),
        1 => (0..6usize).prop_map(Tick::Revert),
        1 => (0..6usize).prop_map(Tick::Remove),
        1 => (0..6usize).prop_map(Tick::Disable),
        1 => (0..6usize).prop_map(Tick::Finish),
        2 => (0..2usize).prop_map(Tick::Release),
        1 => (1..4u64, any::<bool>()).prop_map(|(node, ready)| Tick::Status(node, ready)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let keys = proptest::collection::vec((0..2usize, any::<bool>()), 0..3);
    let state = prop_oneof![
        4 => Just(ReplicaState::Running),
        1 => Just(ReplicaState::Starting),
        1 => Just(ReplicaState::Failed),
        1 => Just(ReplicaState::Stopped),
    ];
    prop_oneof![
        1 => Just(Step::Begin),
        1 => (0..3usize).prop_map(Step::Admit),
        1 => (1..4u64).prop_map(Step::RemoveNode),
        4 => (0..2usize, 0..3u8, keys).prop_map(|(name, image, keys)| Step::Deploy(name, image, keys)),
        1 => (0..2usize, 0..3u8).prop_map(|(name, image)| Step::DeployShared(name, image)),
        1 => (0..2usize).prop_map(Step::Rollback),
        1 => (0..2usize).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Shared),
        1 => (0..3usize, 22..28u8).prop_map(|(network, length)| Step::Resize(network, length)),
        1 => any::<bool>().prop_map(Step::Consumer),
        8 => proptest::collection::vec(tick(), 0..6).prop_map(Step::Batch),
        6 => (1..4u64, 0..12usize, state).prop_map(|(node, slot, state)| Step::Observe(node, slot, state)),
        4 => (1..4u64, 0..12usize).prop_map(|(node, slot)| Step::Gone(node, slot)),
        2 => (1..4u64, 0..12usize).prop_map(|(node, slot)| Step::Joined(node, slot)),
        3 => (0..90u64).prop_map(Step::Wait),
    ]
}

/// The instances that a node may report: those of slots, and those that were observed.
fn instance(state: &ClusterState, n: usize) -> Option<InstanceId> {
    let ids: Vec<InstanceId> = state
        .slots
        .values()
        .map(Slot::current_id)
        .chain(state.observed.keys().cloned())
        .chain(state.networks.quarantine.keys().cloned())
        .collect();
    ids.get(n % ids.len().max(1)).cloned()
}

/// Who reports the nth instance: mostly the node that has it.
fn place_of(state: &ClusterState, node: u64, n: usize) -> Option<NodeId> {
    let id = instance(state, n)?;
    let slot = state.slots.get(&id.replica);
    let slot = slot.and_then(|slot| slot.instances().find(|(live, _)| *live == id));
    let known = slot.map(|(_, live)| live.node);
    let known = known.or_else(|| state.observed.get(&id).map(|seen| seen.node));
    let known = known.or_else(|| state.networks.quarantine.get(&id).map(|row| row.node));
    known.filter(|_| node != 3).or_else(|| Some(member(state, node)))
}

/// One of the members.
fn member(state: &ClusterState, n: u64) -> NodeId {
    let place = usize::try_from(n).unwrap() % state.nodes.len().max(1);
    state.nodes.keys().nth(place).copied().unwrap_or(NodeId(99))
}

fn new_instance(state: &ClusterState, name: &str, node: u64, revision: u64) -> NewInstance {
    let service = key(name, "web");
    // Mostly what is desired, as the planner has it.
    let desired = state.deployments.get(&service.deployment).map(|known| known.revision);
    let revision = desired.filter(|_| revision > 3).unwrap_or(Revision(revision));
    let spec_hash = state.service_spec(&service, revision).map(|spec| spec.hash);
    let spec_hash = spec_hash.unwrap_or(jaco_types::SpecHash([9; 32]));
    NewInstance { node: member(state, node), revision, spec_hash, gpus: Vec::new() }
}

fn change(state: &ClusterState, tick: &Tick) -> Option<Change> {
    let slot = |n: usize| state.slots.values().nth(n);
    let id = |n: usize| slot(n).map(|slot| slot.id.clone());
    Some(match tick {
        Tick::Create(name, index, node, revision) => {
            let (service, ordinal) = (key(NAMES[*name], "web"), Ordinal::Index(*index));
            let instance = new_instance(state, NAMES[*name], *node, *revision);
            let desired_state = DesiredState::Active;
            let id = ReplicaId::new(&service, &ordinal);
            Change::SlotCreate { id, service, ordinal, instance, desired_state }
        }
        Tick::Replace(n, node, revision, retire) => {
            let name = slot(*n)?.service.deployment.to_string();
            Change::SlotReplace {
                id: id(*n)?,
                instance: new_instance(state, &name, *node, *revision),
                previous: if *retire { Previous::Retire } else { Previous::Drop },
                cause: ReplaceCause::SpecChanged,
                consecutive_failures: 0,
            }
        }
        Tick::Settle(n) => Change::SlotSettle { id: id(*n)? },
        Tick::Revert(n) => {
            // Only a handover can be reverted.
            let id = slot(*n).filter(|slot| slot.retiring.is_some())?.id.clone();
            Change::SlotRevert { id }
        }
        Tick::Remove(n) => Change::SlotRemove { id: id(*n)? },
        Tick::Disable(n) => {
            let name = slot(*n)?.service.deployment.to_string();
            Change::SlotDisable { id: id(*n)?, instance: new_instance(state, &name, 1, 1) }
        }
        Tick::Finish(n) => {
            // A slot is finished by itself only, never in a handover.
            let (completion, consecutive_failures) = (Completion::Succeeded, 0);
            let id = slot(*n).filter(|slot| slot.retiring.is_none())?.id.clone();
            Change::SlotFinish { id, completion, consecutive_failures }
        }
        Tick::Release(n) => {
            Change::TerminatingRemove { id: state.terminating.keys().nth(*n)?.clone() }
        }
        Tick::Status(node, ready) => {
            let status = if *ready { NodeStatus::Ready } else { NodeStatus::Down };
            Change::NodeStatusSet { node: member(state, *node), status, reason: String::new() }
        }
    })
}

fn command(history: &History, step: &Step) -> Option<Command> {
    let state = &history.state;
    Some(match step {
        Step::Begin => begin("10.64.0.0/12", 1420),
        Step::Admit(n) => {
            let host = ["n1", "n2", "n3"][*n];
            admit(host, &format!("t-{host}"))
        }
        Step::RemoveNode(n) => NodeRemove::new(member(state, *n)).into(),
        Step::Deploy(name, image, keys) => {
            let networks: Vec<_> = keys
                .iter()
                .map(|(key, internal)| {
                    let reach = match internal {
                        true => NetworkReach::Internal,
                        false => NetworkReach::Outside,
                    };
                    (KEYS[*key], NetworkSpec { reach, length: Some(26) })
                })
                .collect::<std::collections::BTreeMap<_, _>>()
                .into_iter()
                .collect();
            // As admission does it: the networks are part of what the hash is of.
            let image = format!("{image}{networks:?}");
            joining(deploy_networks(NAMES[*name], &digest_of(&image), &networks))
        }
        Step::DeployShared(name, image) => {
            joining(deploy_shared(NAMES[*name], &format!("{image}shared"), "backbone"))
        }
        Step::Rollback(name) => DeploymentRollback::new(deployment(NAMES[*name])).into(),
        Step::Delete(name) => DeploymentDelete::new(deployment(NAMES[*name])).into(),
        Step::Shared(true) => NetworkCreate::new(network_name("backbone")).length(Some(26)).into(),
        Step::Shared(false) => NetworkRemove::new(network_name("backbone")).into(),
        Step::Resize(network, length) => {
            let scope = ["backbone", "shop/default", "blog/back"][*network];
            NetworkResize::new(NetworkScope::parse(scope).unwrap(), *length).into()
        }
        Step::Consumer(attached) => {
            let name = jaco_types::ConsumerName::new("edge").unwrap();
            match (attached, state.consumers.get(&name)) {
                (true, _) => {
                    jaco_state::command::ConsumerAttach::new(name, NodeId::FIRST, Millis(5000))
                        .into()
                }
                (false, known) => {
                    jaco_state::command::ConsumerDetach::new(name, known?.session).into()
                }
            }
        }
        Step::Batch(ticks) => {
            // Each slot is written once, as plans do it.
            let mut written = std::collections::BTreeSet::new();
            let changes = ticks.iter().filter_map(|tick| change(state, tick)).filter(|change| {
                let id = match change {
                    Change::SlotCreate { id, .. }
                    | Change::SlotReplace { id, .. }
                    | Change::SlotSettle { id }
                    | Change::SlotRevert { id }
                    | Change::SlotRemove { id }
                    | Change::SlotDisable { id, .. }
                    | Change::SlotFinish { id, .. } => id.to_string(),
                    other => format!("{other:?}"),
                };
                written.insert(id)
            });
            Batch::new(state.index, changes.collect()).into()
        }
        Step::Observe(node, n, seen_as) => {
            let (node, id) = (place_of(state, *node, *n)?, instance(state, *n)?);
            Observe::new(node).observed(vec![seen(id, node, *seen_as)]).into()
        }
        Step::Gone(node, n) => {
            let node = place_of(state, *node, *n)?;
            Observe::new(node).gone(vec![instance(state, *n)?]).into()
        }
        Step::Joined(node, n) => {
            let node = place_of(state, *node, *n)?;
            Observe::new(node).joined(vec![instance(state, *n)?]).into()
        }
        Step::Wait(_) => return None,
    })
}

/// The first bytes of an image's name are the hash of its service.
fn digest_of(text: &str) -> String {
    let sum = text.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{sum:020}")
}

/// Applies the steps to a cluster of three nodes; says what each entry breaks.
fn run(steps: &[Step]) -> Vec<Violation> {
    let mut history = networked();
    for host in ["n2", "n3"] {
        history.join(host);
    }
    for host in ["n1", "n2", "n3"] {
        let token = join_token(&format!("t-{host}"), history.now, 9);
        history.apply(jaco_state::command::JoinTokenIssue::new(token).into());
    }
    for name in NAMES {
        history.apply(crate::attached::attached(name, "web:1", &[("default", Some(26))]));
    }
    let (mut watch, mut found) = (AddressWatch::default(), Vec::new());
    for step in steps {
        // Wherever the search begins: from the first address on, one that was freed is found at once.
        let networks: Vec<_> = history.state.networks.rows.keys().copied().collect();
        for network in networks {
            history.state.networks.rows.get_mut(&network).unwrap().cursor = 0;
        }
        history.now = history.now.after(Millis(1000));
        if let Step::Wait(seconds) = step {
            history.now = history.now.after(Millis(1000 * seconds));
        }
        let Some(command) = command(&history, step) else { continue };
        let entry = Entry { origin: None, ..history.entry(None, command) };
        apply(&mut history.state, &entry);
        found.extend(violations(&history.state));
        found.extend(watch.follow(&history.state, entry.at));
        if !found.is_empty() {
            break;
        }
    }
    found
}

proptest! {
    /// NET-1, NET-2, NET-3, NET-4, NET-6: whatever is commanded, they hold after each entry.
    #[test]
    fn networks_keep_their_laws(steps in proptest::collection::vec(step(), 0..80)) {
        prop_assert_eq!(run(&steps), vec![]);
    }
}

/// A sound state: `shop-web-0` in a network, its predecessor in quarantine.
fn sound() -> (History, AddressWatch) {
    let (mut history, mut watch) = (networked(), AddressWatch::default());
    history.join("n2");
    history.apply(crate::attached::deploy_attached("shop", "web:1", &["default"]));
    crate::attached::start(&mut history, 0);
    watch.follow(&history.state, history.now);
    crate::attached::start_again(&mut history, 0, Previous::Drop);
    assert_eq!(violations(&history.state), vec![]);
    assert_eq!(watch.follow(&history.state, history.now), vec![]);
    (history, watch)
}

/// Breaks a sound state; this law is among those that are found broken.
fn check(law: Law, spoil: impl FnOnce(&mut ClusterState)) {
    let (History { mut state, .. }, _) = sound();
    spoil(&mut state);
    let found = violations(&state);
    assert!(found.iter().any(|violation| violation.law == law), "{law}: {found:?}");
}

fn slot(state: &mut ClusterState) -> &mut Slot {
    state.slots.get_mut(&crate::history::replica("shop-web-0")).unwrap()
}

/// NET-1: one that has the address of another is found, and one that its network does not know.
#[test]
fn an_address_with_two_holders_is_found() {
    check(Law::AddressHeldOnce, |state| {
        let other = state.networks.quarantine.values().next().unwrap().addresses.clone();
        slot(state).current.addresses = other;
    });
    check(Law::AddressHeldOnce, |state| {
        let id = state.networks.rows.keys().next().copied().unwrap();
        state.networks.rows.get_mut(&id).unwrap().taken.clear();
    });
}

/// NET-2
#[test]
fn addresses_and_subnets_outside_are_found() {
    check(Law::AddressInNetwork, |state| {
        slot(state).current.addresses[0].address = "10.65.0.1".parse().unwrap();
    });
    check(Law::AddressInNetwork, |state| {
        let (_, row) = state.networks.rows.iter().next().unwrap();
        let other = jaco_state::network::Network { id: jaco_types::NetworkId(7), ..row.clone() };
        state.networks.rows.insert(other.id, other);
    });
    check(Law::AddressInNetwork, |state| {
        let id = state.networks.rows.keys().next().copied().unwrap();
        let subnet = jaco_types::Subnet::new("10.64.7.0/24".parse().unwrap()).unwrap();
        state.networks.rows.get_mut(&id).unwrap().subnet = subnet;
    });
}

/// NET-3: a quarantine that can never end is found in a state; one that was skipped, by the watch.
#[test]
fn a_skipped_quarantine_is_found() {
    check(Law::AddressQuarantined, |state| {
        let id = state.networks.quarantine.keys().next().unwrap().clone();
        state.networks.quarantine.get_mut(&id).unwrap().until = None;
    });
    let (mut history, mut watch) = sound();
    // As if the quarantine were over at once: the freed address is the only one that is free.
    let (id, quarantine) = history.state.networks.quarantine.iter().next().unwrap();
    let (id, Quarantine { addresses, .. }) = (id.clone(), quarantine.clone());
    history.state.networks.quarantine.remove(&id);
    let network = history.state.networks.rows.get_mut(&addresses[0].network).unwrap();
    network.taken.remove(&addresses[0].address);
    network.cursor = 0;
    crate::attached::start(&mut history, 1);
    assert_eq!(violations(&history.state), vec![], "no state shows it");
    let found = watch.follow(&history.state, history.now);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].law, Law::AddressQuarantined);
}

/// NET-3: an address of an instance that its node still has is found in other hands.
#[test]
fn an_address_of_a_container_that_runs_is_found() {
    let (mut history, mut watch) = sound();
    let id = slot(&mut history.state).current_id();
    let running = seen(id.clone(), NodeId::FIRST, ReplicaState::Running);
    history.apply(Observe::new(NodeId::FIRST).observed(vec![running]).into());
    watch.follow(&history.state, history.now);
    let addresses = slot(&mut history.state).current.addresses.clone();
    history.state.index = StateIndex(history.state.index.0 + 1);
    let current = &mut slot(&mut history.state).current;
    current.raft_index = StateIndex(current.raft_index.0 + 1);
    current.addresses = addresses;
    history.now = history.now.after(Millis(600_000));
    let found = watch.follow(&history.state, history.now);
    assert_eq!(found.iter().map(|one| one.law).collect::<Vec<_>>(), [Law::AddressQuarantined]);
}

/// NET-4
#[test]
fn other_networks_than_the_revisions_are_found() {
    check(Law::NetworksOfRevision, |state| slot(state).current.addresses.clear());
}

/// NET-6
#[test]
fn mesh_addresses_that_are_not_unique_are_found() {
    for own in [None, Some("10.64.0.1"), Some("10.65.0.1")] {
        check(Law::MeshAddress, |state| {
            let last = state.nodes.keys().next_back().copied().unwrap();
            state.nodes.get_mut(&last).unwrap().mesh_address = own.map(|own| own.parse().unwrap());
        });
    }
}
