//! One instance of each thing that is stored. The frozen bytes are of these; a field that is new
//! gets the value here that it is read as from bytes of before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_proto::storage::Payload;
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind};
use jaco_state::command::{NewInstance, NewNode, Previous, ReplaceCause, SpecChange};
use jaco_state::state::RevisionRecord;
use jaco_state::token::{JoinToken, OperatorToken};
use jaco_state::{Change, ClusterMeta, ClusterState, Command, Deployment, Outcome};
use jaco_types::slot::Exhausted;
use jaco_types::spec::{
    Condition, Dependency, DeploymentSpec, Healthcheck, HostPort, Placement, Protocol, Pull,
    Required, SchedulingPolicy, ServiceSpec, Storage, UpdateOrder, UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    Availability, ClusterId, DeploymentName, ErrorCode, Exit, Hostname, Identity, Instance,
    InstanceId, InstanceObserved, Millis, Node, NodeFacts, NodeId, NodeStatus, Ordinal, ReasonCode,
    Rejection, ReplicaId, ReplicaState, RequestId, RestartCount, Revision, Rollout, RolloutState,
    Scheduling, ServiceKey, ServiceName, Slot, SpecHash, StateIndex, Timestamp, TokenId, Unplaced,
};

pub(crate) fn payload(command: Command) -> Payload {
    let request = Some(RequestId::new("r-1").unwrap());
    Payload { at: Timestamp(1_700_000_000_123), by: Identity::Scheduler, request, command }
}

pub(crate) fn commands() -> Vec<Command> {
    let node = NodeId(7);
    vec![
        Command::ClusterInit { meta: meta(), node: new_node(), token: operator_token() },
        Command::NodeAdmit { node: new_node(), token: token_id("join-1") },
        Command::NodeReport { node, address: "10.0.0.7:7000".into(), facts: facts() },
        Command::NodeSetAvailability { node, availability: Availability::Draining },
        Command::NodeRemove { node },
        Command::DeploymentApply { name: deployment_name(), spec: spec() },
        Command::DeploymentDelete { name: deployment_name() },
        Command::Batch { based_on: StateIndex(40), changes: changes() },
        Command::Observe { node, observed: vec![observed()], gone: vec![observed().id] },
        Command::OperatorTokenIssue { token: operator_token() },
        Command::OperatorTokenRevoke { id: token_id("ops-1") },
        Command::JoinTokenIssue { token: join_token() },
        Command::AuditNote { kind: AuditKind::AccessRefused, payload: by_name("why", "unknown") },
    ]
}

/// Commands that hold between them each value of each enum that the others leave out.
pub(crate) fn commands_of_other_values() -> Vec<Command> {
    let set = |availability| Command::NodeSetAvailability { node: NodeId(7), availability };
    vec![
        set(Availability::Active),
        set(Availability::Cordoned),
        Command::Batch { based_on: StateIndex(40), changes: other_changes() },
        Command::Observe { node: NodeId(7), observed: other_observations(), gone: vec![] },
        Command::DeploymentApply { name: deployment_name(), spec: other_spec() },
    ]
}

fn other_changes() -> Vec<Change> {
    let status = |status| Change::NodeStatusSet { node: NodeId(7), status, reason: String::new() };
    let instance = || NewInstance { node: NodeId(7), revision: Revision(2), spec_hash: hash() };
    let replace = |cause| Change::SlotReplace {
        id: replica_id(),
        instance: instance(),
        previous: Previous::Drop,
        cause,
        consecutive_failures: 0,
    };
    let scheduling = |state| {
        let rollout = scheduling().rollout.map(|rollout| Rollout { state, ..rollout });
        Change::SchedulingSet {
            service: service_key(),
            record: Scheduling { rollout, ..scheduling() },
        }
    };
    vec![
        status(NodeStatus::Joining),
        status(NodeStatus::Ready),
        status(NodeStatus::EngineDown),
        replace(ReplaceCause::Failed),
        replace(ReplaceCause::NodeLost),
        replace(ReplaceCause::Moved),
        scheduling(RolloutState::Completed),
        scheduling(RolloutState::Aborted),
        Change::SlotSetRestarts { id: replica_id(), consecutive: 0, exhausted: Exhausted::No },
        Change::SlotCreate {
            id: replica_id(),
            service: service_key(),
            ordinal: Ordinal::Host(hostname()),
            instance: instance(),
        },
    ]
}

fn other_observations() -> Vec<InstanceObserved> {
    let states = [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Running,
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
    ];
    let states = states.map(|state| InstanceObserved { state, code: None, ..observed() });
    let reasons = [
        ReasonCode::Pulling,
        ReasonCode::ImagePullFailed,
        ReasonCode::HealthPending,
        ReasonCode::Unhealthy,
        ReasonCode::ContainerExited,
        ReasonCode::ContainerMissing,
        ReasonCode::EngineError,
        ReasonCode::RestartExhausted,
    ];
    let reasons = reasons.map(|code| InstanceObserved { code: Some(code), ..observed() });
    states.into_iter().chain(reasons).collect()
}

fn other_spec() -> DeploymentSpec {
    let port = |protocol| HostPort { port: 53, protocol };
    let after = |condition| Dependency {
        service: ServiceName::new("web").unwrap(),
        condition,
        required: Required::No,
    };
    let service = |name, placement| {
        let name = ServiceName::new(name).unwrap();
        let host_ports = vec![port(Protocol::Udp), port(Protocol::Sctp)];
        let depends_on = vec![after(Condition::Started), after(Condition::CompletedSuccessfully)];
        let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        (name.clone(), Arc::new(ServiceSpec { name, placement, host_ports, depends_on, ..web }))
    };
    let services = [service("global", Placement::Global), service("pack", Placement::Pack)];
    DeploymentSpec { services: services.into(), ..spec() }
}

/// A new variant does not compile until it has a name, and then is missed among the frozen ones.
pub(crate) fn command_name(command: &Command) -> &'static str {
    match command {
        Command::ClusterInit { .. } => "cluster_init",
        Command::NodeAdmit { .. } => "node_admit",
        Command::NodeReport { .. } => "node_report",
        Command::NodeSetAvailability { .. } => "node_set_availability",
        Command::NodeRemove { .. } => "node_remove",
        Command::DeploymentApply { .. } => "deployment_apply",
        Command::DeploymentDelete { .. } => "deployment_delete",
        Command::Batch { .. } => "batch",
        Command::Observe { .. } => "observe",
        Command::OperatorTokenIssue { .. } => "operator_token_issue",
        Command::OperatorTokenRevoke { .. } => "operator_token_revoke",
        Command::JoinTokenIssue { .. } => "join_token_issue",
        Command::AuditNote { .. } => "audit_note",
    }
}

/// Each kind of change once; together they are the frozen batch.
fn changes() -> Vec<Change> {
    let id = replica_id();
    let instance = NewInstance { node: NodeId(7), revision: Revision(2), spec_hash: hash() };
    vec![
        Change::SlotCreate {
            id: id.clone(),
            service: service_key(),
            ordinal: Ordinal::Index(3),
            instance: instance.clone(),
        },
        Change::SlotReplace {
            id: id.clone(),
            instance,
            previous: Previous::Retire,
            cause: ReplaceCause::SpecChanged,
            consecutive_failures: 1,
        },
        Change::SlotSettle { id: id.clone() },
        Change::SlotRevert { id: id.clone() },
        Change::SlotSetRestarts { id: id.clone(), consecutive: 5, exhausted: Exhausted::Yes },
        Change::SlotRemove { id },
        Change::SchedulingSet { service: service_key(), record: scheduling() },
        Change::NodeStatusSet {
            node: NodeId(7),
            status: NodeStatus::Down,
            reason: "not heard of for 10s".into(),
        },
    ]
}

pub(crate) fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Done,
        Outcome::NodeAdmitted { id: NodeId(7) },
        Outcome::Deployed { revision: Revision(1), change: SpecChange::Created },
        Outcome::Deployed { revision: Revision(2), change: SpecChange::Updated },
        Outcome::Deployed { revision: Revision(2), change: SpecChange::Unchanged },
        Outcome::Rejected(
            Rejection::new(ErrorCode::UnknownHost, "there is no host n9").with("host", "n9"),
        ),
    ]
}

pub(crate) fn identities() -> Vec<Identity> {
    vec![
        Identity::Local { uid: 1000 },
        Identity::Operator { token: token_id("ops-1") },
        Identity::Node { id: NodeId(7) },
        Identity::Scheduler,
        Identity::Anonymous,
    ]
}

/// A state with one row of each kind, and a revision more than one.
pub(crate) fn state() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.meta = Some(meta());
    state.nodes.insert(NodeId(7), node());
    state.deployments.insert(deployment_name(), deployment());
    state.scheduling.insert(service_key(), scheduling());
    state.slots.insert(replica_id(), slot());
    state.observed.insert(observed().id, observed());
    state.operator_tokens.insert(token_id("ops-1"), operator_token());
    state.join_tokens.insert(token_id("join-1"), join_token());
    let request = RequestId::new("r-1").unwrap();
    state.requests.order.insert(StateIndex(41), request.clone());
    state.requests.outcomes.insert(request.clone(), Outcome::Done);
    let key = AuditKey { index: StateIndex(41), number: 1 };
    let event = AuditEvent {
        kind: AuditKind::Apply,
        at: Timestamp(1_700_000_000_123),
        by: Identity::Local { uid: 1000 },
        request: Some(request),
        payload: by_name("deployment", "shop"),
    };
    state.audit.events.insert(key, event);
    state
}

pub(crate) fn deployment_name() -> DeploymentName {
    DeploymentName::new("shop").unwrap()
}

fn deployment() -> Deployment {
    let record = |uid| {
        let applied_by = Identity::Local { uid };
        Arc::new(RevisionRecord {
            spec: spec(),
            applied_at: Timestamp(1_700_000_000_000),
            applied_by,
        })
    };
    Deployment {
        name: deployment_name(),
        revision: Revision(2),
        revisions: [(Revision(1), record(0)), (Revision(2), record(1000))].into(),
        modified: StateIndex(30),
    }
}

fn meta() -> ClusterMeta {
    ClusterMeta {
        id: ClusterId::new("0123456789abcdef0123456789abcdef").unwrap(),
        name: "lab".into(),
        ca_certificate: "PEM".into(),
        sealed_ca_key: vec![1, 2, 3],
        created_at: Timestamp(1_699_999_999_999),
    }
}

fn operator_token() -> OperatorToken {
    OperatorToken {
        id: token_id("ops-1"),
        secret_hash: [0x11; 32],
        issued_at: Timestamp(1_700_000_000_000),
        issued_by: Identity::Local { uid: 0 },
        revoked_at: Some(Timestamp(1_700_000_000_999)),
    }
}

fn join_token() -> JoinToken {
    JoinToken {
        id: token_id("join-1"),
        secret_hash: [0x22; 32],
        issued_at: Timestamp(1_700_000_000_000),
        issued_by: Identity::Operator { token: token_id("ops-1") },
        expires_at: Timestamp(1_700_000_600_000),
        uses_left: 1,
    }
}

fn node() -> Node {
    Node {
        id: NodeId(7),
        hostname: hostname(),
        address: "10.0.0.7:7000".into(),
        key_fingerprint: [0x33; 32],
        status: NodeStatus::EngineDown,
        status_reason: "the engine does not answer".into(),
        availability: Availability::Cordoned,
        facts: facts(),
        joined_at: Timestamp(1_700_000_000_000),
        modified: StateIndex(20),
    }
}

fn new_node() -> NewNode {
    let address = "10.0.0.7:7000".into();
    NewNode { hostname: hostname(), address, key_fingerprint: [0x33; 32], facts: facts() }
}

fn facts() -> NodeFacts {
    NodeFacts {
        version: "0.1.0".into(),
        os: "linux".into(),
        arch: "x86_64".into(),
        engine: "docker 28.0".into(),
        capacity: resources(),
        labels: by_name("zone", "a"),
    }
}

fn slot() -> Slot {
    let instance = |index| Instance {
        raft_index: StateIndex(index),
        node: NodeId(7),
        revision: Revision(2),
        spec_hash: hash(),
    };
    Slot {
        id: replica_id(),
        service: service_key(),
        ordinal: Ordinal::Index(3),
        current: instance(35),
        retiring: Some(instance(31)),
        restarts: RestartCount { consecutive: 2, exhausted: Exhausted::No },
        modified: StateIndex(35),
    }
}

fn observed() -> InstanceObserved {
    InstanceObserved {
        id: InstanceId { replica: replica_id(), raft_index: StateIndex(35) },
        service: service_key(),
        node: NodeId(7),
        state: ReplicaState::Failed,
        code: Some(ReasonCode::ContainerExited),
        details: by_name("exit_code", "-1"),
        container_id: "c0ffee".into(),
        ports: [(80, "10.0.0.7:32768".to_owned())].into(),
        started_at: Some(Timestamp(1_700_000_000_200)),
        since: Timestamp(1_700_000_000_300),
        exit: Some(Exit { code: -1, out_of_memory: true }),
    }
}

fn scheduling() -> Scheduling {
    Scheduling {
        next_index: 4,
        planned_revision: Revision(2),
        rollout: Some(Rollout {
            target_revision: Revision(2),
            previous_revision: Revision(0),
            total_steps: 3,
            current_step: 1,
            state: RolloutState::InProgress,
            failure_reason: String::new(),
            started_at: Timestamp(1_700_000_000_100),
            last_step_at: Timestamp(1_700_000_000_150),
        }),
        unplaced: vec![Unplaced {
            count: 1,
            reason: "cannot_satisfy_host_placement".into(),
            details: by_name("missing", "n9"),
        }],
        modified: StateIndex(36),
    }
}

/// Two services: what is an alternative in one is the other one in the other.
fn spec() -> DeploymentSpec {
    let web = ServiceSpec {
        name: ServiceName::new("web").unwrap(),
        image: "nginx:1.29".into(),
        pull: Pull::Always,
        placement: Placement::Hosts(BTreeSet::from([hostname(), Hostname::new("n8").unwrap()])),
        replicas: 3,
        host_ports: vec![HostPort { port: 8080, protocol: Protocol::Tcp }],
        depends_on: vec![Dependency {
            service: ServiceName::new("db").unwrap(),
            condition: Condition::Healthy,
            required: Required::Yes,
        }],
        reservation: resources(),
        limit: resources(),
        storage: Storage::Stateless,
        healthcheck: Healthcheck::Declared,
        update: UpdatePolicy {
            parallelism: 2,
            order: UpdateOrder::StopFirst,
            step_timeout: Millis(60_000),
            monitor: Millis(5_000),
            delay: Millis(100),
        },
        scheduling: SchedulingPolicy::default(),
        container: r#"{"image":"nginx:1.29"}"#.into(),
        hash: hash(),
    };
    let db = ServiceSpec {
        name: ServiceName::new("db").unwrap(),
        placement: Placement::Spread,
        host_ports: vec![],
        depends_on: vec![],
        reservation: Resources::default(),
        storage: Storage::Stateful,
        healthcheck: Healthcheck::None,
        pull: Pull::Never,
        update: UpdatePolicy::default(),
        ..web.clone()
    };
    DeploymentSpec {
        services: [db, web].map(|service| (service.name.clone(), Arc::new(service))).into(),
        compose: r#"{"services":{}}"#.into(),
        overlay: "services: {}".into(),
    }
}

fn by_name(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

fn resources() -> Resources {
    Resources { cpu: MilliCores(1500), memory: Bytes(1 << 30) }
}

fn hash() -> SpecHash {
    SpecHash([0xab; 32])
}

fn hostname() -> Hostname {
    Hostname::new("n7").unwrap()
}

fn token_id(text: &str) -> TokenId {
    TokenId::new(text).unwrap()
}

fn service_key() -> ServiceKey {
    ServiceKey { deployment: deployment_name(), service: ServiceName::new("web").unwrap() }
}

fn replica_id() -> ReplicaId {
    ReplicaId::new(&service_key(), &Ordinal::Index(3))
}
