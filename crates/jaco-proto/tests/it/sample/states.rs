//! Whole states, for snapshots.

use super::*;

/// The rows that came later: what is disabled, and a slot that is.
pub(crate) fn state_of_disabled() -> ClusterState {
    let rest = Disablement { by: Identity::Local { uid: 7 }, at: Timestamp(1_700_000_000_000) };
    let scopes = scopes().into_iter().map(|scope| (scope, rest.clone())).collect();
    let termination = Termination {
        raft_index: StateIndex(35),
        node: NodeId(7),
        revision: Revision(2),
        at: Timestamp(1_700_000_000_456),
        outcome: TerminationOutcome::Disabled,
        state: ReplicaState::Stopped,
        code: Some(ReasonCode::Disabled),
        details: BTreeMap::new(),
        exit: None,
    };
    let slot = Slot {
        desired_state: DesiredState::Disabled,
        retiring: None,
        terminations: vec![termination],
        ..slot()
    };
    ClusterState {
        index: StateIndex(42),
        disabled: DisabledAllocations {
            scopes,
            waiting: jaco_state::Table::default(),
            modified: StateIndex(41),
        },
        slots: [(slot.id.clone(), slot)].into_iter().collect(),
        ..ClusterState::default()
    }
}

/// A state with a policy, and nothing else.
pub(crate) fn state_of_policy() -> ClusterState {
    let grants = [(deployment_name(), grants())].into_iter().collect();
    let policy = Policy { mode: PolicyMode::Refuse, grants };
    ClusterState { index: StateIndex(42), policy, ..ClusterState::default() }
}

/// A state with a rotation in this phase, and nothing else.
pub(crate) fn state_of_rotation(phase: RotationPhase) -> ClusterState {
    let of_old = |step: &RotationStep| *step as u64;
    let reports = RotationStep::ALL.iter().map(|step| (NodeId(7 + of_old(step)), *step));
    let rotation = AuthorityRotation {
        id: StateIndex(40),
        begun_at: Timestamp(1_700_000_000_000),
        phase,
        since: Timestamp(1_700_000_000_500),
        old: rotated(0x44),
        new: RotatedAuthority { sealed_key: Vec::new(), ..rotated(0x55) },
        reports: reports.collect(),
    };
    ClusterState { index: StateIndex(42), rotation: Some(rotation), ..ClusterState::default() }
}

/// A disabled slot whose last instance had no data, and nothing else.
pub(crate) fn state_without_data() -> ClusterState {
    let slot = Slot {
        desired_state: DesiredState::Disabled,
        data: SlotData::None,
        retiring: None,
        ..slot()
    };
    ClusterState {
        slots: [(slot.id.clone(), slot)].into_iter().collect(),
        ..ClusterState::default()
    }
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
    state.terminating.insert(terminating().id, terminating());
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

/// A state with the digest of an image, and nothing else.
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

/// A state with a deployment whose revisions are traced, and nothing else.
pub(crate) fn state_of_traces() -> ClusterState {
    let mut deployment = deployment();
    for record in deployment.revisions.values_mut() {
        Arc::make_mut(record).trace = Some(trace());
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
        timeout: Millis(300_000),
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

/// A state with an event that says from where, of which older ones are gone, and with a caller who is
/// refused again and again.
pub(crate) fn state_of_retention() -> ClusterState {
    let mut state = state_of_chain();
    let key = *state.audit.events.keys().next().unwrap();
    state.audit.events.get_mut(&key).unwrap().origin = Some(origins()[1]);
    let cut = Some(AuditKey { index: StateIndex(40), number: 2 });
    state.audit.retention = Some(Retention { age: Millis(7_776_000_000), cut, clock: None });
    let count = RefusalCount { since: Timestamp(1_700_000_000_123), written: 20, unreported: 3 };
    state.audit.refusals.insert(Identity::Local { uid: 1000 }, count);
    state
}

/// A state whose events are aged by a clock, while entries are ahead of it, and nothing else.
pub(crate) fn state_of_clock() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    let clock = AuditClock {
        believed: Timestamp(1_700_000_000_123),
        jumped: Some(Timestamp(1_708_640_000_000)),
    };
    let (age, clock) = (Millis(7_776_000_000), Some(clock));
    state.audit.retention = Some(Retention { age, cut: None, clock });
    state
}

/// A state with a rollout that waits for the image on two nodes, and nothing else.
pub(crate) fn state_of_prepull() -> ClusterState {
    let nodes = [(NodeId(7), "web:2: no such image".to_owned()), (NodeId(8), String::new())];
    let preparing = Prepull { due: Timestamp(1_700_000_600_100), nodes: nodes.into() };
    let mut record = scheduling();
    record.rollout = record.rollout.map(|rollout| Rollout {
        current_step: 0,
        prepull: Some(preparing),
        ..rollout
    });
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.scheduling.insert(service_key(), record);
    state
}

/// A state with a slot that remembers how its instances ended, and nothing else.
pub(crate) fn state_of_terminations() -> ClusterState {
    let termination = |index: u64, outcome| Termination {
        raft_index: StateIndex(index),
        node: NodeId(7),
        revision: Revision(2),
        at: Timestamp(1_700_000_000_456),
        outcome,
        state: ReplicaState::Failed,
        code: Some(ReasonCode::ContainerExited),
        details: by_name("output", "no such table"),
        exit: Some(Exit { code: 137, out_of_memory: true }),
    };
    // One that came later has its own sample.
    let every = TerminationOutcome::ALL
        .iter()
        .filter(|each| **each != TerminationOutcome::Disabled)
        .zip(20..);
    let terminations = every.map(|(outcome, index)| termination(index, *outcome)).collect();
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.slots.insert(replica_id(), Slot { terminations, ..slot() });
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
            users: ContentUsers::All,
            expires_at: None,
            former: BTreeMap::new(),
        };
        state.named.insert(named_key(kind), named);
    }
    state
}

/// A state with a secret that is for two deployments, and nothing else.
pub(crate) fn state_of_users() -> ClusterState {
    let mut state = state_of_names();
    state.named.remove(&named_key(NamedKind::Config));
    let key = named_key(NamedKind::Secret);
    let named = state.named.get(&key).unwrap().clone();
    state.named.insert(key, NamedContent { users: content_users(), ..named });
    state
}

/// A secret that expires and has earlier versions, and nothing else.
pub(crate) fn state_of_expiry() -> ClusterState {
    let mut state = state_of_names();
    state.named.remove(&named_key(NamedKind::Config));
    let key = named_key(NamedKind::Secret);
    let former = |number| FormerContent {
        tree: content_id(number),
        stored_at: Timestamp(1_700_000_000_000 + u64::from(number)),
    };
    let named = NamedContent {
        expires_at: Some(Timestamp(1_707_776_000_000)),
        former: [(4, former(4)), (6, former(6))].into(),
        ..state.named.get(&key).unwrap().clone()
    };
    state.named.insert(key, named);
    state
}

/// Two deployments that may use a secret.
pub(crate) fn content_users() -> ContentUsers {
    let names = ["blog", "shop"].map(|name| DeploymentName::new(name).unwrap());
    ContentUsers::Listed(names.into())
}

/// A slot and a terminating instance of it, both with a GPU.
pub(crate) fn state_of_gpus() -> ClusterState {
    let gpus = || vec!["GPU-6f9c".into()];
    let current = Instance { gpus: gpus(), ..slot().current };
    let slot = Slot { current, retiring: None, ..slot() };
    let terminating = TerminatingInstance { gpus: gpus(), ..terminating() };
    ClusterState {
        slots: [(slot.id.clone(), slot)].into_iter().collect(),
        terminating: [(terminating.id.clone(), terminating)].into_iter().collect(),
        ..ClusterState::default()
    }
}

/// An operator token that was used, and nothing else.
pub(crate) fn state_of_uses() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    let last_used_at = Some(Timestamp(1_700_000_000_500));
    state
        .operator_tokens
        .insert(token_id("ops-1"), OperatorToken { last_used_at, ..expiring_token() });
    state
}

/// A client certificate, and nothing else.
pub(crate) fn state_of_certificates() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    let certificate = operator_certificate();
    state.operator_tokens.insert(certificate.id.clone(), certificate);
    state
}

/// An operator token of each role, and nothing else.
pub(crate) fn state_of_roles() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    for token in tokens_with_roles() {
        let id = token_id(token.rights().role().as_str());
        state.operator_tokens.insert(id.clone(), OperatorToken { id, ..token });
    }
    state
}

/// An operator token that expires and a revoked join token, and nothing else.
pub(crate) fn state_of_tokens() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    state.operator_tokens.insert(token_id("ops-1"), expiring_token());
    let revoked_at = Some(Timestamp(1_700_000_000_999));
    state.join_tokens.insert(token_id("join-1"), JoinToken { revoked_at, ..join_token() });
    state
}
