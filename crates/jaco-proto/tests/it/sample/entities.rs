//! Entities of a state.

use super::*;

pub(crate) fn image_digest() -> ImageDigest {
    let digest = format!("registry.example:5000/web@sha256:{}", "0a".repeat(32));
    ImageDigest::parse(&digest).unwrap()
}

pub(crate) fn isolated() -> InstanceObserved {
    let (state, code) = (ReplicaState::Failed, Some(ReasonCode::NodeIsolated));
    InstanceObserved { state, code, ..observed() }
}

pub(crate) fn consumer() -> Consumer {
    Consumer {
        name: consumer_name(),
        node: NodeId(7),
        lease: Millis(5000),
        session: StateIndex(33),
        attached_at: Timestamp(1_700_000_000_000),
    }
}

pub(crate) fn terminating() -> TerminatingInstance {
    TerminatingInstance {
        id: InstanceId { replica: replica_id(), raft_index: StateIndex(29) },
        service: service_key(),
        node: NodeId(7),
        revision: Revision(1),
        spec_hash: hash(),
        gpus: Vec::new(),
        addresses: Vec::new(),
        left_at: StateIndex(36),
        since: Timestamp(1_700_000_000_500),
    }
}

pub(crate) fn other_observations() -> Vec<InstanceObserved> {
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

pub(crate) fn deployment_name() -> DeploymentName {
    DeploymentName::new("shop").unwrap()
}

pub(crate) fn trace() -> TraceContext {
    TraceContext::new([0x4b; 16], [0xf0; 8], Sampled::Yes).unwrap()
}

pub(crate) fn deployment() -> Deployment {
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
            trace: None,
        })
    };
    Deployment {
        name: deployment_name(),
        revision: Revision(2),
        revisions: [(Revision(1), record(0)), (Revision(2), record(1000))].into(),
        modified: StateIndex(30),
    }
}

pub(crate) fn node() -> Node {
    Node {
        id: NodeId(7),
        hostname: hostname(),
        address: "10.0.0.7:7000".into(),
        mesh_address: None,
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

pub(crate) fn facts() -> NodeFacts {
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
        router: None,
        edge: None,
        instances_max: None,
        volume_classes: BTreeMap::new(),
    }
}

pub(crate) fn facts_of_machine() -> NodeFacts {
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

pub(crate) fn slot() -> Slot {
    let instance = |index| Instance {
        raft_index: StateIndex(index),
        node: NodeId(7),
        revision: Revision(2),
        spec_hash: hash(),
        gpus: Vec::new(),
        addresses: Vec::new(),
        joining_since: None,
    };
    Slot {
        id: replica_id(),
        service: service_key(),
        ordinal: Ordinal::Index(3),
        desired_state: DesiredState::Active,
        current: instance(35),
        retiring: Some(instance(31)),
        data: SlotData::default(),
        restarts: RestartCount { consecutive: 2, exhausted: Exhausted::No },
        terminations: Vec::new(),
        modified: StateIndex(35),
    }
}

pub(crate) fn observed() -> InstanceObserved {
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

pub(crate) fn scheduling() -> Scheduling {
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
            prepull: None,
            rollback_progress: None,
            in_flight: BTreeSet::new(),
        }),
        unplaced: vec![Unplaced {
            count: 1,
            reason: "cannot_satisfy_host_placement".into(),
            details: by_name("missing", "n9"),
        }],
        first_watch: FirstWatch::Over,
        modified: StateIndex(36),
    }
}

pub(crate) fn by_name(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

pub(crate) fn resources() -> Resources {
    Resources { cpu: MilliCores(1500), memory: Bytes(1 << 30) }
}

pub(crate) fn hash() -> SpecHash {
    SpecHash([0xab; 32])
}

pub(crate) fn hostname() -> Hostname {
    Hostname::new("n7").unwrap()
}

pub(crate) fn token_id(text: &str) -> TokenId {
    TokenId::new(text).unwrap()
}

pub(crate) fn service_key() -> ServiceKey {
    ServiceKey { deployment: deployment_name(), service: ServiceName::new("web").unwrap() }
}

pub(crate) fn replica_id() -> ReplicaId {
    ReplicaId::new(&service_key(), &Ordinal::Index(3))
}
