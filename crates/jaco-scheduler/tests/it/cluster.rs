//! A cluster under test: real state, real `apply`, an ideal runtime, and a clock that moves only when
//! the test advances it.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::{ConsumerSignal, NodeSignal, Plan, PlanInput, PlannerConfig, Signals, plan};
use jaco_state::audit::{AuditKind, DEFAULT_AGE, Retention};
use jaco_state::command::{
    Batch, Change, Command, ConstraintsSet, ConsumerAttach, DeploymentApply, DisabledSet,
    Disabling, JoinTokenIssue, NetworkBegin, NetworkCreate, NewNode, NodeAdmit, NodeDrain,
    NodeReport, NodeSetAvailability, Observe, Running,
};
use jaco_state::network::Quarantine;
use jaco_state::token::JoinToken;
use jaco_state::view::desired_on;
use jaco_state::{ClusterState, Entry, Outcome, apply};
use jaco_types::spec::{
    Attachment, Constraint, DeploymentSpec, Healthcheck, HostPort, NetworkRef, Operator, Placement,
    Protocol, RestartPolicy, SchedulingPolicy, ServiceMode, ServiceSpec, SpreadCriterion,
    SpreadTarget, Storage, UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    Acknowledgement, AllocationScope, Availability, DeploymentName, Exit, FirstWatch, Gpu,
    GpuChoice, GpuDemand, Hostname, Identity, InstanceAddress, InstanceId, InstanceObserved,
    Millis, NetworkName, Node, NodeFacts, NodeId, NodeRouter, NodeStatus, ReplicaId, ReplicaState,
    RolloutState, RouterLink, ServiceKey, ServiceName, Slot, SpecHash, StateIndex, Timestamp,
    TunnelBackend, VolumeDemand,
};

/// A service to be applied: `web("image").replicas(3)`.
#[derive(Clone)]
pub(crate) struct Service(pub(crate) ServiceSpec);

impl fmt::Debug for Service {
    /// Short, so that a failing case can be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.0;
        write!(f, "{} x{} {:?}", spec.image, spec.replicas, spec.placement)?;
        write!(f, " at {} after {:?}", spec.update.parallelism, spec.depends_on)?;
        let policy = &spec.scheduling;
        let (max, with) =
            (policy.max_per_node, (&policy.place_with, &policy.shares_namespaces_with));
        write!(f, " max {max:?} with {with:?} {:?}", spec.scheduling.spread)
    }
}

pub(crate) fn service(name: &str, image: &str) -> Service {
    let spec = ServiceSpec {
        name: ServiceName::new(name).unwrap(),
        image: image.into(),
        pull: jaco_types::spec::PullPolicy::Missing,
        placement: Placement::Spread,
        replicas: 1,
        host_ports: Vec::new(),
        ingress_ports: std::collections::BTreeSet::new(),
        resolvers: Vec::new(),
        restart: RestartPolicy::Always,
        mode: ServiceMode::Service,
        schedule: None,
        depends_on: Vec::new(),
        reservation: Resources::default(),
        limit: Resources::default(),
        gpus: None,
        volumes: Vec::new(),
        storage: Storage::Stateless,
        healthcheck: Healthcheck::None,
        update: UpdatePolicy::default(),
        scheduling: SchedulingPolicy::default(),
        on_node_loss: jaco_types::spec::OnNodeLoss::default(),
        networks: Vec::new(),
        drain: None,
        container: image.into(),
        hash: hash_of(image),
    };
    Service(spec)
}

fn hash_of(image: &str) -> SpecHash {
    let mut hash = [0; 32];
    for (at, byte) in image.bytes().enumerate() {
        hash[at % 32] ^= byte.wrapping_add(u8::try_from(at / 32).unwrap());
    }
    SpecHash(hash)
}

impl Service {
    pub(crate) fn with(mut self, edit: impl FnOnce(&mut ServiceSpec)) -> Self {
        edit(&mut self.0);
        self
    }

    pub(crate) fn replicas(self, replicas: u32) -> Self {
        self.with(|spec| spec.replicas = replicas)
    }

    pub(crate) fn placement(self, placement: Placement) -> Self {
        self.with(|spec| spec.placement = placement)
    }

    pub(crate) fn hosts(self, hosts: &[&str]) -> Self {
        self.placement(Placement::Hosts(hosts.iter().map(|host| hostname(host)).collect()))
    }

    pub(crate) fn stateful(self) -> Self {
        self.with(|spec| spec.storage = Storage::Stateful)
    }

    /// It mounts a volume of a class.
    pub(crate) fn volume(self, name: &str, class: &str, size: u64) -> Self {
        let class = class.parse().expect("a class");
        let demand = VolumeDemand { volume: name.into(), class, size: Bytes(size) };
        self.with(|spec| {
            spec.storage = Storage::Stateful;
            spec.volumes.push(demand);
        })
    }

    pub(crate) fn host_port(self, port: u16) -> Self {
        self.with(|spec| spec.host_ports.push(HostPort { port, protocol: Protocol::Tcp }))
    }

    /// Adds a criterion, `spread("datacenter", 50, &[("dc1", 60)])`.
    pub(crate) fn spread(self, attribute: &str, weight: u8, targets: &[(&str, u8)]) -> Self {
        let target = |(value, percent): &(&str, u8)| SpreadTarget {
            value: value.to_string(),
            percent: *percent,
        };
        let targets = targets.iter().map(target).collect();
        let criterion = SpreadCriterion { attribute: attribute.to_owned(), weight, targets };
        self.with(|spec| spec.scheduling.spread.push(criterion))
    }

    pub(crate) fn constrained(self, attribute: &str, operator: Operator, value: &str) -> Self {
        self.with(|spec| spec.scheduling.constraints.push(constraint(attribute, operator, value)))
    }

    /// Asks for so many GPUs of `nvidia`.
    pub(crate) fn gpus(self, count: u32) -> Self {
        let choice = GpuChoice::Count(NonZeroU32::new(count).unwrap());
        let demand = GpuDemand { driver: "nvidia".to_owned(), choice };
        self.with(|spec| spec.gpus = Some(demand))
    }

    /// Attaches it to the network that all services share here; one that shares namespaces has none.
    fn attached(self) -> Self {
        if !self.0.scheduling.shares_namespaces_with.is_empty() {
            return self;
        }
        let network = NetworkRef::Shared(NetworkName::new(BACKBONE).unwrap());
        self.with(|spec| {
            spec.networks.push(Attachment { network, aliases: Vec::new() });
            spec.hash.0[31] ^= 0x55;
        })
    }

    pub(crate) fn reserves(self, cpu: u64, memory: u64) -> Self {
        self.with(|spec| spec.reservation = resources(cpu, memory))
    }
}

pub(crate) fn constraint(attribute: &str, operator: Operator, value: &str) -> Constraint {
    Constraint { attribute: attribute.to_owned(), operator, value: value.to_owned() }
}

pub(crate) fn resources(cpu: u64, memory: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), memory: Bytes(memory) }
}

pub(crate) fn hostname(text: &str) -> Hostname {
    Hostname::new(text).unwrap()
}

pub(crate) fn key(deployment: &str, service: &str) -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new(deployment).unwrap(),
        service: ServiceName::new(service).unwrap(),
    }
}

/// The state, what the leader hears, and the time.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) state: ClusterState,
    pub(crate) signals: Signals,
    pub(crate) now: Timestamp,
    pub(crate) config: PlannerConfig,
}

/// The network that all services share, once networks are the cluster's.
pub(crate) const BACKBONE: &str = "backbone";

/// Longer than any time that a rollout waits for.
const PATIENCE: Millis = Millis(200_000);

impl Cluster {
    /// A cluster of these nodes, all ready, without capacity limits.
    pub(crate) fn of(hosts: &[&str]) -> Self {
        let mut cluster = Self::empty();
        for host in hosts {
            cluster.join(host);
        }
        cluster.pass();
        cluster
    }

    /// Networks become the cluster's, with one that all services share and that has so many addresses left:
    /// the others are in quarantine for longer than any test.
    pub(crate) fn share_network(&mut self, free: u32) {
        self.commit(NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into());
        let name = NetworkName::new(BACKBONE).unwrap();
        self.commit(NetworkCreate::new(name).length(Some(26)).into());
        let network = *self.state.networks.rows.keys().next().unwrap();
        let row = self.state.networks.rows.get_mut(&network).unwrap();
        let replica = ReplicaId::parse("earlier-web-0").unwrap();
        let holder = InstanceId { replica, raft_index: StateIndex(1) };
        let places = free..row.subnet.capacity();
        let addresses: Vec<_> = places.map(|place| row.subnet.instance_address(place)).collect();
        row.taken = addresses.iter().map(|address| (*address, holder.clone())).collect();
        let addresses = addresses.into_iter();
        let addresses = addresses.map(|address| InstanceAddress { network, address }).collect();
        let until = Some(Timestamp(u64::MAX));
        let quarantine = Quarantine { node: NodeId(0), addresses, until };
        self.state.networks.quarantine.insert(holder, quarantine);
    }

    pub(crate) fn empty() -> Self {
        let (signals, config) = (Signals::default(), PlannerConfig::default());
        let now = Timestamp(1_000_000);
        let mut cluster = Self { state: ClusterState::default(), signals, now, config };
        cluster.signals.listening_since = now;
        cluster.now = now;
        let retention = Retention { age: DEFAULT_AGE, cut: None, clock: None };
        cluster.state.audit.retention = Some(retention);
        cluster
    }

    pub(crate) fn join(&mut self, host: &str) -> NodeId {
        self.join_with(host, Resources::default())
    }

    /// Admits a node of this capacity, and hears of it.
    pub(crate) fn join_with(&mut self, host: &str, capacity: Resources) -> NodeId {
        self.join_as(host, capacity, &[])
    }

    /// Admits a node with these labels.
    pub(crate) fn join_as(
        &mut self,
        host: &str,
        capacity: Resources,
        labels: &[(&str, &str)],
    ) -> NodeId {
        let labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let facts = NodeFacts { capacity, labels: labels.collect(), ..NodeFacts::default() };
        let token = JoinToken {
            id: format!("join-{}", self.state.index).parse().unwrap(),
            secret_hash: [0; 32],
            issued_at: self.now,
            issued_by: Identity::Scheduler,
            expires_at: self.now.after(Millis(1)),
            uses_left: 1,
            revoked_at: None,
        };
        let id = token.id.clone();
        self.commit(JoinTokenIssue::new(token).into());
        let node = NewNode {
            hostname: hostname(host),
            address: format!("{host}:7000"),
            key_fingerprint: hash_of(host).0,
            facts,
        };
        let outcome = self.commit(NodeAdmit::new(node, id).into());
        let Outcome::NodeAdmitted { id } = outcome else { panic!("{outcome:?}") };
        self.hear(id);
        id
    }

    /// The node says that it has so many GPUs of `nvidia`.
    pub(crate) fn give_gpus(&mut self, host: &str, count: u32) {
        let node = self.state.node_by_hostname(&hostname(host)).expect("a member");
        let gpu = |number: u32| Gpu {
            id: format!("GPU-{host}-{number}").into(),
            driver: "nvidia".to_owned(),
            model: String::new(),
            memory: Bytes(0),
        };
        let (address, gpus) = (node.address.clone(), (0..count).map(gpu).collect());
        let facts = NodeFacts { gpus, ..node.facts.clone() };
        self.commit(NodeReport::new(node.id, address, facts).into());
    }

    /// The node says that it offers volumes of a class, of so many bytes together; 0 for any amount.
    pub(crate) fn offer_volumes(&mut self, host: &str, class: &str, capacity: u64) {
        let node = self.state.node_by_hostname(&hostname(host)).expect("a member");
        let (address, mut facts) = (node.address.clone(), node.facts.clone());
        facts.volume_classes.insert(class.parse().expect("a class"), Bytes(capacity));
        self.commit(NodeReport::new(node.id, address, facts).into());
    }

    /// The node says that it takes so many instances; 0 for any number.
    pub(crate) fn limit_instances(&mut self, host: &str, max: u32) {
        let node = self.state.node_by_hostname(&hostname(host)).expect("a member");
        let facts = NodeFacts { instances_max: NonZeroU32::new(max), ..node.facts.clone() };
        self.commit(NodeReport::new(node.id, node.address.clone(), facts).into());
    }

    /// The node says of its router that it works, or why it does not.
    pub(crate) fn report_router(&mut self, host: &str, problem: Option<&str>) {
        let node = self.state.node_by_hostname(&hostname(host)).expect("a member");
        let key = hash_of(host).0;
        let link = RouterLink { key, port: 51820, backend: TunnelBackend::Userspace };
        let router = NodeRouter { link: Some(link), problem: problem.map(str::to_owned) };
        let facts = NodeFacts { router: Some(router), ..node.facts.clone() };
        self.commit(NodeReport::new(node.id, node.address.clone(), facts).into());
    }

    pub(crate) fn node(&self, host: &str) -> NodeId {
        self.state.node_by_hostname(&hostname(host)).expect("a member").id
    }

    fn hear(&mut self, node: NodeId) {
        let signal = NodeSignal { heard_at: self.now, engine: EngineSignal::Up };
        self.signals.nodes.insert(node, signal);
    }

    /// A consumer follows the endpoints from now on. It is not heard of again by itself.
    pub(crate) fn attach(&mut self, name: &str, lease: Millis) {
        let Some(node) = self.state.nodes.keys().next().copied() else { return };
        let name = name.parse().unwrap();
        self.commit(ConsumerAttach::new(name, node, lease).into());
    }

    /// A consumer knows the endpoints of this state, and has nothing to finish elsewhere.
    pub(crate) fn acknowledge(&mut self, name: &str, acknowledged: StateIndex) {
        self.say(name, Acknowledgement::of(acknowledged));
    }

    /// A consumer says what it sends where.
    pub(crate) fn say(&mut self, name: &str, acknowledgement: Acknowledgement) {
        let name = name.parse().unwrap();
        let Some(consumer) = self.state.consumers.get(&name) else { return };
        let (session, heard_at) = (consumer.session, self.now);
        self.signals.consumers.insert(name, ConsumerSignal { session, heard_at, acknowledgement });
    }

    /// Whether a consumer has nothing more to do with an instance that left in this state.
    pub(crate) fn releases(&self, name: &str, id: &InstanceId, left_at: StateIndex) -> bool {
        let signal = self.signals.consumers.get(&name.parse().unwrap());
        signal.is_some_and(|signal| signal.acknowledgement.releases(id, left_at))
    }

    /// Whether some node is to run this instance.
    pub(crate) fn is_desired(&self, id: &InstanceId) -> bool {
        let nodes = self.state.nodes.keys();
        nodes.into_iter().any(|node| desired_on(&self.state, *node).contains_key(id))
    }

    pub(crate) fn is_ready(&self, node: NodeId) -> bool {
        self.state.nodes.get(&node).is_some_and(|node| node.status == NodeStatus::Ready)
    }

    /// Lets time pass while every node but `silent` goes on talking.
    pub(crate) fn advance(&mut self, length: Millis, silent: &[&str]) {
        self.now = self.now.after(length);
        let silent: Vec<_> = silent.iter().map(|host| self.node(host)).collect();
        let talking: Vec<_> =
            self.signals.nodes.keys().filter(|node| !silent.contains(node)).copied().collect();
        for node in talking {
            self.signals.nodes.get_mut(&node).unwrap().heard_at = self.now;
        }
    }

    pub(crate) fn apply(&mut self, deployment: &str, services: &[Service]) -> Outcome {
        // As admission does it: without a pool there are no networks in a spec.
        let services: Vec<Service> = match self.state.networks.pool {
            Some(_) => services.iter().cloned().map(Service::attached).collect(),
            None => services.to_vec(),
        };
        let services = services.iter().map(|s| (s.0.name.clone(), Arc::new(s.0.clone())));
        let spec = DeploymentSpec { services: services.collect(), ..DeploymentSpec::default() };
        let name = DeploymentName::new(deployment).unwrap();
        self.commit(DeploymentApply::new(name, spec).running(Running::JoinNetworks).into())
    }

    /// Operators enable or disable these allocations.
    pub(crate) fn set_disabled(&mut self, change: Disabling, scopes: &[AllocationScope]) {
        let scopes = scopes.iter().cloned().collect();
        assert_eq!(self.commit(DisabledSet::new(change, scopes).into()), Outcome::Done);
    }

    /// Sets what the cluster asks of nodes.
    pub(crate) fn constrain(&mut self, key: &str, value: &str) {
        let pairs = [(key.to_owned(), value.to_owned())].into();
        assert_eq!(self.commit(ConstraintsSet::new(pairs).into()), Outcome::Done);
    }

    pub(crate) fn set_availability(&mut self, host: &str, availability: Availability) {
        let node = self.node(host);
        self.commit(NodeSetAvailability::new(node, availability).into());
    }

    /// Drains a node; the drain times out when no replica leaves for so long.
    pub(crate) fn drain(&mut self, host: &str, patience: Millis) {
        let node = self.node(host);
        assert_eq!(self.commit(NodeDrain::new(node, patience).into()), Outcome::Done);
    }

    pub(crate) fn commit(&mut self, command: Command) -> Outcome {
        let index = StateIndex(self.state.index.0 + 1);
        let entry = Entry {
            index,
            at: self.now,
            by: Identity::Scheduler,
            origin: None,
            request: None,
            command,
        };
        apply(&mut self.state, &entry)
    }

    pub(crate) fn input(&self) -> PlanInput<'_> {
        let Self { state, signals, now, config } = self;
        PlanInput { state, signals, now: *now, config }
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.input())
    }

    /// Plans and commits. Law PL-2 is checked each time: nothing is left to plan then.
    pub(crate) fn pass(&mut self) -> Plan {
        let plan = self.plan();
        self.carry_out(&plan);
        let again = self.plan();
        assert_eq!(again.changes, vec![], "PL-2: planned again after {:?}", plan.changes);
        plan
    }

    /// Law ST-2's other half: a batch is never refused when nothing moved.
    pub(crate) fn carry_out(&mut self, plan: &Plan) {
        if plan.changes.is_empty() {
            return;
        }
        let (based_on, changes) = (plan.based_on, plan.changes.clone());
        let outcome = self.commit(Batch::new(based_on, changes).into());
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(jaco_state::invariants::violations(&self.state), vec![]);
    }

    /// What a node says of an instance.
    pub(crate) fn observe(&mut self, id: &InstanceId, node: NodeId, state: ReplicaState) {
        let exit = state.is_over().then_some(Exit { code: 1, out_of_memory: false });
        let exit = if state == ReplicaState::Stopped {
            Some(Exit { code: 0, out_of_memory: false })
        } else {
            exit
        };
        let slot = self.state.slots.get(&id.replica);
        let known = self.state.observed.get(id).map(|seen| seen.service.clone());
        let service =
            slot.map(|slot| slot.service.clone()).or(known).expect("a slot or a trace of it");
        let seen = InstanceObserved {
            id: id.clone(),
            service,
            node,
            state,
            code: None,
            details: BTreeMap::new(),
            container_id: "c".to_owned(),
            ports: BTreeMap::new(),
            started_at: None,
            since: self.now,
            exit,
        };
        self.commit(Observe::new(node).observed(vec![seen]).into());
    }

    /// The container of the current instance is attached to its networks.
    pub(crate) fn attach_current(&mut self, slot: &Slot) {
        let joined = Observe::new(slot.current.node).joined(vec![slot.current_id()]);
        assert_eq!(self.commit(joined.into()), Outcome::Done);
    }

    /// Observes the current instance of a replica.
    pub(crate) fn see(&mut self, replica: &str, state: ReplicaState) {
        let slot = self.slot(replica).clone();
        self.observe(&slot.current_id(), slot.current.node, state);
    }

    /// The runtime does what is desired: what should run on reachable nodes runs, all else is gone, and
    /// consumers know.
    pub(crate) fn obey(&mut self) {
        self.run_all();
        self.clear_up();
        let (names, newest): (Vec<_>, _) =
            (self.state.consumers.keys().map(ToString::to_string).collect(), self.state.index);
        for name in names {
            self.acknowledge(&name, newest);
        }
    }

    fn wanted(&self) -> Vec<(InstanceId, NodeId)> {
        let wanted = self.state.slots.values().flat_map(Slot::instances);
        let wanted = wanted.map(|(id, instance)| (id, instance.node));
        wanted.filter(|(_, node)| self.is_up(*node)).collect()
    }

    /// What should run on talking nodes runs.
    pub(crate) fn run_all(&mut self) {
        let wanted = self.wanted();
        for (id, node) in &wanted {
            if self.state.observed.get(id).is_none_or(|seen| seen.state != ReplicaState::Running) {
                self.observe(id, *node, ReplicaState::Running);
            }
        }
    }

    /// What should not run on talking nodes is gone.
    pub(crate) fn clear_up(&mut self) {
        let kept = self.state.slots.values().flat_map(Slot::kept_instances);
        let kept: Vec<_> = kept.map(|(id, _)| id).collect();
        let kept: Vec<_> = kept.into_iter().chain(self.state.terminating.keys().cloned()).collect();
        let gone: Vec<_> = self.state.observed.values().filter(|o| !kept.contains(&o.id)).collect();
        let gone = gone.into_iter().filter(|o| self.is_up(o.node));
        let gone: Vec<_> = gone.map(|o| (o.node, o.id.clone())).collect();
        for (node, id) in gone {
            self.commit(Observe::new(node).gone(vec![id]).into());
        }
    }

    fn is_up(&self, node: NodeId) -> bool {
        let heard = self.signals.nodes.get(&node);
        heard.is_some_and(|signal| {
            self.state.nodes.contains(&node)
                && self.now.since(signal.heard_at) < self.config.node_down_after
        })
    }

    /// Passes and obedience in turn until nothing changes; the number of passes that changed
    /// something.
    pub(crate) fn settle(&mut self) -> usize {
        // A rollback to what can have no place waits for ever, and reports that.
        let (mut passes, mut rest) = (0, Millis(0));
        for _ in 0..200 {
            let plan = self.pass();
            let before = self.state.observed.clone();
            self.obey();
            if plan.changes.is_empty() && before == self.state.observed {
                match plan.wake_at.filter(|_| self.is_watching() && rest < PATIENCE) {
                    Some(at) => {
                        rest = Millis(rest.0 + at.since(self.now).0);
                        self.advance(at.since(self.now), &[]);
                    }
                    None => return passes,
                }
            } else {
                (passes, rest) = (passes + 1, Millis(0));
            }
        }
        panic!("PL-3: does not settle: {:#?}", self.plan().changes);
    }

    /// Whether some rollout watches what it started, or is being rolled back.
    fn is_watching(&self) -> bool {
        let is_watched = |key: &ServiceKey| {
            let slots = self.state.slots.values().filter(|slot| slot.service == *key);
            let seen = slots.filter_map(|slot| self.state.observed.get(&slot.current_id()));
            let mut running = seen.filter(|seen| seen.state == ReplicaState::Running);
            running.any(|seen| self.now.since(seen.since) < UpdatePolicy::DEFAULT_MONITOR)
        };
        self.state.scheduling.iter().any(|(key, record)| {
            let rollout = record.rollout.as_ref();
            let is_rolling =
                rollout.is_some_and(|rollout| rollout.state == RolloutState::InProgress);
            let is_open = is_rolling || record.first_watch == FirstWatch::Open;
            rollout.is_some_and(|rollout| rollout.rollback_progress.is_some())
                || (is_open && is_watched(key))
        })
    }

    pub(crate) fn slot(&self, replica: &str) -> &Slot {
        let slot = self.state.slots.values().find(|slot| slot.id.as_str() == replica);
        slot.unwrap_or_else(|| panic!("no replica {replica}: {}", self.show()))
    }

    /// `shop-web-0@n1 shop-web-1@n2`: who is where, with `<n3` for a retiring instance.
    pub(crate) fn show(&self) -> String {
        let name = |id: NodeId| {
            let node = self.state.nodes.get(&id);
            node.map_or_else(|| format!("?{id}"), |node| node.hostname.to_string())
        };
        let slots = self.state.slots.values().map(|slot| {
            let old = slot.retiring.as_ref().map(|old| format!("<{}", name(old.node)));
            format!("{}@{}{}", slot.id, name(slot.current.node), old.unwrap_or_default())
        });
        slots.collect::<Vec<_>>().join(" ")
    }

    /// How many replicas of a service each member has, by host name.
    pub(crate) fn counts(&self, deployment: &str, service: &str) -> BTreeMap<String, usize> {
        let key = key(deployment, service);
        let members = self.state.nodes.values().map(|node| (node.hostname.to_string(), 0));
        let mut counts: BTreeMap<_, _> = members.collect();
        for slot in self.state.slots.values().filter(|slot| slot.service == key) {
            if let Some(node) = self.state.nodes.get(&slot.current.node) {
                *counts.get_mut(node.hostname.as_str()).unwrap() += 1;
            }
        }
        counts
    }

    /// How many replicas of a service are in each domain of these labels, as `dc1/r1`.
    pub(crate) fn domains(
        &self,
        deployment: &str,
        service: &str,
        labels: &[&str],
    ) -> BTreeMap<String, usize> {
        let key = key(deployment, service);
        let domain = |node: &Node| {
            let values = labels.iter().map(|l| node.facts.labels.get(*l).map_or("-", |v| v));
            values.collect::<Vec<_>>().join("/")
        };
        let mut counts: BTreeMap<_, _> =
            self.state.nodes.values().map(|node| (domain(node), 0)).collect();
        for slot in self.state.slots.values().filter(|slot| slot.service == key) {
            if let Some(node) = self.state.nodes.get(&slot.current.node) {
                *counts.entry(domain(node)).or_default() += 1;
            }
        }
        counts
    }

    /// The reasons that a service's record gives for what is not placed.
    pub(crate) fn reasons(&self, deployment: &str, service: &str) -> String {
        self.reasons_of(&key(deployment, service))
    }

    pub(crate) fn reasons_of(&self, service: &ServiceKey) -> String {
        let record = self.state.scheduling.get(service).expect("planned");
        let show = |entry: &jaco_types::Unplaced| {
            let details: Vec<_> =
                entry.details.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{} {} {}", entry.count, entry.reason, details.join(" ")).trim_end().to_owned()
        };
        record.unplaced.iter().map(show).collect::<Vec<_>>().join("; ")
    }

    /// The causes of the replacements in a plan, by replica.
    pub(crate) fn causes(plan: &Plan) -> Vec<String> {
        plan.changes
            .iter()
            .filter_map(|change| match change {
                Change::SlotReplace { id, cause, .. } => Some(format!("{id}:{}", cause.as_str())),
                Change::SlotCreate { .. }
                | Change::SlotDisable { .. }
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
                | Change::DrainTimeout { .. } => None,
            })
            .collect()
    }

    pub(crate) fn audited(&self, kind: AuditKind) -> usize {
        self.state.audit.events.values().filter(|event| event.kind == kind).count()
    }
}
