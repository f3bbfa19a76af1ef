//! One instance of each thing that is stored. The frozen bytes are of these; a field that is new
//! gets the value here that it is read as from bytes of before.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use jaco_proto::storage::Payload;
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, Retention};
use jaco_state::audit_chain::Digest;
use jaco_state::audit_refusals::RefusalCount;
use jaco_state::command::{
    Disabling, NewInstance, NewNode, Previous, RebalanceMove, RebalanceRevert, ReplaceCause,
    SpecChange,
};
use jaco_state::contents::{Content, Form, Hold, NamedContent, Piece, PieceBytes};
use jaco_state::registries::{RegistryLogin, SealedPassword};
use jaco_state::state::{Pin, RevisionRecord};
use jaco_state::token::{JoinToken, OperatorToken};
use jaco_state::{Change, ClusterMeta, ClusterState, Command, Deployment, DisabledSet, Outcome};
use jaco_types::slot::Exhausted;
use jaco_types::spec::{
    BackFailureAction, BackPolicy, Condition, Dependency, DeploymentSpec, FailureAction,
    Healthcheck, HostPort, OnNodeLoss, Placement, Privilege, Protocol, Pull, Required,
    SchedulingPolicy, Scoring, ServiceSpec, Storage, UpdateOrder, UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    Aftermath, AllocationScope, Author, Availability, ClusterId, Consumer, ConsumerName, ContentId,
    ContentName, DeploymentName, Drain, Ending, ErrorCode, Exit, GoingBack, Gpu, GpuChoice,
    GpuDemand, Hostname, Identity, ImageDigest, Instance, InstanceId, InstanceObserved, Leaving,
    Machine, Millis, NamedKey, NamedKind, Node, NodeFacts, NodeId, NodeStatus, Ordinal, Origin,
    Preparing, ReasonCode, RegistryName, RegistryUsername, Rejection, ReplicaId, ReplicaState,
    RequestId, Rest, RestartCount, Revision, Rollout, RolloutState, Scheduling, ServiceKey,
    ServiceName, Slot, SpecHash, Standing, StateIndex, Timestamp, TokenId, Unplaced,
};

pub(crate) fn payload(command: Command) -> Payload {
    let request = Some(RequestId::new("r-1").unwrap());
    let (at, by) = (Timestamp(1_700_000_000_123), Identity::Scheduler);
    Payload { at, by, origin: None, request, command }
}

/// Payloads that say from where they come; those of [`commands`] are of older versions.
pub(crate) fn payloads_with_origin() -> Vec<Payload> {
    let with = |origin| Payload { origin: Some(origin), ..payload(Command::AuditBegin) };
    origins().into_iter().map(with).collect()
}

pub(crate) fn origins() -> Vec<Origin> {
    let node = NodeId(7);
    let address = |text: &str| Origin::Address { address: text.parse().unwrap(), node };
    vec![
        Origin::Socket { uid: 1000, node },
        address("192.0.2.7:41234"),
        address("[2001:db8::1]:41234"),
        Origin::Member { node },
    ]
}

pub(crate) fn commands() -> Vec<Command> {
    let node = NodeId(7);
    vec![
        Command::ClusterInit { meta: meta(), node: new_node(), token: operator_token() },
        Command::NodeAdmit { node: new_node(), token: token_id("join-1") },
        Command::NodeReport { node, address: "10.0.0.7:7000".into(), facts: facts() },
        Command::NodeSetAvailability { node, availability: Availability::Draining },
        Command::NodeSetLabels {
            node,
            set: by_name("zone", "b"),
            unset: ["rack".to_owned()].into(),
        },
        Command::NodeRemove { node },
        Command::DeploymentApply { name: deployment_name(), spec: spec(), based_on: None },
        Command::DeploymentDelete { name: deployment_name() },
        Command::Batch { based_on: StateIndex(40), changes: changes() },
        Command::Observe { node, observed: vec![observed()], gone: vec![observed().id] },
        Command::OperatorTokenIssue { token: operator_token() },
        Command::OperatorTokenRevoke { id: token_id("ops-1") },
        Command::JoinTokenIssue { token: join_token() },
        Command::AuditNote { kind: AuditKind::AccessRefused, payload: by_name("why", "unknown") },
        Command::ConsumerAttach { name: consumer_name(), node, lease: Millis(5000) },
        Command::ConsumerDetach { name: consumer_name(), session: StateIndex(33) },
        Command::ContentPut { pieces: vec![piece(1, Form::Plain), piece(2, Form::Sealed)] },
        Command::ConstraintsSet { pairs: by_name("ram", "3G") },
        Command::DeploymentRollback { name: deployment_name(), to: Some(Revision(1)) },
        Command::RevisionPin { name: deployment_name(), revision: Revision(1), pin: Pin::Yes },
        Command::NamedContentPut {
            key: named_key(NamedKind::Secret),
            tree: content_id(1),
            pieces: vec![piece(1, Form::Plain), piece(2, Form::Sealed)],
            size: 3,
        },
        Command::NamedContentRemove { key: named_key(NamedKind::Config) },
        Command::AuditBegin,
        Command::Rebalance {
            based_on: StateIndex(40),
            moves: vec![RebalanceMove {
                id: replica_id(),
                instance: NewInstance {
                    node: NodeId(7),
                    revision: Revision(2),
                    spec_hash: hash(),
                    gpus: Vec::new(),
                },
                facts: by_name("dominant", "cpu"),
            }],
            kept: vec![by_name("reason", "dst_cap")],
        },
        Command::NodeDrain { node, patience: Millis(300_000) },
        Command::DisabledSet { change: Disabling::Disable, scopes: scopes() },
        Command::AuditRetention { age: Millis(7_776_000_000) },
        Command::RebalanceRevert {
            based_on: StateIndex(40),
            reverts: vec![RebalanceRevert {
                id: replica_id(),
                facts: by_name("reason", "step_timeout"),
            }],
        },
        Command::RegistryStore {
            registry: RegistryName::new("registry.example.com:5000").unwrap(),
            username: registry_username(),
            password: SealedPassword([7; 40].into()),
        },
        Command::RegistryRemove { registry: RegistryName::new("docker.io").unwrap() },
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
        Command::DeploymentApply { name: deployment_name(), spec: other_spec(), based_on: None },
        Command::Batch { based_on: StateIndex(40), changes: routing_changes() },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: DeploymentSpec { contents: [content_id(1), content_id(2)].into(), ..spec() },
            based_on: None,
        },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: spec_that_may_fail(),
            based_on: None,
        },
        Command::Batch { based_on: StateIndex(40), changes: vec![paused()] },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: DeploymentSpec { named: [named_key(NamedKind::Secret)].into(), ..spec() },
            based_on: None,
        },
        Command::Batch { based_on: StateIndex(40), changes: vec![disk_full()] },
        Command::Observe { node: NodeId(7), observed: vec![isolated()], gone: vec![] },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: spec_with_loss_policies(),
            based_on: None,
        },
        Command::Batch { based_on: StateIndex(40), changes: vec![drain_given_up()] },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: spec_with_company(),
            based_on: None,
        },
        Command::Batch { based_on: StateIndex(40), changes: vec![company_replaced()] },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: spec_with_gpus(),
            based_on: None,
        },
        Command::Batch { based_on: StateIndex(40), changes: vec![created_with_gpus()] },
        Command::NodeReport {
            node: NodeId(7),
            address: "10.0.0.7:7000".into(),
            facts: facts_of_machine(),
        },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: spec_scored_by_nomad(),
            based_on: None,
        },
        Command::DisabledSet { change: Disabling::Enable, scopes: BTreeSet::new() },
        Command::DisabledSet { change: Disabling::Replace, scopes: BTreeSet::new() },
        Command::Batch { based_on: StateIndex(40), changes: disabling_changes() },
        Command::Batch { based_on: StateIndex(40), changes: vec![going_back(), stuck_half_way()] },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: spec_that_watches(),
            based_on: None,
        },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: DeploymentSpec { privileges: privileges(), ..spec() },
            based_on: None,
        },
        Command::Batch { based_on: StateIndex(40), changes: vec![two_under_way()] },
        Command::Batch { based_on: StateIndex(40), changes: vec![image_resolved()] },
        Command::DeploymentApply {
            name: deployment_name(),
            spec: DeploymentSpec::default(),
            based_on: Some(Revision(4)),
        },
    ]
}

fn scopes() -> BTreeSet<AllocationScope> {
    let (service, node) = (service_key(), NodeId(7));
    [
        AllocationScope::Node(node),
        AllocationScope::Service(service.clone()),
        AllocationScope::Pair { service: service.clone(), node },
        AllocationScope::Replica { service, id: replica_id() },
    ]
    .into()
}

fn disabling_changes() -> Vec<Change> {
    let instance = || NewInstance {
        node: NodeId(7),
        revision: Revision(2),
        spec_hash: hash(),
        gpus: Vec::new(),
    };
    vec![
        Change::SlotDisable { id: replica_id(), instance: instance() },
        Change::SlotCreate {
            id: replica_id(),
            service: service_key(),
            ordinal: Ordinal::Index(3),
            instance: instance(),
            standing: Standing::Disabled,
        },
        Change::SlotReplace {
            id: replica_id(),
            instance: instance(),
            previous: Previous::Drop,
            cause: ReplaceCause::Enabled,
            consecutive_failures: 0,
        },
    ]
}

/// The rows that came later: what people disabled, and a slot that is.
pub(crate) fn state_of_disabled() -> ClusterState {
    let rest = Rest { by: Identity::Local { uid: 7 }, at: Timestamp(1_700_000_000_000) };
    let scopes = scopes().into_iter().map(|scope| (scope, rest.clone())).collect();
    let ending = Ending {
        raft_index: StateIndex(35),
        node: NodeId(7),
        revision: Revision(2),
        at: Timestamp(1_700_000_000_456),
        aftermath: Aftermath::Disabled,
        state: ReplicaState::Stopped,
        code: Some(ReasonCode::Disabled),
        details: BTreeMap::new(),
        exit: None,
    };
    let slot =
        Slot { standing: Standing::Disabled, retiring: None, endings: vec![ending], ..slot() };
    ClusterState {
        index: StateIndex(42),
        disabled: DisabledSet { scopes, modified: StateIndex(41) },
        slots: [(slot.id.clone(), slot)].into_iter().collect(),
        ..ClusterState::default()
    }
}

fn going_back() -> Change {
    let going_back = Some(GoingBack { total_steps: 2, current_step: 1 });
    let rollout = scheduling().rollout;
    let rollout =
        rollout.map(|rollout| Rollout { state: RolloutState::Aborted, going_back, ..rollout });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

fn two_under_way() -> Change {
    let under_way = [Ordinal::Index(3), Ordinal::Host(hostname())];
    let under_way = under_way.map(|ordinal| ReplicaId::new(&service_key(), &ordinal)).into();
    let rollout = scheduling().rollout.map(|rollout| Rollout { under_way, ..rollout });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

fn stuck_half_way() -> Change {
    let rollout = scheduling().rollout;
    let rollout = rollout.map(|rollout| Rollout { state: RolloutState::RollbackPaused, ..rollout });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

fn spec_that_watches() -> DeploymentSpec {
    let service = |name, monitor, back| {
        let name = ServiceName::new(name).unwrap();
        let mut web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        web.name = name.clone();
        web.update = UpdatePolicy { monitor, back, ..web.update };
        (name, Arc::new(web))
    };
    let pauses = BackPolicy {
        monitor: Some(Millis(9_000)),
        failure_action: BackFailureAction::Pause,
        max_failure_permille: 250,
        ..BackPolicy::default()
    };
    let blind = BackPolicy { monitor: Some(Millis(0)), ..BackPolicy::default() };
    let services = [
        service("blind", Some(Millis(0)), blind),
        service("careful", Some(Millis(5_000)), pauses),
        service("usual", None, BackPolicy::default()),
    ];
    DeploymentSpec { services: services.into(), ..spec() }
}

fn disk_full() -> Change {
    let reason = "the disk of /var/lib/docker is 96% full".to_owned();
    Change::NodeStatusSet { node: NodeId(7), status: NodeStatus::DiskFull, reason }
}

fn drain_given_up() -> Change {
    Change::DrainGiveUp { node: NodeId(7), left: "shop-db-0".into() }
}

fn image_resolved() -> Change {
    Change::ImageResolve { service: service_key(), revision: Revision(2), digest: image_digest() }
}

fn image_digest() -> ImageDigest {
    let digest = format!("registry.example:5000/web@sha256:{}", "0a".repeat(32));
    ImageDigest::parse(&digest).unwrap()
}

fn isolated() -> InstanceObserved {
    let (state, code) = (ReplicaState::Failed, Some(ReasonCode::NodeIsolated));
    InstanceObserved { state, code, ..observed() }
}

fn spec_with_loss_policies() -> DeploymentSpec {
    let service = |name, on_node_loss| {
        let name = ServiceName::new(name).unwrap();
        let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        (name.clone(), Arc::new(ServiceSpec { name, on_node_loss, ..web }))
    };
    let (after, grace) = (Millis(30_000), Millis(10_000));
    let services = [
        service("moves", OnNodeLoss::Replace { after }),
        service("single", OnNodeLoss::StopSelf { after, grace }),
        service("waits", OnNodeLoss::Wait),
    ];
    DeploymentSpec { services: services.into(), ..spec() }
}

fn spec_that_may_fail() -> DeploymentSpec {
    let (order, delay) = (UpdateOrder::StopFirst, Millis(7));
    let back = BackPolicy { parallelism: 3, order, delay, ..BackPolicy::default() };
    let service = |name, failure_action| {
        let name = ServiceName::new(name).unwrap();
        let mut web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        web.name = name.clone();
        web.update = UpdatePolicy { failure_action, max_failure_permille: 250, back, ..web.update };
        (name, Arc::new(web))
    };
    let services =
        [service("continues", FailureAction::Continue), service("pauses", FailureAction::Pause)];
    DeploymentSpec { services: services.into(), ..spec() }
}

fn paused() -> Change {
    let rollout = scheduling().rollout;
    let rollout = rollout.map(|rollout| Rollout { state: RolloutState::Paused, ..rollout });
    let record = Scheduling { rollout, ..scheduling() };
    Change::SchedulingSet { service: service_key(), record: Box::new(record) }
}

fn routing_changes() -> Vec<Change> {
    vec![Change::LeavingEnd { id: leaving().id }, Change::ConsumerExpire { name: consumer_name() }]
}

fn consumer_name() -> ConsumerName {
    ConsumerName::new("edge-1").unwrap()
}

fn consumer() -> Consumer {
    Consumer {
        name: consumer_name(),
        node: NodeId(7),
        lease: Millis(5000),
        session: StateIndex(33),
        attached_at: Timestamp(1_700_000_000_000),
    }
}

fn leaving() -> Leaving {
    Leaving {
        id: InstanceId { replica: replica_id(), raft_index: StateIndex(29) },
        service: service_key(),
        node: NodeId(7),
        revision: Revision(1),
        spec_hash: hash(),
        gpus: Vec::new(),
        left_at: StateIndex(36),
        since: Timestamp(1_700_000_000_500),
    }
}

fn other_changes() -> Vec<Change> {
    let status = |status| Change::NodeStatusSet { node: NodeId(7), status, reason: String::new() };
    let instance = || NewInstance {
        node: NodeId(7),
        revision: Revision(2),
        spec_hash: hash(),
        gpus: Vec::new(),
    };
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
            record: Box::new(Scheduling { rollout, ..scheduling() }),
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
            standing: Standing::Active,
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
        Command::NodeSetLabels { .. } => "node_set_labels",
        Command::NodeRemove { .. } => "node_remove",
        Command::DeploymentApply { .. } => "deployment_apply",
        Command::DeploymentDelete { .. } => "deployment_delete",
        Command::Batch { .. } => "batch",
        Command::Observe { .. } => "observe",
        Command::OperatorTokenIssue { .. } => "operator_token_issue",
        Command::OperatorTokenRevoke { .. } => "operator_token_revoke",
        Command::JoinTokenIssue { .. } => "join_token_issue",
        Command::AuditNote { .. } => "audit_note",
        Command::ConsumerAttach { .. } => "consumer_attach",
        Command::ConsumerDetach { .. } => "consumer_detach",
        Command::ContentPut { .. } => "content_put",
        Command::ConstraintsSet { .. } => "constraints_set",
        Command::DeploymentRollback { .. } => "deployment_rollback",
        Command::RevisionPin { .. } => "revision_pin",
        Command::NamedContentPut { .. } => "named_content_put",
        Command::NamedContentRemove { .. } => "named_content_remove",
        Command::RegistryStore { .. } => "registry_store",
        Command::RegistryRemove { .. } => "registry_remove",
        Command::AuditBegin => "audit_begin",
        Command::AuditRetention { .. } => "audit_retention",
        Command::RebalanceRevert { .. } => "rebalance_revert",
        Command::Rebalance { .. } => "rebalance",
        Command::NodeDrain { .. } => "node_drain",
        Command::DisabledSet { .. } => "disabled_set",
    }
}

/// Each kind of change once; together they are the frozen batch.
fn changes() -> Vec<Change> {
    let id = replica_id();
    let instance =
        NewInstance { node: NodeId(7), revision: Revision(2), spec_hash: hash(), gpus: Vec::new() };
    vec![
        Change::SlotCreate {
            id: id.clone(),
            service: service_key(),
            ordinal: Ordinal::Index(3),
            instance: instance.clone(),
            standing: Standing::Active,
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
        Change::SchedulingSet { service: service_key(), record: Box::new(scheduling()) },
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

pub(crate) fn authors() -> Vec<Author> {
    let identities = [
        Identity::Local { uid: 1000 },
        Identity::Operator { token: token_id("ops-1") },
        Identity::Node { id: NodeId(7) },
        Identity::Scheduler,
        Identity::Anonymous,
    ];
    identities.into_iter().map(|by| Author { by, origin: None }).collect()
}

pub(crate) fn authors_with_origin() -> Vec<Author> {
    let by = Identity::Local { uid: 1000 };
    origins().into_iter().map(|origin| Author { by: by.clone(), origin: Some(origin) }).collect()
}

/// A state with one row of each kind, and a revision more than one.
pub(crate) fn state() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.meta = Some(meta());
    state.constraints = by_name("ram", "3G");
    state.nodes.insert(NodeId(7), node());
    state.deployments.insert(deployment_name(), deployment());
    state.scheduling.insert(service_key(), scheduling());
    state.slots.insert(replica_id(), slot());
    state.observed.insert(observed().id, observed());
    state.consumers.insert(consumer_name(), consumer());
    state.leaving.insert(leaving().id, leaving());
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
        origin: None,
        request: Some(request),
        payload: by_name("deployment", "shop"),
        previous: None,
    };
    state.audit.events.insert(key, event);
    state
}

/// A state with a chain of audit events of one, and nothing else.
pub(crate) fn state_of_chain() -> ClusterState {
    let mut audit = state().audit;
    let key = *audit.events.keys().next().unwrap();
    let event = audit.events.get_mut(&key).unwrap();
    event.previous = Some(Digest([7; 32]));
    audit.head = Some(Digest([8; 32]));
    ClusterState { index: StateIndex(42), audit, ..ClusterState::default() }
}

/// A state that says what an image is, and nothing else.
pub(crate) fn state_of_digests() -> ClusterState {
    let mut deployment = deployment();
    for record in deployment.revisions.values_mut() {
        let web = ServiceName::new("web").unwrap();
        Arc::make_mut(record).digests.insert(web, image_digest());
    }
    ClusterState {
        index: StateIndex(42),
        deployments: [(deployment.name.clone(), deployment)].into_iter().collect(),
        ..ClusterState::default()
    }
}

/// A state with a node that is drained and one whose drain was given up, and nothing else.
pub(crate) fn state_of_drains() -> ClusterState {
    let drain = Drain {
        patience: Millis(300_000),
        progress_at: Timestamp(1_700_000_000_456),
        before: Availability::Cordoned,
    };
    let drained = Node { availability: Availability::Draining, drain: Some(drain), ..node() };
    let availability_reason = "drain_timeout: nothing left for 300 s; shop-db-0".to_owned();
    let given_up = Node { id: NodeId(8), availability_reason, ..node() };
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.nodes.insert(drained.id, drained);
    state.nodes.insert(given_up.id, given_up);
    state
}

/// A state with an event that says from where, of which older ones are gone, and with somebody who is
/// refused again and again.
pub(crate) fn state_of_retention() -> ClusterState {
    let mut state = state_of_chain();
    let key = *state.audit.events.keys().next().unwrap();
    state.audit.events.get_mut(&key).unwrap().origin = Some(origins()[1]);
    let cut = Some(AuditKey { index: StateIndex(40), number: 2 });
    state.audit.retention = Some(Retention { age: Millis(7_776_000_000), cut });
    let count = RefusalCount { since: Timestamp(1_700_000_000_123), written: 20, unreported: 3 };
    state.audit.refusals.insert(Identity::Local { uid: 1000 }, count);
    state
}

/// A state with a rollout that waits for the image on two nodes, and nothing else.
pub(crate) fn state_of_preparing() -> ClusterState {
    let nodes = [(NodeId(7), "web:2: no such image".to_owned()), (NodeId(8), String::new())];
    let preparing = Preparing { due: Timestamp(1_700_000_600_100), nodes: nodes.into() };
    let mut record = scheduling();
    record.rollout = record.rollout.map(|rollout| Rollout {
        current_step: 0,
        preparing: Some(preparing),
        ..rollout
    });
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.scheduling.insert(service_key(), record);
    state
}

/// A state with a slot that remembers how its instances ended, and nothing else.
pub(crate) fn state_of_endings() -> ClusterState {
    let ending = |index: u64, aftermath| Ending {
        raft_index: StateIndex(index),
        node: NodeId(7),
        revision: Revision(2),
        at: Timestamp(1_700_000_000_456),
        aftermath,
        state: ReplicaState::Failed,
        code: Some(ReasonCode::ContainerExited),
        details: by_name("output", "no such table"),
        exit: Some(Exit { code: 137, out_of_memory: true }),
    };
    // One that came later has its own sample.
    let every = Aftermath::ALL.iter().filter(|each| **each != Aftermath::Disabled).zip(20..);
    let endings = every.map(|(aftermath, index)| ending(index, *aftermath)).collect();
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.slots.insert(replica_id(), Slot { endings, ..slot() });
    state
}

/// A state with contents of files, and nothing else.
pub(crate) fn state_of_contents() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    let staged = Hold::Staged { since: Timestamp(1_700_000_000_456) };
    for (piece, hold) in [(piece(1, Form::Plain), staged), (piece(2, Form::Sealed), Hold::Kept)] {
        let content = Content { bytes: piece.bytes, form: piece.form, hold };
        state.contents.insert(piece.id, content);
    }
    state
}

/// A state with credentials of registries, and nothing else.
pub(crate) fn state_of_registries() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    for (name, by) in [
        ("docker.io", Identity::Local { uid: 1000 }),
        ("localhost:5000", Identity::Operator { token: token_id("ops-1") }),
    ] {
        let login = RegistryLogin {
            username: registry_username(),
            password: SealedPassword([7; 40].into()),
            stored_at: Timestamp(1_700_000_000_456),
            by,
        };
        state.registries.insert(RegistryName::new(name).unwrap(), login);
    }
    state
}

fn registry_username() -> RegistryUsername {
    RegistryUsername::new("robot$ci").unwrap()
}

/// A state with a config and a secret that have names, and nothing else.
pub(crate) fn state_of_names() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    for (version, kind) in [(1, NamedKind::Config), (7, NamedKind::Secret)] {
        let named = NamedContent {
            version,
            tree: content_id(1),
            pieces: [content_id(1), content_id(2)].into(),
            size: 3,
            stored_at: Timestamp(1_700_000_000_456),
        };
        state.named.insert(named_key(kind), named);
    }
    state
}

fn named_key(kind: NamedKind) -> NamedKey {
    NamedKey { kind, name: ContentName::new("db.key").unwrap() }
}

fn piece(number: u8, form: Form) -> Piece {
    Piece { id: content_id(number), form, bytes: PieceBytes([number; 3].into()) }
}

fn content_id(number: u8) -> ContentId {
    ContentId([number; 32])
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
            restores: None,
            pin: Pin::No,
            failure: String::new(),
            digests: BTreeMap::new(),
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
        availability_reason: String::new(),
        drain: None,
        facts: facts(),
        labels: by_name("zone", "b"),
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
        storage: Bytes(0),
        gpus: Vec::new(),
        machine: Machine::default(),
        labels: by_name("zone", "a"),
    }
}

fn facts_of_machine() -> NodeFacts {
    let gpu = |id: &str, driver: &str, memory| Gpu {
        id: id.into(),
        driver: driver.into(),
        model: "T4".into(),
        memory: Bytes(memory),
    };
    NodeFacts {
        storage: Bytes(100 << 30),
        gpus: vec![gpu("GPU-6f9c", "nvidia", 16 << 30), gpu("1", "amdgpu", 0)],
        machine: Machine {
            kernel: "6.1.0-18-amd64".into(),
            cores: 8,
            mhz: 3400,
            memory: Bytes(32 << 30),
            disk: Bytes(120 << 30),
            disk_free: Bytes(90 << 30),
        },
        ..facts()
    }
}

fn spec_with_company() -> DeploymentSpec {
    let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
    let names = |names: &[&str]| names.iter().map(|name| ServiceName::new(name).unwrap()).collect();
    let scheduling = SchedulingPolicy {
        max_per_node: NonZeroU32::new(2),
        place_with: names(&["cache", "db"]),
        beside: names(&["net"]),
        ..SchedulingPolicy::default()
    };
    let services = [(web.name.clone(), Arc::new(ServiceSpec { scheduling, ..web }))];
    DeploymentSpec { services: services.into(), ..spec() }
}

fn privileges() -> BTreeMap<ServiceName, BTreeSet<Privilege>> {
    let db = BTreeSet::from([Privilege::HostPath]);
    let all = Privilege::ALL.iter().copied().collect();
    [(ServiceName::new("db").unwrap(), db), (ServiceName::new("web").unwrap(), all)].into()
}

fn spec_scored_by_nomad() -> DeploymentSpec {
    let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
    let scheduling = SchedulingPolicy { scoring: Scoring::Nomad, ..SchedulingPolicy::default() };
    let services = [(web.name.clone(), Arc::new(ServiceSpec { scheduling, ..web }))];
    DeploymentSpec { services: services.into(), ..spec() }
}

fn spec_with_gpus() -> DeploymentSpec {
    let service = |name, choice| {
        let name = ServiceName::new(name).unwrap();
        let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        let gpus = Some(GpuDemand { driver: "nvidia".into(), choice });
        (name.clone(), Arc::new(ServiceSpec { name, gpus, ..web }))
    };
    let services = [
        service("all", GpuChoice::All),
        service("some", GpuChoice::Count(NonZeroU32::new(2).unwrap())),
        service("these", GpuChoice::These(vec!["GPU-6f9c".into(), "1".into()])),
    ];
    DeploymentSpec { services: services.into(), ..spec() }
}

fn created_with_gpus() -> Change {
    Change::SlotCreate {
        id: replica_id(),
        service: service_key(),
        ordinal: Ordinal::Index(3),
        instance: NewInstance {
            node: NodeId(7),
            revision: Revision(2),
            spec_hash: hash(),
            gpus: vec!["GPU-6f9c".into(), "1".into()],
        },
        standing: Standing::Active,
    }
}

/// A slot and what leaves it, both with a GPU.
pub(crate) fn state_of_gpus() -> ClusterState {
    let gpus = || vec!["GPU-6f9c".into()];
    let current = Instance { gpus: gpus(), ..slot().current };
    let slot = Slot { current, retiring: None, ..slot() };
    let leaving = Leaving { gpus: gpus(), ..leaving() };
    ClusterState {
        slots: [(slot.id.clone(), slot)].into_iter().collect(),
        leaving: [(leaving.id.clone(), leaving)].into_iter().collect(),
        ..ClusterState::default()
    }
}

fn company_replaced() -> Change {
    Change::SlotReplace {
        id: replica_id(),
        instance: NewInstance {
            node: NodeId(7),
            revision: Revision(2),
            spec_hash: hash(),
            gpus: Vec::new(),
        },
        previous: Previous::Drop,
        cause: ReplaceCause::CompanyReplaced,
        consecutive_failures: 0,
    }
}

fn slot() -> Slot {
    let instance = |index| Instance {
        raft_index: StateIndex(index),
        node: NodeId(7),
        revision: Revision(2),
        spec_hash: hash(),
        gpus: Vec::new(),
    };
    Slot {
        id: replica_id(),
        service: service_key(),
        ordinal: Ordinal::Index(3),
        standing: Standing::Active,
        current: instance(35),
        retiring: Some(instance(31)),
        restarts: RestartCount { consecutive: 2, exhausted: Exhausted::No },
        endings: Vec::new(),
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
            preparing: None,
            going_back: None,
            under_way: BTreeSet::new(),
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
        gpus: None,
        storage: Storage::Stateless,
        healthcheck: Healthcheck::Declared,
        update: UpdatePolicy {
            parallelism: 2,
            order: UpdateOrder::StopFirst,
            step_timeout: Millis(60_000),
            monitor: Some(Millis(5_000)),
            delay: Millis(100),
            ..UpdatePolicy::default()
        },
        scheduling: SchedulingPolicy::default(),
        on_node_loss: OnNodeLoss::default(),
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
        environment: "[web]".into(),
        contents: BTreeSet::new(),
        named: BTreeSet::new(),
        privileges: BTreeMap::new(),
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
