//! A history: entries applied one after another, and short ways to say what they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_state::command::{
    Batch, ClusterInit, DeploymentApply, JoinTokenIssue, NewNode, NodeAdmit, ReplaceCause,
};
use jaco_state::{
    Change, ClusterMeta, ClusterState, Command, Entry, NewInstance, Outcome, apply, token,
};
use jaco_types::spec::{
    DeploymentSpec, Healthcheck, Placement, RestartPolicy, SchedulingPolicy, ServiceMode,
    ServiceSpec, Storage, UpdatePolicy,
};
use jaco_types::unit::Resources;
use jaco_types::{
    ClusterId, DeploymentName, DesiredState, ErrorCode, Hostname, Identity, ImageDigest,
    InstanceId, InstanceObserved, NodeFacts, NodeId, Ordinal, Origin, ReplicaId, ReplicaState,
    RequestId, Revision, ServiceKey, ServiceName, SpecHash, StateIndex, Timestamp, TokenId,
};

/// From where all entries come.
pub(crate) const ORIGIN: Origin = Origin::Socket { uid: 0, node: NodeId::FIRST };

/// A state and the next index.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) state: ClusterState,
    pub(crate) now: Timestamp,
}

impl History {
    /// A cluster of one node, `n1`.
    pub(crate) fn founded() -> Self {
        let mut history = Self { now: Timestamp(1_000_000), ..Self::default() };
        // Raft's own first entries.
        history.state.index = StateIndex(1);
        assert_eq!(history.apply(init()), Outcome::NodeAdmitted { id: NodeId::FIRST });
        history
    }

    pub(crate) fn entry(&self, request: Option<&str>, command: Command) -> Entry {
        Entry {
            index: StateIndex(self.state.index.0 + 1),
            at: self.now,
            by: Identity::Local { uid: 0 },
            origin: Some(ORIGIN),
            request: request.map(|text| RequestId::new(text).unwrap()),
            command,
        }
    }

    pub(crate) fn apply(&mut self, command: Command) -> Outcome {
        let entry = self.entry(None, command);
        apply(&mut self.state, &entry)
    }

    pub(crate) fn apply_as(&mut self, request: &str, command: Command) -> Outcome {
        let entry = self.entry(Some(request), command);
        apply(&mut self.state, &entry)
    }

    /// Applies what must be refused, and says with which code.
    pub(crate) fn refused(&mut self, command: Command) -> ErrorCode {
        match self.apply(command) {
            Outcome::Rejected(rejection) => rejection.code,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    pub(crate) fn batch(&mut self, changes: Vec<Change>) -> Outcome {
        let based_on = self.state.index;
        self.apply(Batch::new(based_on, changes).into())
    }

    /// Admits a node under a token of its own, and says its id.
    pub(crate) fn join(&mut self, hostname: &str) -> NodeId {
        let id = format!("t-{}", self.state.index);
        self.apply(JoinTokenIssue::new(join_token(&id, self.now, 1)).into());
        match self.apply(admit(hostname, &id)) {
            Outcome::NodeAdmitted { id } => id,
            other => panic!("{hostname} was not admitted: {other:?}"),
        }
    }

    pub(crate) fn last_event(&self) -> String {
        let (_, event) = self.state.audit.events.iter().next_back().unwrap();
        let facts: Vec<_> =
            event.payload.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {}", event.kind.as_str(), facts.join(" "))
    }
}

pub(crate) fn init() -> Command {
    let meta = ClusterMeta {
        id: ClusterId::new(&"ab".repeat(16)).unwrap(),
        name: "test".to_owned(),
        ca_certificate: "pem".to_owned(),
        sealed_ca_key: vec![1, 2, 3],
        created_at: Timestamp(1),
    };
    let token = token::OperatorToken {
        id: TokenId::new("bootstrap").unwrap(),
        proof: jaco_state::token::Proof::Secret([7; 32]),
        issued_at: Timestamp(1),
        issued_by: Identity::Local { uid: 0 },
        revoked_at: None,
        expires_at: None,
        rights: None,
        last_used_at: None,
    };
    ClusterInit::new(meta, new_node("n1"), token).into()
}

pub(crate) fn new_node(hostname: &str) -> NewNode {
    let mut key_fingerprint = [0; 32];
    for (place, byte) in key_fingerprint.iter_mut().zip(hostname.bytes()) {
        *place = byte;
    }
    NewNode {
        hostname: Hostname::new(hostname).unwrap(),
        address: format!("{hostname}:7000"),
        key_fingerprint,
        facts: NodeFacts::default(),
    }
}

pub(crate) fn join_token(id: &str, now: Timestamp, uses: u32) -> token::JoinToken {
    token::JoinToken {
        id: TokenId::new(id).unwrap(),
        secret_hash: [8; 32],
        issued_at: now,
        issued_by: Identity::Local { uid: 0 },
        expires_at: Timestamp(now.0 + 3_600_000),
        uses_left: uses,
        revoked_at: None,
    }
}

pub(crate) fn admit(hostname: &str, token: &str) -> Command {
    NodeAdmit::new(new_node(hostname), TokenId::new(token).unwrap()).into()
}

pub(crate) fn deployment(name: &str) -> DeploymentName {
    DeploymentName::new(name).unwrap()
}

pub(crate) fn key(deployment_name: &str, service: &str) -> ServiceKey {
    ServiceKey {
        deployment: deployment(deployment_name),
        service: ServiceName::new(service).unwrap(),
    }
}

pub(crate) fn service(name: &str, image: &str) -> ServiceSpec {
    let mut hash = [0; 32];
    for (place, byte) in hash.iter_mut().zip(image.bytes()) {
        *place = byte;
    }
    ServiceSpec {
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
        container: "{}".into(),
        hash: SpecHash(hash),
    }
}

/// A digest of nothing but this digit.
pub(crate) fn digest(digit: u8) -> ImageDigest {
    ImageDigest::parse(&format!("web@sha256:{}", digit.to_string().repeat(64))).unwrap()
}

pub(crate) fn spec(services: &[ServiceSpec]) -> DeploymentSpec {
    let services: BTreeMap<_, _> =
        services.iter().map(|service| (service.name.clone(), Arc::new(service.clone()))).collect();
    DeploymentSpec { services, ..DeploymentSpec::default() }
}

pub(crate) fn deploy(name: &str, services: &[ServiceSpec]) -> Command {
    DeploymentApply::new(deployment(name), spec(services)).into()
}

pub(crate) fn instance(node: NodeId, revision: u64) -> NewInstance {
    NewInstance {
        node,
        revision: Revision(revision),
        spec_hash: SpecHash([9; 32]),
        gpus: Vec::new(),
    }
}

pub(crate) fn create(service: &ServiceKey, index: u64, node: NodeId) -> Change {
    let ordinal = Ordinal::Index(index);
    let id = ReplicaId::new(service, &ordinal);
    let (service, instance) = (service.clone(), instance(node, 1));
    Change::SlotCreate { id, service, ordinal, instance, desired_state: DesiredState::Active }
}

pub(crate) fn replace(
    id: &ReplicaId,
    node: NodeId,
    previous: jaco_state::command::Previous,
) -> Change {
    Change::SlotReplace {
        id: id.clone(),
        instance: instance(node, 2),
        previous,
        cause: ReplaceCause::SpecChanged,
        consecutive_failures: 0,
    }
}

pub(crate) fn replica(text: &str) -> ReplicaId {
    ReplicaId::parse(text).unwrap()
}

pub(crate) fn seen(id: InstanceId, node: NodeId, state: ReplicaState) -> InstanceObserved {
    InstanceObserved {
        id,
        service: key("shop", "web"),
        node,
        state,
        code: None,
        details: BTreeMap::new(),
        container_id: "c".to_owned(),
        ports: BTreeMap::new(),
        started_at: None,
        since: Timestamp(5),
        exit: None,
    }
}
