//! What members of earlier versions do not know waits for them.

use jaco_types::{
    Availability, Hostname, Node, NodeFacts, NodeId, NodeStatus, StateIndex, Timestamp,
};

use super::*;
use crate::view::path::tests::history;

fn member(id: u64, version: &str) -> (NodeId, Node) {
    let node = Node {
        id: NodeId(id),
        hostname: Hostname::new(&format!("n{id}")).unwrap(),
        address: String::new(),
        mesh_address: None,
        key_fingerprint: [0; 32],
        status: NodeStatus::Ready,
        status_reason: String::new(),
        availability: Availability::Active,
        availability_reason: String::new(),
        drain: None,
        facts: NodeFacts { version: version.to_owned(), ..NodeFacts::default() },
        labels: std::collections::BTreeMap::new(),
        joined_at: Timestamp(0),
        modified: StateIndex(id),
    };
    (node.id, node)
}

/// R-EDGE-2: routes and certificates wait for all members to know them, and from then on for none.
#[test]
fn routes_wait_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let mut state = ClusterState {
        nodes: [member(1, own), member(2, "0.0.1")].into_iter().collect(),
        ..ClusterState::default()
    };
    let refused = edges_may_begin(&state).unwrap_err();
    assert_eq!(refused.code, ErrorCode::MembersOutdated);
    assert_eq!(refused.details["members"], "n2 runs version 0.0.1");
    state.edges.begun = Some(StateIndex(7));
    assert_eq!(edges_may_begin(&state), Ok(()), "one that is down does not count any more");
    state.edges.begun = None;
    state.nodes.remove(&NodeId(2));
    assert_eq!(edges_may_begin(&state), Ok(()));
}

/// R-IN-6: what an apply reaches is in no entry as long as a member does not know it.
#[test]
fn reaches_wait_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let of = |version| ClusterState {
        nodes: [member(1, own), member(2, version)].into_iter().collect(),
        ..ClusterState::default()
    };
    assert!(reaches_are_known(&of(own)));
    assert!(!reaches_are_known(&of("0.0.1")));
    let refused = policy_may_begin(&of("0.0.1")).unwrap_err();
    assert_eq!(refused.code, ErrorCode::MembersOutdated);
    // While one member after another is upgraded, or goes back, nothing is let through.
    for version in [own, "0.1.0", "99.0.0"] {
        assert!(reaches_are_known(&of(version)));
        assert_eq!(policy_may_begin(&of(version)), Ok(()));
    }
}

/// R-CLI-6: a rotation waits for all members to know it, and from the first one on for none.
#[test]
fn a_rotation_waits_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let of = |version| ClusterState {
        nodes: [member(1, own), member(2, version)].into_iter().collect(),
        ..ClusterState::default()
    };
    for may_begin in [rotation_may_begin, kek_rotation_may_begin] {
        assert_eq!(may_begin(&of(own)), Ok(()));
        let refused = may_begin(&of("0.0.1")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::MembersOutdated);
        assert_eq!(refused.details["members"], "n2 runs version 0.0.1");
    }
}

/// R-CLI-6: who does not know the event of a copy gets none.
#[test]
fn copies_wait_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let of = |version| ClusterState {
        nodes: [member(1, own), member(2, version)].into_iter().collect(),
        ..ClusterState::default()
    };
    assert_eq!(copies_may_be_audited(&of(own)), Ok(()));
    let refused = copies_may_be_audited(&of("0.0.1")).unwrap_err();
    assert_eq!(refused.code, ErrorCode::MembersOutdated);
    assert_eq!(refused.details["members"], "n2 runs version 0.0.1");
    assert_eq!(copies_may_be_audited(&of("0.1.0")), Ok(()), "an upgrade takes nothing away");
    // Whoever has read one knows them, whatever it says of itself.
    let mut silent = of("");
    let event = |kind| jaco_state::audit::AuditEvent {
        kind,
        at: Timestamp(0),
        by: jaco_types::Identity::Scheduler,
        origin: None,
        request: None,
        payload: std::collections::BTreeMap::new(),
        previous: None,
    };
    let key = |number| jaco_state::audit::AuditKey { index: StateIndex(9), number };
    silent.audit.events.insert(key(0), event(AuditKind::ExecStarted));
    assert!(copies_may_be_audited(&silent).is_err());
    silent.audit.events.insert(key(1), event(AuditKind::ForwardStarted));
    assert_eq!(copies_may_be_audited(&silent), Ok(()));
}

/// R-IN-5: who does not know that secrets expire gets no entry that says it, and no event of one that was read.
#[test]
fn expiry_waits_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let mut state = ClusterState {
        nodes: [member(1, own), member(2, "0.0.1")].into_iter().collect(),
        ..ClusterState::default()
    };
    for may_begin in [terms_may_begin, reads_may_be_audited] {
        let refused = may_begin(&state).unwrap_err();
        assert_eq!(refused.code, ErrorCode::MembersOutdated);
        assert_eq!(refused.details["members"], "n2 runs version 0.0.1");
    }
    let key = jaco_types::NamedKey {
        kind: jaco_types::NamedKind::Secret,
        name: jaco_types::ContentName::new("db").unwrap(),
    };
    let named = NamedContent {
        version: 1,
        tree: jaco_types::ContentId([1; 32]),
        pieces: std::collections::BTreeSet::new(),
        size: 1,
        stored_at: Timestamp(0),
        users: ContentUsers::All,
        expires_at: Some(Timestamp(9)),
        former: std::collections::BTreeMap::new(),
    };
    state.named.insert(key, named);
    assert_eq!(terms_may_begin(&state), Ok(()), "all members have read one");
    state.nodes.remove(&NodeId(2));
    assert_eq!(reads_may_be_audited(&state), Ok(()));
}

/// R-IN-3: who does not know the bound gets no entry with it.
#[test]
fn the_bound_waits_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let of = |version| ClusterState {
        nodes: [member(1, own), member(2, version)].into_iter().collect(),
        ..ClusterState::default()
    };
    assert_eq!(replicas_max(&of(own)), Some(100_000));
    assert_eq!(replicas_max(&of("0.0.1")), None);
    assert_eq!(replicas_max(&of("")), None);
}

/// NET-4: who does not know that running replicas join networks gets no entry that says it.
#[test]
fn joins_wait_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let of = |version| ClusterState {
        nodes: [member(1, own), member(2, version)].into_iter().collect(),
        ..ClusterState::default()
    };
    assert_eq!(joins_are_known(&of(own)), Ok(()));
    for earlier in ["0.1.0", "0.1.9", ""] {
        assert!(joins_are_known(&of(earlier)).is_err(), "{earlier:?}");
    }
}

/// NET-4: an apply says so where what runs stays apart from what replaces it, and with which member's version that ends.
#[test]
fn replicas_that_stay_apart_are_told() {
    use history::{History, deployment, key, service, spec};
    use jaco_state::command::{DeploymentApply, NetworkBegin};
    use jaco_types::spec::{Attachment, NetworkRef};

    let mut history = History::founded();
    history.apply(NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into());
    let web = service("web", "web:1");
    history
        .apply(DeploymentApply::new(deployment("shop"), spec(std::slice::from_ref(&web))).into());
    let network = NetworkRef::Own(jaco_types::NetworkName::new("default").unwrap());
    let networks = vec![Attachment { network, aliases: Vec::new() }];
    let moved = spec(&[jaco_types::spec::ServiceSpec { networks, ..web.clone() }]);
    let told = |history: &mut History, version: &str| {
        let own = history.state.nodes.get_mut(&NodeId::FIRST).unwrap();
        own.facts.version = version.to_owned();
        let mut warnings = Vec::new();
        let running = running(&history.state, &deployment("shop"), &moved, &mut warnings);
        (running, warnings)
    };
    assert_eq!(told(&mut history, "0.1.0"), (Running::Stay, vec![]), "nothing runs");
    let revision = history.state.deployments.get(&deployment("shop")).unwrap().revision;
    let key = key("shop", "web");
    let ordinal = jaco_types::Ordinal::Index(0);
    history.batch(vec![jaco_state::Change::SlotCreate {
        id: jaco_types::ReplicaId::new(&key, &ordinal),
        service: key,
        ordinal,
        instance: jaco_state::NewInstance {
            node: NodeId::FIRST,
            revision,
            spec_hash: web.hash,
            gpus: Vec::new(),
        },
        desired_state: DesiredState::Active,
    }]);
    assert_eq!(told(&mut history, "0.2.0"), (Running::JoinNetworks, vec![]));
    let (stays, warnings) = told(&mut history, "0.1.0");
    assert_eq!((stays, warnings.len()), (Running::Stay, 1));
    let told = &warnings[0];
    assert!(told.starts_with("replicas of shop from before this apply"), "{told}");
    assert!(told.ends_with("0.2.0 or later: n1 runs version 0.1.0"), "{told}");
}

/// R-OPS-1: who does not know traces gets no entry with one.
#[test]
fn traces_wait_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let of = |version| ClusterState {
        nodes: [member(1, own), member(2, version)].into_iter().collect(),
        ..ClusterState::default()
    };
    assert!(traces_are_known(&of(own)));
    assert!(!traces_are_known(&of("0.0.1")) && !traces_are_known(&of("")));
}

/// R-IN-6: tokens have roles once all members know them, and from then on for good: what deployers reach is checked
/// during upgrades as well.
#[test]
fn roles_wait_for_all_members_to_be_upgraded() {
    let own = env!("CARGO_PKG_VERSION");
    let mut state = ClusterState {
        nodes: [member(1, own), member(2, "0.0.1")].into_iter().collect(),
        ..ClusterState::default()
    };
    let refused = roles_may_begin(&state).unwrap_err();
    assert_eq!(refused.code, ErrorCode::MembersOutdated);
    assert_eq!(
        refused.message,
        "tokens have roles once all members run version 0.1.0 or later: n2 runs version 0.0.1"
    );
    let id = jaco_types::TokenId::new("board").unwrap();
    let token = |rights| jaco_state::token::OperatorToken {
        id: id.clone(),
        proof: jaco_state::token::Proof::Secret([0; 32]),
        issued_at: Timestamp(0),
        issued_by: jaco_types::Identity::Scheduler,
        revoked_at: None,
        expires_at: None,
        rights,
        last_used_at: None,
    };
    state.operator_tokens.insert(id.clone(), token(None));
    assert!(roles_may_begin(&state).is_err() && !reaches_are_known(&state));
    state.operator_tokens.insert(id.clone(), token(Some(jaco_types::Rights::Viewer)));
    assert!(roles_may_begin(&state).is_ok() && reaches_are_known(&state));
}
