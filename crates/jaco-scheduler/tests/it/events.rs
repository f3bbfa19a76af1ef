//! Anything that can happen to a cluster, as data; and what must hold after each of it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use jaco_scheduler::Plan;
use jaco_state::command::{Change, DataMove, DeploymentDelete, DisabledSet, Disabling, NodeRemove};
use jaco_types::slot::Exhausted;
use jaco_types::slot::SlotData;
use jaco_types::spec::{
    Affinity, Dependency, DependencyCondition, DependencyRequirement, HostPort, Operator,
    Placement, Protocol, RestartPolicy, SchedulingPolicy, Scoring, ServiceMode, SpreadCriterion,
    SpreadTarget, Storage, UpdateOrder,
};
use jaco_types::unit::{Bytes, Resources};
use jaco_types::{
    AllocationScope, Availability, Completion, DeploymentName, DesiredState, GpuChoice, Millis,
    NodeId, NodeStatus, Ordinal, ReplicaState, RolloutState, ServiceName, ServiceSpec, Slot,
    VolumeDemand,
};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, constraint, hostname, key, resources, service};

/// The hosts that there may be.
pub(crate) const HOSTS: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];
/// How many instances each takes; 0 for any number.
const INSTANCES_MAX: [u32; 5] = [0, 3, 0, 5, 1];
/// What they carry; two data centres with two racks each, and a node that says nothing.
const LABELS: [&[(&str, &str)]; 5] = [
    &[("datacenter", "a"), ("rack", "r1")],
    &[("datacenter", "a"), ("rack", "r2")],
    &[("datacenter", "b"), ("rack", "r1")],
    &[("datacenter", "b"), ("rack", "r2"), ("ssd", "yes")],
    &[],
];
const DEPLOYMENTS: [&str; 2] = ["blog", "shop"];

/// Something that happens.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Apply {
        deployment: usize,
        services: Vec<Service>,
    },
    Delete {
        deployment: usize,
    },
    Join {
        host: usize,
        capacity: Resources,
    },
    Remove {
        host: usize,
    },
    SetAvailability {
        host: usize,
        availability: Availability,
    },
    /// Time passes; the host says nothing meanwhile.
    Silence {
        host: usize,
        length: u64,
    },
    Time {
        length: u64,
    },
    /// Some instance is seen in some state.
    See {
        slot: usize,
        state: ReplicaState,
    },
    /// All nodes do what is desired.
    Obey,
    /// Operators change the default constraints.
    Constrain {
        key: &'static str,
        value: &'static str,
    },
    /// A consumer watches the endpoints, with this lease in seconds.
    Attach {
        lease: u64,
    },
    /// Operators disable something, or enable it again.
    SetDisabled {
        change: Disabling,
        what: DisableTarget,
    },
    /// What a disabled replica has was copied to a node.
    MoveData {
        slot: usize,
        host: usize,
    },
}

/// What may be disabled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DisableTarget {
    Node(usize),
    Service(usize, &'static str),
    Pair(usize, &'static str, usize),
    Replica(usize),
}

fn disable_target() -> impl Strategy<Value = DisableTarget> {
    let (host, deployment) = (0..HOSTS.len(), 0..DEPLOYMENTS.len());
    let name = prop_oneof![Just("api"), Just("web")];
    prop_oneof![
        host.clone().prop_map(DisableTarget::Node),
        (deployment.clone(), name.clone()).prop_map(|(d, s)| DisableTarget::Service(d, s)),
        (deployment, name, host).prop_map(|(d, s, h)| DisableTarget::Pair(d, s, h)),
        (0..40usize).prop_map(DisableTarget::Replica),
    ]
}

fn disabling() -> impl Strategy<Value = Disabling> {
    prop_oneof![
        3 => Just(Disabling::Disable),
        2 => Just(Disabling::Enable),
        1 => Just(Disabling::Replace)
    ]
}

/// What it means, where the cluster has it.
fn scope(cluster: &Cluster, what: DisableTarget) -> Option<AllocationScope> {
    let node = |host: usize| Some(cluster.state.node_by_hostname(&hostname(HOSTS[host]))?.id);
    let service = |deployment: usize, name| key(DEPLOYMENTS[deployment], name);
    Some(match what {
        DisableTarget::Node(host) => AllocationScope::Node(node(host)?),
        DisableTarget::Service(deployment, name) => {
            AllocationScope::Service(service(deployment, name))
        }
        DisableTarget::Pair(deployment, name, host) => {
            AllocationScope::Pair { service: service(deployment, name), node: node(host)? }
        }
        DisableTarget::Replica(slot) => {
            let slots: Vec<_> = cluster.state.slots.values().collect();
            let slot = slots.get(slot % slots.len().max(1))?;
            AllocationScope::Replica { service: slot.service.clone(), id: slot.id.clone() }
        }
    })
}

pub(crate) fn events(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), count)
}

fn event() -> impl Strategy<Value = Event> {
    let host = 0..HOSTS.len();
    prop_oneof![
        4 => (0..DEPLOYMENTS.len(), prop::collection::vec(any_service(), 0..3))
            .prop_map(|(deployment, services)| Event::Apply { deployment, services }),
        1 => (0..DEPLOYMENTS.len()).prop_map(|deployment| Event::Delete { deployment }),
        2 => (host.clone(), capacity()).prop_map(|(host, capacity)| Event::Join { host, capacity }),
        1 => host.clone().prop_map(|host| Event::Remove { host }),
        2 => (host.clone(), availability())
            .prop_map(|(host, availability)| Event::SetAvailability { host, availability }),
        2 => (host, 1..40u64).prop_map(|(host, length)| Event::Silence { host, length }),
        1 => (1..80u64).prop_map(|length| Event::Time { length }),
        6 => (0..40usize, state()).prop_map(|(slot, state)| Event::See { slot, state }),
        4 => Just(Event::Obey),
        1 => (1..40u64).prop_map(|lease| Event::Attach { lease }),
        3 => (disabling(), disable_target()).prop_map(|(change, what)| Event::SetDisabled { change, what }),
        1 => (0..40usize, 0..HOSTS.len()).prop_map(|(slot, host)| Event::MoveData { slot, host }),
        1 => (prop_oneof![Just("cpu"), Just("hostname")], prop_oneof![Just(""), Just("1"), Just("max")])
            .prop_map(|(key, value)| Event::Constrain { key, value }),
    ]
}

fn capacity() -> impl Strategy<Value = Resources> {
    prop_oneof![Just(resources(0, 0)), Just(resources(1000, 0)), Just(resources(2000, 600))]
}

fn availability() -> impl Strategy<Value = Availability> {
    prop_oneof![
        Just(Availability::Active),
        Just(Availability::Cordoned),
        Just(Availability::Draining)
    ]
}

pub(crate) fn state() -> impl Strategy<Value = ReplicaState> {
    prop_oneof![
        1 => Just(ReplicaState::Pending),
        1 => Just(ReplicaState::Pulling),
        1 => Just(ReplicaState::Starting),
        4 => Just(ReplicaState::Running),
        1 => Just(ReplicaState::Degraded),
        2 => Just(ReplicaState::Failed),
        1 => Just(ReplicaState::Stopped),
    ]
}

/// Any service of a few kinds; the image is its whole container, so equal images have equal hashes
/// only where what the hash covers is equal too.
pub(crate) fn any_service() -> impl Strategy<Value = Service> {
    let kind = prop_oneof![
        5 => Just(Kind::Plain),
        1 => Just(Kind::Stateful(UpdateOrder::StartFirst)),
        1 => Just(Kind::Stateful(UpdateOrder::StopFirst)),
        1 => Just(Kind::Port),
        2 => Just(Kind::Reserving),
        2 => (1..3u32).prop_map(Kind::Computing),
        2 => (1..4u64).prop_map(Kind::Keeping),
        1 => Just(Kind::Job(RestartPolicy::Never)),
        1 => Just(Kind::Job(RestartPolicy::OnFailure { retries: Some(1) })),
        1 => Just(Kind::Restarting(RestartPolicy::OnFailure { retries: None })),
    ];
    let names = prop_oneof![Just("api"), Just("web")];
    let depends = prop::option::weighted(0.1, condition());
    let wanted = (names, 0..3u8, 0..6u32);
    let policy = (policy(), colocation());
    (wanted, placement(), kind, 1..3u32, depends, policy).prop_map(
        |((name, version, replicas), placement, kind, parallelism, depends, policy)| {
            let image = format!("{name}:{version}:{kind:?}");
            let made = service(name, &image).replicas(replicas).placement(placement);
            let made = if let Kind::Computing(gpus) = kind { made.gpus(gpus) } else { made };
            made.with(|spec| {
                spec.update.parallelism = parallelism;
                spec.scheduling = policy.0;
                // No circles: only one of the two is colocated with the other.
                if name == "api" {
                    let web = || std::iter::once(ServiceName::new("web").unwrap());
                    match policy.1 {
                        Colocated::Alone => {}
                        Colocated::PlacedWith => spec.scheduling.place_with.extend(web()),
                        Colocated::Beside => spec.scheduling.shares_namespaces_with.extend(web()),
                    }
                }
                spec.depends_on = depends.into_iter().map(on_other(name)).collect();
                match kind {
                    Kind::Plain | Kind::Computing(_) => {}
                    Kind::Keeping(size) => {
                        spec.storage = Storage::Stateful;
                        spec.volumes.push(VolumeDemand {
                            volume: format!("{name}_data").into(),
                            class: "ssd".parse().unwrap(),
                            size: Bytes(size),
                        });
                    }
                    Kind::Stateful(order) => {
                        spec.storage = Storage::Stateful;
                        spec.update.order = order;
                    }
                    Kind::Port => {
                        spec.host_ports.push(HostPort { port: 80, protocol: Protocol::Tcp });
                    }
                    Kind::Reserving => spec.reservation = resources(400, 100),
                    Kind::Job(restart) => (spec.mode, spec.restart) = (ServiceMode::Job, restart),
                    Kind::Restarting(restart) => spec.restart = restart,
                }
            })
        },
    )
}

fn policy() -> impl Strategy<Value = SchedulingPolicy> {
    let target = prop_oneof![Just("a"), Just("b"), Just("c")].prop_flat_map(|value| {
        (0..=120u8).prop_map(|percent| SpreadTarget { value: value.to_owned(), percent })
    });
    let attribute = prop_oneof![
        Just("${node.datacenter}"),
        Just("meta.rack"),
        Just("node.hostname"),
        Just("nowhere")
    ];
    let spread = (attribute, 0..=100u8, prop::collection::vec(target, 0..3)).prop_map(
        |(attribute, weight, targets)| {
            let attribute = attribute.to_owned();
            SpreadCriterion { attribute, weight, targets }
        },
    );
    let needs = prop_oneof![
        4 => Just(None),
        1 => Just(Some(constraint("rack", Operator::Equal, "r1"))),
        1 => Just(Some(constraint("ssd", Operator::IsNotSet, ""))),
        1 => Just(Some(constraint("node.reservable_cpu_millis", Operator::GreaterOrEqual, "max"))),
    ];
    let likes =
        prop_oneof![2 => Just(None), 1 => Just(Some(constraint("ssd", Operator::IsSet, "")))];
    let selectors = prop::collection::btree_set(Just("rack".to_owned()), 0..2);
    let minimum = prop_oneof![3 => Just(resources(0, 0)), 1 => Just(resources(300, 0))];
    let lists = (prop::collection::vec(spread, 0..3), needs, likes, -100..=100i8);
    let max = prop_oneof![3 => Just(0), 1 => 1..3u32].prop_map(NonZeroU32::new);
    let scoring = prop_oneof![3 => Just(Scoring::Jaco), 1 => Just(Scoring::Nomad)];
    let policy = (lists, selectors, minimum, max, scoring).prop_map(
        |((spread, needs, likes, weight), selectors, minimum, max_per_node, scoring)| {
            SchedulingPolicy {
                scoring,
                selectors,
                constraints: needs.into_iter().collect(),
                affinities: likes
                    .map(|constraint| Affinity { constraint, weight })
                    .into_iter()
                    .collect(),
                spread,
                minimum,
                own_keys: BTreeSet::new(),
                max_per_node,
                ..SchedulingPolicy::default()
            }
        },
    );
    prop_oneof![2 => Just(SchedulingPolicy::default()), 1 => policy]
}

/// Whether a service is colocated with another.
#[derive(Debug, Clone, Copy)]
enum Colocated {
    Alone,
    PlacedWith,
    Beside,
}

fn colocation() -> impl Strategy<Value = Colocated> {
    prop_oneof![3 => Just(Colocated::Alone), 1 => Just(Colocated::PlacedWith), 1 => Just(Colocated::Beside)]
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Plain,
    Stateful(UpdateOrder),
    Port,
    Reserving,
    Computing(u32),
    /// With a volume of so many bytes.
    Keeping(u64),
    Job(RestartPolicy),
    Restarting(RestartPolicy),
}

fn condition() -> impl Strategy<Value = DependencyCondition> {
    prop_oneof![
        Just(DependencyCondition::Started),
        Just(DependencyCondition::Healthy),
        Just(DependencyCondition::CompletedSuccessfully)
    ]
}

fn on_other(name: &str) -> impl Fn(DependencyCondition) -> Dependency {
    let other = if name == "api" { "web" } else { "api" };
    let service = ServiceName::new(other).unwrap();
    move |condition| Dependency {
        service: service.clone(),
        condition,
        required: DependencyRequirement::Optional,
    }
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        4 => Just(Placement::Spread),
        2 => Just(Placement::Pack),
        1 => prop::collection::btree_set(0..HOSTS.len(), 1..4)
            .prop_map(|hosts| Placement::Hosts(hosts.into_iter().map(|h| hostname(HOSTS[h])).collect())),
        2 => Just(Placement::Global),
    ]
}

/// Makes it happen. What cannot happen as things stand does not.
pub(crate) fn happen(cluster: &mut Cluster, event: &Event) {
    let is_member = |cluster: &Cluster, host: usize| {
        cluster.state.node_by_hostname(&hostname(HOSTS[host])).is_some()
    };
    match event {
        Event::Apply { deployment, services } => {
            cluster.apply(DEPLOYMENTS[*deployment], services);
        }
        Event::Delete { deployment } => {
            let name = DeploymentName::new(DEPLOYMENTS[*deployment]).unwrap();
            cluster.commit(DeploymentDelete::new(name).into());
        }
        Event::Join { host, capacity } => {
            if !is_member(cluster, *host) {
                cluster.join_as(HOSTS[*host], *capacity, LABELS[*host]);
                cluster.give_gpus(HOSTS[*host], u32::try_from(*host).unwrap());
                // The first one offers none.
                if *host > 0 {
                    cluster.offer_volumes(HOSTS[*host], "ssd", u64::try_from(*host).unwrap() + 1);
                }
                cluster.limit_instances(HOSTS[*host], INSTANCES_MAX[*host]);
            }
        }
        Event::Remove { host } => {
            if is_member(cluster, *host) {
                let node = cluster.node(HOSTS[*host]);
                cluster.commit(NodeRemove::new(node).into());
            }
        }
        Event::SetAvailability { host, availability } => {
            if is_member(cluster, *host) {
                cluster.set_availability(HOSTS[*host], *availability);
            }
        }
        Event::Silence { host, length } => {
            let silent: Vec<_> =
                is_member(cluster, *host).then_some(HOSTS[*host]).into_iter().collect();
            cluster.advance(Millis::from_secs(*length), &silent);
        }
        Event::Time { length } => cluster.advance(Millis::from_secs(*length), &[]),
        Event::See { slot, state } => {
            let ids: Vec<_> = cluster.state.slots.keys().cloned().collect();
            if let Some(id) = ids.get(slot % ids.len().max(1)) {
                cluster.see(id.as_str(), *state);
            }
        }
        Event::Obey => cluster.obey(),
        Event::Constrain { key, value } => cluster.constrain(key, value),
        Event::Attach { lease } => cluster.attach("other", Millis::from_secs(*lease)),
        Event::SetDisabled { change, what } => {
            if let Some(scope) = scope(cluster, *what) {
                cluster.commit(DisabledSet::new(*change, [scope].into()).into());
            }
        }
        Event::MoveData { slot, host } => {
            let slots: Vec<_> = cluster.state.slots.values().collect();
            if let Some(slot) = slots.get(slot % slots.len().max(1))
                && is_member(cluster, *host)
            {
                let replicas = [(slot.id.clone(), slot.current.raft_index)].into();
                let to = cluster.node(HOSTS[*host]);
                cluster.commit(DataMove::new(replicas, to).into());
            }
        }
    }
}

/// What must hold after each pass, whatever happened before.
pub(crate) fn check(before: &Cluster, plan: &Plan, after: &Cluster) {
    check_room(after);
    check_placed(plan, after);
    check_bound(before, after);
    check_explained(after);
    check_indices(before, after);
    check_disabled(plan, after);
    check_finished(before, plan);
}

/// PL-23: what completed is run again as another spec only, what failed for good only after an apply.
fn check_finished(before: &Cluster, plan: &Plan) {
    for change in &plan.changes {
        let Change::SlotReplace { id, instance, .. } = change else { continue };
        let slot = before.state.slots.get(id);
        let finished = slot.filter(|slot| match slot.desired_state {
            DesiredState::Finished(Completion::Succeeded) => true,
            DesiredState::Finished(Completion::Failed) => slot.restarts.exhausted == Exhausted::Yes,
            DesiredState::Active | DesiredState::Disabled => false,
        });
        if let Some(slot) = finished {
            assert_ne!(slot.current.spec_hash, instance.spec_hash, "PL-23: {id}");
        }
    }
}

/// PL-18: what is disabled runs nothing, and nothing else is started where its service is disabled.
fn check_disabled(plan: &Plan, after: &Cluster) {
    for slot in after.state.slots.values() {
        let is_disabled = after.state.disabled.of_slot(slot).is_some();
        let is_active = slot.desired_state == DesiredState::Active;
        assert!(!(is_disabled && is_active), "PL-18: {} is not disabled", slot.id);
        if slot.desired_state == DesiredState::Disabled {
            assert_eq!(slot.instances().count(), 0, "PL-18: {}", slot.id);
            assert!(!after.is_desired(&slot.current_id()), "PL-18: {}", slot.id);
            let spec = &after.state.deployments.get(&slot.service.deployment);
            let wanted = spec.map(|known| &known.spec().services[&slot.service.service]);
            let is_stale = wanted_spec(after, slot).is_some_and(|_| {
                wanted.is_some_and(|wanted| wanted.hash != slot.current.spec_hash)
            });
            assert!(!is_stale, "PL-18: {} has an old definition", slot.id);
        }
    }
    for change in &plan.changes {
        if let Change::SlotCreate { id, .. } | Change::SlotReplace { id, .. } = change {
            let Some(slot) = after.state.slots.get(id) else { continue };
            let is_disabled = after.state.disabled.of_slot(slot).is_some();
            assert_eq!(is_disabled, slot.desired_state == DesiredState::Disabled, "PL-18: {id}");
        }
    }
}

/// PL-9: nothing is given away twice: no more is reserved of a node than it declares, no more instances are there than it
/// takes, and each port and each GPU of a host has one holder, who has as many as its spec asks for. What runs a spec that is no longer kept cannot be counted.
fn check_room(cluster: &Cluster) {
    let mut reserved: BTreeMap<NodeId, Resources> = BTreeMap::new();
    let (mut ports, mut gpus) = (BTreeSet::new(), BTreeSet::new());
    let mut instances: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut volumes: BTreeMap<(NodeId, &str), Bytes> = BTreeMap::new();
    // A terminating instance holds its room too, but against its own successor, which waits for it there.
    for terminating in cluster.state.terminating.values() {
        let slot = cluster.state.slots.get(&terminating.id.replica);
        let spec = cluster.state.service_spec(&terminating.service, terminating.revision);
        if let (None, Some(spec)) = (slot, spec.filter(|spec| spec.hash == terminating.spec_hash)) {
            let sum = reserved.entry(terminating.node).or_default();
            *sum = sum.plus(spec.reservation);
            *instances.entry(terminating.node).or_default() += 1;
            ports.extend(spec.host_ports.iter().map(|port| (terminating.node, *port)));
            gpus.extend(terminating.gpus.iter().map(|gpu| (terminating.node, gpu)));
        }
    }
    for slot in cluster.state.slots.values() {
        for (id, instance) in slot.instances() {
            let spec = cluster.state.service_spec(&slot.service, instance.revision);
            let Some(spec) = spec.filter(|spec| spec.hash == instance.spec_hash) else { continue };
            let sum = reserved.entry(instance.node).or_default();
            *sum = sum.plus(spec.reservation);
            *instances.entry(instance.node).or_default() += 1;
            for port in &spec.host_ports {
                assert!(ports.insert((instance.node, *port)), "PL-9: {port:?} twice, by {id}");
            }
            for volume in &spec.volumes {
                let size = volumes.entry((instance.node, &volume.volume)).or_default();
                *size = volume.size.max(*size);
            }
            for gpu in &instance.gpus {
                assert!(gpus.insert((instance.node, gpu)), "PL-9: {gpu} twice, by {id}");
            }
            let asked = spec.gpus.as_ref().map_or(0, |demand| match demand.choice {
                GpuChoice::Count(count) => count.get(),
                GpuChoice::All | GpuChoice::These(_) => panic!("not among the kinds"),
            });
            assert_eq!(instance.gpus.len(), usize::try_from(asked).unwrap(), "PL-9: GPUs of {id}");
        }
    }
    for node in cluster.state.nodes.values() {
        let (sum, has) = (reserved.get(&node.id).copied().unwrap_or_default(), node.facts.capacity);
        assert!(has.cpu.0 == 0 || sum.cpu <= has.cpu, "PL-9: cpu of {}: {sum:?}", node.hostname);
        assert!(has.memory.0 == 0 || sum.memory <= has.memory, "PL-9: memory of {}", node.hostname);
        let kept = volumes.iter().filter(|((of, _), _)| *of == node.id);
        let kept: u64 = kept.map(|(_, size)| size.0).sum();
        let space = node.facts.volume_classes.values().next().copied().unwrap_or_default();
        assert!(kept <= space.0, "PL-9: volumes of {}: {kept} of {space}", node.hostname);
        let (count, max) = (instances.get(&node.id).copied(), node.facts.instances_max);
        let fits = max.is_none_or(|max| count.unwrap_or_default() <= max.get());
        assert!(fits, "PL-9: {count:?} instances of {}", node.hostname);
    }
}

/// PL-5: who gets a node gets one that is ready, takes replicas, and is allowed; a restart may stay
/// on a cordoned one.
fn check_placed(plan: &Plan, cluster: &Cluster) {
    for change in &plan.changes {
        let (id, is_new) = match change {
            Change::SlotCreate { id, .. } => (id, true),
            Change::SlotReplace { id, .. } => (id, false),
            Change::SlotDisable { .. }
            | Change::SlotFinish { .. }
            | Change::SlotSettle { .. }
            | Change::SlotRevert { .. }
            | Change::TerminatingRemove { .. }
            | Change::ConsumerExpire { .. }
            | Change::SlotSetRestarts { .. }
            | Change::SlotRemove { .. }
            | Change::SchedulingSet { .. }
            | Change::NodeStatusSet { .. }
            | Change::ImageResolve { .. }
            | Change::DrainTimeout { .. } => continue,
        };
        // A failed one may be replaced and removed in one pass, when its rollout is given up in it.
        let Some(slot) = cluster.state.slots.get(id) else { continue };
        let node = cluster.state.nodes.get(&slot.current.node).expect("a member");
        assert_eq!(node.status, NodeStatus::Ready, "PL-5: {}", slot.id);
        if is_new {
            assert_eq!(node.availability, Availability::Active, "PL-5: {}", slot.id);
        }
        if let Ordinal::Host(host) = &slot.ordinal {
            assert_eq!(*host, node.hostname, "PL-5: {}", slot.id);
        }
        let Some(spec) = wanted_spec(cluster, slot) else { continue };
        if let (Placement::Hosts(hosts), true) = (&spec.placement, is_new) {
            assert!(hosts.contains(&node.hostname), "PL-5: {} is not pinned there", slot.id);
        }
        if is_new {
            check_colocation(cluster, slot, spec);
        }
    }
}

/// PL-17: a new replica goes where its partners are, and on no node that has enough.
fn check_colocation(cluster: &Cluster, slot: &Slot, spec: &ServiceSpec) {
    let policy = &spec.scheduling;
    let here = |service: &ServiceName| {
        let slots = cluster.state.slots.values().filter(|other| {
            other.service.deployment == slot.service.deployment
                && other.service.service == *service
                // One that is on its way elsewhere since was there when the choice was made.
                && std::iter::once(&other.current)
                    .chain(&other.retiring)
                    .any(|instance| instance.node == slot.current.node)
        });
        slots.count()
    };
    for other in policy.place_with.iter().chain(&policy.shares_namespaces_with) {
        assert!(here(other) > 0, "PL-17: {} without {other}", slot.id);
    }
    if let (Some(max), Ordinal::Index(_)) = (policy.max_per_node, &slot.ordinal) {
        let max = usize::try_from(max.get()).unwrap();
        assert!(here(&spec.name) <= max, "PL-17: {} is one too many", slot.id);
    }
}

/// What a slot should become, unless the rollout to it was aborted.
fn wanted_spec<'a>(cluster: &'a Cluster, slot: &Slot) -> Option<&'a ServiceSpec> {
    let deployment = cluster.state.deployments.get(&slot.service.deployment).expect("wanted");
    let rollout = cluster.state.scheduling.get(&slot.service)?.rollout.as_ref();
    let is_aborted = rollout.is_some_and(|rollout| {
        rollout.target_revision == deployment.revision && rollout.state == RolloutState::Aborted
    });
    let spec = &deployment.spec().services[&slot.service.service];
    (!is_aborted).then_some(spec)
}

/// PL-8: data is never left behind, and a global replica never changes its host.
fn check_bound(before: &Cluster, after: &Cluster) {
    for slot in after.state.slots.values() {
        let Some(was) = before.state.slots.get(&slot.id) else { continue };
        let Some(spec) = wanted_spec(after, slot) else { continue };
        let is_bound =
            spec.storage == Storage::Stateful && matches!(slot.ordinal, Ordinal::Index(_));
        let was_reverted = was.retiring.as_ref().is_some_and(|old| old.node == slot.current.node);
        let had_data = was.desired_state == DesiredState::Active || was.data == SlotData::Possible;
        if is_bound && had_data && was.current.spec_hash == spec.hash {
            let stayed = was.current.node == slot.current.node || was_reverted;
            assert!(stayed, "PL-8: {} was moved", slot.id);
        }
    }
}

/// PL-7: what is wanted and not there is in the record and in the report, with every node's answer.
fn check_explained(cluster: &Cluster) {
    let report = cluster.plan().report;
    for deployment in cluster.state.deployments.values() {
        for spec in deployment.spec().services.values() {
            let key = jaco_types::ServiceKey {
                deployment: deployment.name.clone(),
                service: spec.name.clone(),
            };
            let record = cluster.state.scheduling.get(&key).expect("every service has a record");
            assert_eq!(record.planned_revision, deployment.revision, "PL-7: {key}");
            let is_aborted = record.rollout.as_ref().is_some_and(|rollout| {
                rollout.target_revision == deployment.revision
                    && rollout.state == RolloutState::Aborted
            });
            if is_aborted || spec.placement == Placement::Global {
                continue;
            }
            let is_own =
                |slot: &&Slot| slot.service == key && matches!(slot.ordinal, Ordinal::Index(_));
            let present = cluster.state.slots.values().filter(is_own).count();
            let missing = usize::try_from(spec.replicas).unwrap().saturating_sub(present);
            let explained: u32 = record.unplaced.iter().map(|entry| entry.count).sum();
            assert!(missing <= usize::try_from(explained).unwrap(), "PL-7: {key}: {record:?}");
            let entries: Vec<_> = report.unplaced.iter().filter(|e| e.service == key).collect();
            assert_eq!(entries.len(), record.unplaced.len(), "PL-7: {key}");
            for entry in entries.iter().filter(|entry| entry.reason == "no_eligible_node") {
                assert_eq!(entry.nodes.len(), cluster.state.nodes.len(), "PL-7: every node");
                let all_refuse = entry.nodes.iter().all(|node| !node.failed.is_empty());
                assert!(all_refuse, "PL-7: a node would take it: {entry:?}");
            }
        }
    }
}

/// PL-5: an index never names a second slot: it only grows.
fn check_indices(before: &Cluster, after: &Cluster) {
    for slot in after.state.slots.values() {
        let Ordinal::Index(index) = slot.ordinal else { continue };
        let next = |cluster: &Cluster| {
            cluster.state.scheduling.get(&slot.service).map_or(0, |record| record.next_index)
        };
        assert!(index < next(after), "PL-5: {} is beyond the counter", slot.id);
        if !before.state.slots.contains(&slot.id) {
            assert!(index >= next(before), "PL-5: {} was used before", slot.id);
        }
    }
}
