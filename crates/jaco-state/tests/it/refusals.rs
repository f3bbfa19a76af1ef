//! Refused commands: each code that a command can be refused with, and that a refusal changes nothing
//! but the audit log (ST-1).

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::audit::{AGE_MAX, AGE_MIN};
use jaco_state::command::{
    AuditRetention, Batch, ConstraintsSet, ConsumerAttach, DeploymentApply, DeploymentDelete,
    DeploymentRollback, DisabledSet, Disabling, NodeDrain, NodeRemove, NodeReport,
    NodeSetAvailability, NodeSetLabels, Observe, OperatorTokenIssue, OperatorTokenRevoke, Previous,
    Rebalance, RebalanceMove, RebalanceRevert, RevertedMove, RevisionPin,
};
use jaco_state::deployment::Pin;
use jaco_state::disabled::DISABLED_MAX;
use jaco_state::token::OperatorToken;
use jaco_state::{Change, ClusterState, Command, Outcome};
use jaco_types::node::LABELS_MAX;
use jaco_types::routing::CONSUMERS_MAX;
use jaco_types::slot::Exhausted;
use jaco_types::spec::Placement;
use jaco_types::{
    AllocationScope, Availability, ConsumerName, ErrorCode, Hostname, Identity, Millis, NodeFacts,
    NodeId, NodeStatus, Revision, Scheduling, StateIndex, Timestamp, TokenId,
};

use crate::history::{
    History, admit, create, deploy, deployment, digest, init, instance, join_token, key, replace,
    replica, service, spec,
};

const NOBODY: NodeId = NodeId(99);

/// A cluster of `n1` and `n2` with `shop/web` at its second revision, and one replica on `n1`.
fn shop() -> History {
    let mut history = History::founded();
    history.join("n2");
    for image in ["web:1", "web:2"] {
        history.apply(deploy("shop", &[service("web", image)]));
    }
    let placed = create(&key("shop", "web"), 0, NodeId::FIRST);
    assert_eq!(history.batch(vec![placed]), Outcome::Done);
    history
}

/// What a refusal must leave alone: everything but the index, the audit log and the outcomes.
fn essence(state: &ClusterState) -> ClusterState {
    let mut state = state.for_decisions();
    state.index = StateIndex(0);
    state
}

/// Applies a command that must be refused with this code, twice: the second time as a retry of the
/// same request.
fn check(history: &mut History, command: impl Into<Command>, code: ErrorCode) {
    let (command, before) = (command.into(), essence(&history.state));
    let events = history.state.audit.events.len();
    let request = format!("r-{}", history.state.index);
    let Outcome::Rejected(rejection) = history.apply_as(&request, command.clone()) else {
        panic!("expected {code}: {command:?}");
    };
    assert_eq!(rejection.code, code, "{command:?}: {rejection}");
    assert!(!rejection.message.is_empty() && !rejection.message.ends_with('.'), "{rejection}");
    assert_eq!(essence(&history.state), before, "a refused command changed something: {command:?}");
    let is_replanned = matches!(command, Command::Batch(_) | Command::RebalanceRevert(_));
    let written = history.state.audit.events.len() - events;
    assert_eq!(written, usize::from(!is_replanned), "{command:?}");
    if !is_replanned {
        let expected = format!("request_refused code={code}");
        assert!(history.last_event().starts_with(&expected), "{}", history.last_event());
    }
    let retried = history.apply_as(&request, command);
    assert_eq!(retried, Outcome::Rejected(rejection), "a retry has the first answer (R-CLI-9)");
    assert_eq!(history.state.audit.events.len() - events, written, "and leaves no second event");
}

#[test]
fn cluster_init_is_refused_once_there_is_a_cluster() {
    check(&mut shop(), init(), ErrorCode::ClusterAlreadyInitialized);
}

#[test]
fn node_admit_is_refused_by_token_and_name() {
    let mut history = shop();
    check(&mut history, admit("n3", "none"), ErrorCode::JoinTokenInvalid);
    let token = |id: &str, uses| {
        jaco_state::command::JoinTokenIssue::new(join_token(id, Timestamp(1_000_000), uses)).into()
    };
    history.apply(token("spent", 0));
    check(&mut history, admit("n3", "spent"), ErrorCode::JoinTokenConsumed);
    history.apply(token("old", 1));
    check(&mut history, token("old", 1), ErrorCode::TokenExists);
    let mut other =
        jaco_state::command::NewNode { key_fingerprint: [5; 32], ..crate::history::new_node("n2") };
    let id = TokenId::new("old").unwrap();
    check(
        &mut history,
        jaco_state::command::NodeAdmit::new(other.clone(), id.clone()),
        ErrorCode::NodeAlreadyMember,
    );
    history.now = Timestamp(1_000_000 + 3_600_000);
    other.hostname = Hostname::new("n3").unwrap();
    check(
        &mut history,
        jaco_state::command::NodeAdmit::new(other, id),
        ErrorCode::JoinTokenExpired,
    );
}

/// The last moment of a join token still admits.
#[test]
fn join_tokens_expire_at_their_moment() {
    let mut history = shop();
    let token = join_token("edge", history.now, 1);
    history.apply(jaco_state::command::JoinTokenIssue::new(token).into());
    history.now = Timestamp(history.now.0 + 3_600_000 - 1);
    assert!(matches!(history.apply(admit("n3", "edge")), Outcome::NodeAdmitted { .. }));
}

#[test]
fn commands_about_unknown_nodes_are_refused() {
    let mut history = shop();
    let commands: [Command; 6] = [
        NodeReport::new(NOBODY, "n9:7000".to_owned(), NodeFacts::default()).into(),
        NodeSetAvailability::new(NOBODY, Availability::Cordoned).into(),
        NodeDrain::new(NOBODY, Millis(1000)).into(),
        NodeSetLabels::new(NOBODY).into(),
        NodeRemove::new(NOBODY).into(),
        Observe::new(NOBODY).into(),
    ];
    for command in commands {
        check(&mut history, command, ErrorCode::NodeNotFound);
    }
    let consumer = ConsumerName::new("edge").unwrap();
    check(&mut history, ConsumerAttach::new(consumer, NOBODY, Millis(1)), ErrorCode::NodeNotFound);
}

#[test]
fn node_labels_are_bounded() {
    let mut history = shop();
    let labels = |count: usize| -> BTreeMap<String, String> {
        (0..count).map(|number| (format!("l{number}"), String::new())).collect()
    };
    let set = |labels| NodeSetLabels::new(NodeId::FIRST).set(labels);
    assert_eq!(history.apply(set(labels(LABELS_MAX)).into()), Outcome::Done);
    check(&mut history, set([("one-more".to_owned(), String::new())].into()), ErrorCode::TooLarge);
    let exchanged =
        set([("one-more".to_owned(), String::new())].into()).unset(["l0".to_owned()].into());
    assert_eq!(history.apply(exchanged.into()), Outcome::Done, "one is removed for the new one");
    assert_eq!(history.state.nodes.get(&NodeId::FIRST).unwrap().labels.len(), LABELS_MAX);
}

#[test]
fn consumers_are_bounded() {
    let mut history = shop();
    let attach = |number: usize| {
        let name = ConsumerName::new(&format!("c{number}")).unwrap();
        ConsumerAttach::new(name, NodeId::FIRST, Millis(5000))
    };
    for number in 0..CONSUMERS_MAX {
        assert_eq!(history.apply(attach(number).into()), Outcome::Done);
    }
    check(&mut history, attach(CONSUMERS_MAX), ErrorCode::TooLarge);
    assert_eq!(history.apply(attach(0).into()), Outcome::Done, "an attached one may attach again");
}

#[test]
fn constraints_are_checked() {
    let mut history = shop();
    for (key, value) in
        [("cpu", "many"), ("tier", "1"), ("place-with", "web"), ("scale-with", "web")]
    {
        let pairs = [(key.to_owned(), value.to_owned()), ("zone".to_owned(), "a".to_owned())];
        check(&mut history, ConstraintsSet::new(pairs.into()), ErrorCode::InvalidRequest);
    }
    assert!(history.state.constraints.is_empty());
}

#[test]
fn disabled_scopes_must_exist() {
    let mut history = shop();
    let (web, node) = (key("shop", "web"), NodeId::FIRST);
    for (scope, code) in [
        (AllocationScope::Node(NOBODY), ErrorCode::NodeNotFound),
        (AllocationScope::Service(key("shop", "db")), ErrorCode::ServiceNotFound),
        (AllocationScope::Service(key("blog", "web")), ErrorCode::ServiceNotFound),
        (AllocationScope::Pair { service: web.clone(), node: NOBODY }, ErrorCode::NodeNotFound),
        (AllocationScope::Pair { service: key("shop", "db"), node }, ErrorCode::ServiceNotFound),
        (
            AllocationScope::Replica { service: web.clone(), id: replica("shop-web-7") },
            ErrorCode::ReplicaNotFound,
        ),
    ] {
        for change in [Disabling::Disable, Disabling::Enable, Disabling::Replace] {
            let scopes: BTreeSet<_> = [AllocationScope::Service(web.clone()), scope.clone()].into();
            check(&mut history, DisabledSet::new(change, scopes), code);
        }
    }
}

/// R-SEL-4: an allocation that a wider scope disables cannot be enabled on its own.
#[test]
fn enabling_a_part_of_what_is_disabled_is_refused() {
    let mut history = shop();
    let (web, node) = (key("shop", "web"), NodeId::FIRST);
    let part = AllocationScope::Replica { service: web.clone(), id: replica("shop-web-0") };
    for wider in [
        AllocationScope::Node(node),
        AllocationScope::Service(web.clone()),
        AllocationScope::Pair { service: web.clone(), node },
    ] {
        history.apply(DisabledSet::new(Disabling::Replace, [wider].into()).into());
        let enable = DisabledSet::new(Disabling::Enable, [part.clone()].into());
        check(&mut history, enable, ErrorCode::StillDisabled);
    }
}

#[test]
fn disabled_scopes_are_bounded() {
    let mut history = History::founded();
    let hosts: Vec<NodeId> = (0..101).map(|number| history.join(&format!("m{number}"))).collect();
    let names: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
    let services: Vec<_> = names.iter().map(|name| service(name, "web:1")).collect();
    history.apply(deploy("shop", &services));
    let pairs = |nodes: &[NodeId]| -> BTreeSet<AllocationScope> {
        let of = |node: &NodeId| {
            let node = *node;
            names.iter().map(move |name| AllocationScope::Pair { service: key("shop", name), node })
        };
        nodes.iter().flat_map(of).collect()
    };
    assert_eq!(pairs(&hosts[..100]).len(), DISABLED_MAX);
    let all = DisabledSet::new(Disabling::Disable, pairs(&hosts[..100]));
    assert_eq!(history.apply(all.into()), Outcome::Done);
    let one_more = DisabledSet::new(Disabling::Disable, [AllocationScope::Node(hosts[100])].into());
    check(&mut history, one_more, ErrorCode::TooLarge);
}

#[test]
fn deployments_are_checked_against_the_state() {
    let mut history = shop();
    let mut pinned = service("web", "web:3");
    let host = Hostname::new("n9").unwrap();
    pinned.placement = Placement::Hosts([host].into_iter().collect());
    check(&mut history, deploy("shop", &[pinned]), ErrorCode::UnknownHost);
    // `shop-web` + `x` and `shop` + `web-x` would both name a replica `shop-web-x-0`.
    history.apply(deploy("shop", &[service("web-x", "web:1")]));
    check(&mut history, deploy("shop-web", &[service("x", "web:1")]), ErrorCode::ReplicaIdConflict);
    check(&mut history, DeploymentDelete::new(deployment("blog")), ErrorCode::DeploymentNotFound);
}

/// Compare-and-set: a spec that was made from another revision must not undo what was applied since.
#[test]
fn an_apply_based_on_another_revision_is_stale() {
    let mut history = shop();
    let apply = |name: &str, image: &str, based_on: u64| {
        DeploymentApply::new(deployment(name), spec(&[service("web", image)]))
            .based_on(Some(Revision(based_on)))
    };
    for based_on in [0, 1, 3, u64::MAX] {
        check(&mut history, apply("shop", "web:3", based_on), ErrorCode::StalePlan);
    }
    check(&mut history, apply("blog", "web:1", 1), ErrorCode::StalePlan);
    let outcome = history.apply(apply("shop", "web:3", 2).into());
    assert!(matches!(outcome, Outcome::Deployed { revision: Revision(3), .. }), "{outcome:?}");
    check(&mut history, apply("shop", "web:4", 2), ErrorCode::StalePlan);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    check(&mut history, apply("shop", "web:4", 3), ErrorCode::StalePlan);
}

#[test]
fn rollbacks_and_pins_need_their_revision() {
    let mut history = shop();
    let rollback = |name: &str| DeploymentRollback::new(deployment(name));
    check(&mut history, rollback("blog"), ErrorCode::DeploymentNotFound);
    check(&mut history, rollback("shop").to(Some(Revision(9))), ErrorCode::RevisionNotFound);
    history.apply(deploy("blog", &[service("web", "web:1")]));
    check(&mut history, rollback("blog"), ErrorCode::NoPreviousRevision);
    let pin =
        |name: &str, revision| RevisionPin::new(deployment(name), Revision(revision), Pin::Yes);
    check(&mut history, pin("none", 1), ErrorCode::DeploymentNotFound);
    check(&mut history, pin("shop", 9), ErrorCode::RevisionNotFound);
}

#[test]
fn pinned_revisions_are_bounded() {
    let mut history = History::founded();
    let pin =
        |revision: usize, pin| RevisionPin::new(deployment("shop"), Revision(revision as u64), pin);
    let most = jaco_state::apply::deployment::revision::PINNED_MAX;
    for number in 1..=most {
        history.apply(deploy("shop", &[service("web", &format!("web:{number}"))]));
        assert_eq!(history.apply(pin(number, Pin::Yes).into()), Outcome::Done);
    }
    history.apply(deploy("shop", &[service("web", "web:last")]));
    check(&mut history, pin(most + 1, Pin::Yes), ErrorCode::TooLarge);
    assert_eq!(history.apply(pin(1, Pin::No).into()), Outcome::Done);
    assert_eq!(history.apply(pin(most + 1, Pin::Yes).into()), Outcome::Done);
}

#[test]
fn operator_tokens_have_names_of_their_own() {
    let mut history = shop();
    let id = TokenId::new("bootstrap").unwrap();
    let token = OperatorToken {
        id,
        proof: jaco_state::token::Proof::Secret([1; 32]),
        issued_at: history.now,
        issued_by: Identity::Scheduler,
        revoked_at: None,
        expires_at: None,
        rights: None,
        last_used_at: None,
    };
    check(&mut history, OperatorTokenIssue::new(token), ErrorCode::TokenExists);
    let none = TokenId::new("none").unwrap();
    check(&mut history, OperatorTokenRevoke::new(none), ErrorCode::TokenNotFound);
}

/// The retention's bounds are inclusive.
#[test]
fn the_audit_retention_is_bounded() {
    let mut history = shop();
    for age in [Millis(0), Millis(AGE_MIN.0 - 1), Millis(AGE_MAX.0 + 1), Millis(u64::MAX)] {
        check(&mut history, AuditRetention::new(age), ErrorCode::InvalidRequest);
    }
    for age in [AGE_MAX, AGE_MIN] {
        assert_eq!(history.apply(AuditRetention::new(age).into()), Outcome::Done);
    }
}

/// ST-2: for each change, what makes a batch stale that was planned before it.
#[test]
fn batches_are_stale_once_what_they_touch_has_changed() {
    let (web, node, id) = (key("shop", "web"), NodeId::FIRST, replica("shop-web-0"));
    let redeploy = || deploy("shop", &[service("web", "web:9")]);
    let cordon = || NodeSetAvailability::new(node, Availability::Cordoned).into();
    let disable = || {
        DisabledSet::new(Disabling::Disable, [AllocationScope::Node(NodeId::FIRST)].into()).into()
    };
    let failed = || Change::SlotSetRestarts {
        id: replica("shop-web-0"),
        consecutive: 1,
        exhausted: Exhausted::No,
    };
    let touch: fn(&mut History, Change) = |history, change| {
        assert_eq!(history.batch(vec![change]), Outcome::Done);
    };
    let scheduling = || Change::SchedulingSet {
        service: key("shop", "web"),
        record: Box::new(Scheduling::default()),
    };
    let status = || Change::NodeStatusSet {
        node: NodeId::FIRST,
        status: NodeStatus::Ready,
        reason: String::new(),
    };
    let resolve = || Change::ImageResolve {
        service: key("shop", "web"),
        revision: Revision(2),
        digest: digest(1),
    };
    let slot_changes = [
        replace(&id, node, Previous::Drop),
        Change::SlotDisable { id: id.clone(), instance: instance(node, 1) },
        Change::SlotSettle { id: id.clone() },
        Change::SlotRevert { id: id.clone() },
        failed(),
        Change::SlotRemove { id: id.clone() },
    ];
    let check = |meanwhile: &dyn Fn(&mut History), change: Change| {
        let mut history = shop();
        let based_on = history.state.index;
        let fresh = history.clone().apply(Batch::new(based_on, vec![change.clone()]).into());
        assert_eq!(fresh, Outcome::Done, "{change:?}");
        meanwhile(&mut history);
        let harmless = Change::NodeStatusSet {
            node: NodeId(4),
            status: NodeStatus::Ready,
            reason: String::new(),
        };
        let changes = vec![harmless, change];
        check(&mut history, Batch::new(based_on, changes), ErrorCode::StalePlan);
    };
    for change in slot_changes {
        check(&|history| touch(history, failed()), change);
    }
    for change in [create(&web, 1, node), replace(&id, node, Previous::Retire)] {
        check(&|history| drop(history.apply(redeploy())), change.clone());
        check(&|history| drop(history.apply(cordon())), change.clone());
        check(&|history| drop(history.apply(disable())), change);
    }
    check(
        &|history| touch(history, create(&key("shop", "web"), 1, NodeId::FIRST)),
        create(&web, 1, node),
    );
    // Whether a replica leaves its node depends on that node as well.
    let elsewhere = replace(&id, NodeId(4), Previous::Drop);
    for change in [Change::SlotRemove { id: id.clone() }, elsewhere] {
        check(&|history| drop(history.apply(redeploy())), change.clone());
        check(&|history| drop(history.apply(cordon())), change);
    }
    check(
        &|history| drop(history.apply(disable())),
        Change::SlotDisable { id, instance: instance(node, 1) },
    );
    check(&|history| touch(history, scheduling()), scheduling());
    check(&|history| drop(history.apply(cordon())), status());
    check(&|history| touch(history, resolve()), resolve());
}

/// ST-2 holds of moves of the rebalancer as well.
#[test]
fn moves_of_a_changing_replica_are_stale() {
    let mut history = shop();
    let (id, node) = (replica("shop-web-0"), NodeId::FIRST);
    let moved = |history: &History| {
        let one = RebalanceMove {
            id: replica("shop-web-0"),
            instance: instance(NodeId::FIRST, 1),
            facts: BTreeMap::new(),
        };
        Rebalance::new(history.state.index, vec![one])
    };
    let revert = |history: &History| {
        let one = RevertedMove { id: replica("shop-web-0"), facts: BTreeMap::new() };
        RebalanceRevert::new(history.state.index, vec![one])
    };
    let too_early = revert(&history);
    check(&mut history, too_early, ErrorCode::StalePlan);
    assert_eq!(history.batch(vec![replace(&id, node, Previous::Retire)]), Outcome::Done);
    let in_handover = moved(&history);
    check(&mut history, in_handover, ErrorCode::StalePlan);
}
