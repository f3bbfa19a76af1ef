//! The words of refusals: what a user reads when a command is refused, and the facts that programs get
//! with it. That nothing else changes is asserted in `refusals`.

use std::collections::BTreeSet;

use jaco_state::audit::AuditKind;
use jaco_state::command::{
    AuditNote, AuditRetention, Batch, ConstraintsSet, ConsumerAttach, ContentPut, DeploymentApply,
    DeploymentDelete, DeploymentRollback, DisabledSet, Disabling, JoinTokenIssue, NamedContentPut,
    NamedContentRemove, NodeRemove, NodeSetAvailability, NodeSetLabels, OperatorTokenIssue,
    OperatorTokenRevoke, OperatorTokenRotate, Previous, Rebalance, RebalanceMove, RebalanceRevert,
    RegistryStore, RevertedMove, RevisionPin,
};
use jaco_state::contents::{Form, PIECE_BYTES_MAX, Piece, PieceBytes};
use jaco_state::deployment::Pin;
use jaco_state::registries::{REGISTRIES_MAX, SealedPassword};
use jaco_state::token::OperatorToken;
use jaco_state::{Command, Outcome};
use jaco_types::node::LABELS_MAX;
use jaco_types::routing::CONSUMERS_MAX;
use jaco_types::spec::Placement;
use jaco_types::{
    AllocationScope, Availability, ConsumerName, ContentId, ContentName, Hostname, Identity,
    Millis, NamedKey, NamedKind, NodeId, RegistryName, RegistryUsername, Revision, StateIndex,
    Timestamp, TokenId,
};

use crate::history::{
    History, admit, create, deploy, deployment, init, instance, join_token, key, replace, replica,
    service, spec,
};

const NOBODY: NodeId = NodeId(99);

/// A cluster of `n1` and `n2` with `shop/web` at its second revision, and one replica on `n1`.
fn shop() -> History {
    let mut history = History::founded();
    history.join("n2");
    for image in ["web:1", "web:2"] {
        history.apply(deploy("shop", &[service("web", image)]));
    }
    history.batch(vec![create(&key("shop", "web"), 0, NodeId::FIRST)]);
    history
}

/// Applies a command that is refused, and compares the refusal and its facts, which the audit log has as
/// well.
fn check(history: &mut History, command: impl Into<Command>, expected: &str) {
    let command = command.into();
    let Outcome::Rejected(rejection) = history.apply(command.clone()) else {
        panic!("{expected}: {command:?} was not refused");
    };
    let facts = rejection.details.iter().map(|(key, value)| format!(" [{key}={value}]"));
    assert_eq!(format!("{rejection}{}", facts.collect::<String>()), expected);
    if !matches!(command, Command::Batch(_) | Command::RebalanceRevert(_)) {
        let (_, event) = history.state.audit.events.iter().next_back().unwrap();
        let mut payload = rejection.details.clone();
        payload.insert("code".to_owned(), rejection.code.as_str().to_owned());
        payload.insert("message".to_owned(), rejection.message.clone());
        assert_eq!((event.kind, &event.payload), (AuditKind::RequestRefused, &payload));
        assert_eq!((event.at, &event.by), (history.now, &Identity::Local { uid: 0 }));
    }
}

fn token(id: &str) -> TokenId {
    TokenId::new(id).unwrap()
}

#[test]
fn members() {
    let mut history = shop();
    let id = "ab".repeat(16);
    let cluster =
        format!("cluster_already_initialized: this daemon already belongs to cluster {id}");
    check(&mut history, init(), &cluster);
    let unknown = "node_not_found: node 99 is not a member";
    check(&mut history, NodeRemove::new(NOBODY), unknown);
    check(&mut history, NodeSetAvailability::new(NOBODY, Availability::Draining), unknown);
    check(&mut history, NodeSetLabels::new(NOBODY), unknown);
    check(
        &mut history,
        ConsumerAttach::new(ConsumerName::new("edge").unwrap(), NOBODY, Millis(1)),
        unknown,
    );
    let labels = (0..=LABELS_MAX).map(|number| (format!("l{number}"), String::new()));
    check(
        &mut history,
        NodeSetLabels::new(NodeId::FIRST).set(labels.collect()),
        "too_large: node \"n1\" would have more than 64 labels",
    );
}

#[test]
fn tokens() {
    let mut history = shop();
    check(&mut history, admit("n3", "none"), "join_token_invalid: join token none is not known");
    history.apply(JoinTokenIssue::new(join_token("spent", history.now, 0)).into());
    check(
        &mut history,
        admit("n3", "spent"),
        "join_token_consumed: join token spent was used before",
    );
    let again = JoinTokenIssue::new(join_token("spent", history.now, 5));
    check(&mut history, again, "token_exists: a join token with the id spent exists");
    let mut taken = crate::history::new_node("n2");
    taken.key_fingerprint = [5; 32];
    check(
        &mut history,
        jaco_state::command::NodeAdmit::new(taken, token("spent")),
        "node_already_member: node \"n2\" is a member already, as node 4",
    );
    history.now = Timestamp(history.now.0 + 3_600_000);
    check(&mut history, admit("n3", "spent"), "join_token_expired: join token spent has expired");
    let bootstrap = OperatorToken {
        id: token("bootstrap"),
        proof: jaco_state::token::Proof::Secret([1; 32]),
        issued_at: history.now,
        issued_by: Identity::Scheduler,
        revoked_at: None,
        expires_at: None,
        rights: None,
        last_used_at: None,
    };
    check(
        &mut history,
        OperatorTokenIssue::new(bootstrap),
        "token_exists: a token named bootstrap exists; revoke it or choose another name",
    );
    check(
        &mut history,
        OperatorTokenRevoke::new(token("none")),
        "token_not_found: there is no operator token named none",
    );
    check(
        &mut history,
        OperatorTokenRotate::new(token("none"), [2; 32]),
        "token_not_found: there is no operator token named none",
    );
}

/// All that is wrong is said at once.
#[test]
fn constraints() {
    let pairs = [("cpu", "many"), ("place-with", "web"), ("tier", "1"), ("zone", "a")];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    check(
        &mut shop(),
        ConstraintsSet::new(pairs.into()),
        "invalid_request: constraint cpu=many: write a number of cores, as 0.5 or 2, or max; \
         constraint place-with=web: a cluster has no services by that name, its deployments have; \
         constraint tier=1: JACO knows cpu, ram, storage, zone, datacenter, arch, os, hostname, \
         tags, max-per-node, place-in, place-with and scale-with; values of labels are written as \
         rules",
    );
}

#[test]
fn disabled_allocations() {
    let mut history = shop();
    let (web, node) = (key("shop", "web"), NodeId::FIRST);
    let set = |change, scopes: &[AllocationScope]| {
        DisabledSet::new(change, scopes.iter().cloned().collect::<BTreeSet<_>>())
    };
    let unknown = [
        AllocationScope::Node(NOBODY),
        AllocationScope::Service(key("shop", "db")),
        AllocationScope::Pair { service: key("shop", "db"), node },
        AllocationScope::Replica { service: web.clone(), id: replica("shop-web-9") },
    ];
    check(
        &mut history,
        set(Disabling::Disable, &unknown),
        "node_not_found: the cluster has no node 99, no shop/db, no shop/db on n1, no replica \
         shop-web-9",
    );
    history.apply(
        set(
            Disabling::Disable,
            &[AllocationScope::Service(web.clone()), AllocationScope::Node(node)],
        )
        .into(),
    );
    let parts = [
        AllocationScope::Pair { service: web.clone(), node },
        AllocationScope::Replica { service: web, id: replica("shop-web-0") },
    ];
    check(
        &mut history,
        set(Disabling::Enable, &parts),
        "still_disabled: shop/web on n1 is disabled with all of shop/web; replica shop-web-0 is \
         disabled with all of shop/web; enable that instead",
    );
}

#[test]
fn deployments() {
    let mut history = shop();
    let mut pinned = service("web", "web:3");
    let hosts = ["n1", "n8", "n9"].map(|host| Hostname::new(host).unwrap());
    pinned.placement = Placement::Hosts(hosts.into_iter().collect());
    check(
        &mut history,
        deploy("shop", &[pinned]),
        "unknown_host: service \"web\" is pinned to n8, n9, and the cluster has no such node \
         [missing=n8, n9]",
    );
    history.apply(deploy("shop", &[service("web-x", "web:1")]));
    check(
        &mut history,
        deploy("shop-web", &[service("x", "web:1")]),
        "replica_id_conflict: replicas of service \"x\" would be named like those of shop/web-x",
    );
    let based_on = |name: &str, revision| {
        DeploymentApply::new(deployment(name), spec(&[service("web", "web:9")]))
            .based_on(Some(Revision(revision)))
    };
    check(
        &mut history,
        based_on("shop", 2),
        "stale_plan: the change was made from revision 2 of shop, which is at revision 3 by now",
    );
    check(
        &mut history,
        based_on("blog", 1),
        "stale_plan: the change was made from revision 1 of blog, which is gone by now",
    );
    let mut missing = spec(&[service("web", "web:1")]);
    missing.contents = (0..3_u8).map(|byte| ContentId([byte; 32])).collect();
    let ids: Vec<String> = missing.contents.iter().map(ToString::to_string).collect();
    check(
        &mut history,
        DeploymentApply::new(deployment("blog"), missing),
        &format!(
            "content_missing: 3 pieces of files that the manifest needs were not sent [missing={}]",
            ids.join(" ")
        ),
    );
    check(
        &mut history,
        DeploymentDelete::new(deployment("blog")),
        "deployment_not_found: there is no deployment \"blog\"",
    );
}

/// Of what is missing, the first hundred are named.
#[test]
fn missing_contents_are_named_within_bounds() {
    let mut history = shop();
    let mut missing = spec(&[service("web", "web:1")]);
    missing.contents = (0..101_u8).map(|byte| ContentId([byte; 32])).collect();
    let apply = DeploymentApply::new(deployment("shop"), missing);
    let Outcome::Rejected(rejection) = history.apply(apply.into()) else { panic!() };
    assert!(rejection.message.starts_with("101 pieces of files"), "{rejection}");
    let named: Vec<&str> = rejection.details["missing"].split(' ').collect();
    let last = ContentId([99; 32]).to_string();
    assert_eq!((named.len(), named[99]), (100, last.as_str()));
}

#[test]
fn revisions() {
    let mut history = shop();
    let rollback = |name: &str| DeploymentRollback::new(deployment(name));
    let unknown = "deployment_not_found: there is no deployment blog";
    check(&mut history, rollback("blog"), unknown);
    check(&mut history, RevisionPin::new(deployment("blog"), Revision(1), Pin::Yes), unknown);
    let gone = "revision_not_found: shop has no revision 9 any more; there are 1, 2";
    check(&mut history, rollback("shop").to(Some(Revision(9))), gone);
    check(&mut history, RevisionPin::new(deployment("shop"), Revision(9), Pin::Yes), gone);
    history.apply(deploy("blog", &[service("web", "web:1")]));
    check(
        &mut history,
        rollback("blog"),
        "no_previous_revision: blog has no earlier revision that was rolled out and differs",
    );
    for number in 3..=12 {
        history.apply(deploy("shop", &[service("web", &format!("web:{number}"))]));
        history.apply(RevisionPin::new(deployment("shop"), Revision(number), Pin::Yes).into());
    }
    history.apply(deploy("shop", &[service("web", "web:13")]));
    check(
        &mut history,
        RevisionPin::new(deployment("shop"), Revision(13), Pin::Yes),
        "too_large: shop has 10 pinned revisions already: unpin one first",
    );
}

fn piece(byte: u8, size: usize) -> Piece {
    Piece {
        id: ContentId([byte; 32]),
        bytes: PieceBytes(vec![byte; size].into()),
        form: Form::Plain,
    }
}

#[test]
fn contents_and_credentials() {
    let mut history = shop();
    check(
        &mut history,
        ContentPut::new(vec![piece(1, 1), piece(2, PIECE_BYTES_MAX + 1)]),
        &format!(
            "too_large: a piece of content has 1048577 bytes, and {PIECE_BYTES_MAX} are the most"
        ),
    );
    let name = NamedKey { kind: NamedKind::Secret, name: ContentName::new("pass").unwrap() };
    check(
        &mut history,
        NamedContentPut::new(name.clone(), ContentId([9; 32]), vec![piece(1, 1)], 1),
        "invalid_request: the upload of secret \"pass\" does not contain its list of files",
    );
    check(
        &mut history,
        NamedContentRemove::new(name.clone()),
        "content_not_found: the cluster keeps no secret \"pass\"",
    );
    let put = NamedContentPut::new(name.clone(), ContentId([1; 32]), vec![piece(1, 1)], 1);
    assert_eq!(history.apply(put.into()), Outcome::Done);
    for deployment_name in ["blog", "shop"] {
        let mut using = spec(&[service("web", "web:7")]);
        using.named = [name.clone()].into();
        let apply = DeploymentApply::new(deployment(deployment_name), using);
        assert!(matches!(history.apply(apply.into()), Outcome::Deployed { .. }));
    }
    check(
        &mut history,
        NamedContentRemove::new(name),
        "content_in_use: secret \"pass\" is used by blog, shop [users=blog shop]",
    );
    let store = |registry: &str, bytes| {
        let user = RegistryUsername::new("me").unwrap();
        let password = SealedPassword(vec![1; bytes].into());
        RegistryStore::new(RegistryName::new(registry).unwrap(), user, password)
    };
    check(&mut history, store("ghcr.io", 0), "too_large: a password has 1 to 16384 bytes");
    for number in 0..REGISTRIES_MAX {
        history.apply(store(&format!("r{number}.io"), 1).into());
    }
    check(
        &mut history,
        store("ghcr.io", 1),
        &format!(
            "too_large: {REGISTRIES_MAX} registries have credentials, and these are the most: log \
             out of one that is not used any more"
        ),
    );
}

#[test]
fn consumers_and_audit() {
    let mut history = shop();
    let attach = |number: usize| {
        let name = ConsumerName::new(&format!("c{number}")).unwrap();
        ConsumerAttach::new(name, NodeId::FIRST, Millis(5000))
    };
    for number in 0..CONSUMERS_MAX {
        history.apply(attach(number).into());
    }
    check(
        &mut history,
        attach(CONSUMERS_MAX),
        &format!("too_large: {CONSUMERS_MAX} consumers are attached already"),
    );
    check(
        &mut history,
        AuditRetention::new(Millis(5)),
        "invalid_request: audit events are kept for 3600s to 315360000s, not for 5ms",
    );
}

/// ST-2: a stale plan names what moved, and the index that it was made from.
#[test]
fn stale_plans() {
    let mut history = shop();
    let (id, node) = (replica("shop-web-0"), NodeId::FIRST);
    let index = history.state.index;
    check(
        &mut history,
        Batch::new(index, vec![create(&key("shop", "web"), 0, node)]),
        &format!(
            "stale_plan: replica shop-web-0 changed after index {index}, which the plan is based on"
        ),
    );
    let index = history.state.index;
    check(
        &mut history,
        Batch::new(index, vec![create(&key("blog", "web"), 0, node)]),
        &format!(
            "stale_plan: deployment blog changed after index {index}, which the plan is based on"
        ),
    );
    let index = history.state.index;
    check(
        &mut history,
        Batch::new(index, vec![create(&key("shop", "web"), 1, NOBODY)]),
        &format!("stale_plan: node 99 changed after index {index}, which the plan is based on"),
    );
    let node_set = AllocationScope::Node(node);
    history.apply(DisabledSet::new(Disabling::Disable, [node_set].into()).into());
    let before = StateIndex(history.state.index.0 - 1);
    check(
        &mut history,
        Batch::new(before, vec![create(&key("shop", "web"), 1, node)]),
        &format!(
            "stale_plan: what is disabled changed after index {before}, which the plan is based on"
        ),
    );
    let index = history.state.index;
    let reverts = vec![RevertedMove { id: id.clone(), facts: [].into() }];
    check(
        &mut history,
        RebalanceRevert::new(index, reverts),
        "stale_plan: replica shop-web-0 is not moving to another node",
    );
    history.batch(vec![replace(&id, NodeId(4), Previous::Retire)]);
    let moves = vec![RebalanceMove { id, instance: instance(node, 2), facts: [].into() }];
    let index = history.state.index;
    check(
        &mut history,
        Rebalance::new(index, moves),
        "stale_plan: replica shop-web-0 is being replaced",
    );
}

/// A note of the leader is never refused, whatever it says.
#[test]
fn notes_are_taken_as_they_are() {
    let mut history = shop();
    let payload = [("why", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let note = AuditNote::new(AuditKind::BackupTaken, payload.into());
    assert_eq!(history.apply(note.into()), Outcome::Done);
    assert_eq!(history.last_event(), "backup_taken why=");
}
