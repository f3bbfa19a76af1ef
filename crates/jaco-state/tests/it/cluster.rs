//! Membership and tokens.

use jaco_state::Outcome;
use jaco_state::command::{
    JoinTokenIssue, JoinTokenRevoke, NodeRemove, NodeReport, NodeSetAvailability, NodeSetLabels,
    OperatorTokenIssue, OperatorTokenRevoke, OperatorTokenRotate, TokensUsed,
};
use jaco_types::node::LABELS_MAX;
use jaco_types::{
    Availability, ErrorCode, Identity, NodeFacts, NodeId, Rights, Timestamp, TokenId,
};

use crate::history::{History, admit, deployment, init, join_token};

/// A cluster is created once.
#[test]
fn a_cluster_is_created_once() {
    let mut history = History::founded();
    assert_eq!(history.refused(init()), ErrorCode::ClusterAlreadyInitialized);
    assert_eq!(history.state.nodes.len(), 1);
}

/// Node ids are log indices: unique, rising, never reused.
#[test]
fn node_ids_are_never_reused() {
    let mut history = History::founded();
    let second = history.join("n2");
    history.apply(NodeRemove::new(second).into());
    let again = history.join("n2");
    assert!(NodeId::FIRST < second && second < again, "{second} {again}");
}

/// A join token admits one node; used again, it is refused by its own code and leaves an event.
#[test]
fn a_join_token_works_once() {
    let mut history = History::founded();
    let token = join_token("once", history.now, 1);
    history.apply(JoinTokenIssue::new(token).into());
    history.apply(admit("n2", "once"));
    assert_eq!(history.refused(admit("n3", "once")), ErrorCode::JoinTokenConsumed);
    assert!(history.last_event().starts_with("request_refused code=join_token_consumed"));
    assert_eq!(history.refused(admit("n3", "other")), ErrorCode::JoinTokenInvalid);
}

/// A joiner that lost the answer asks again with the same key, and gets the same id.
#[test]
fn a_joiner_that_asks_again_gets_the_same_id() {
    let mut history = History::founded();
    let token = join_token("once", history.now, 1);
    history.apply(JoinTokenIssue::new(token).into());
    let first = history.apply(admit("n2", "once"));
    assert_eq!(history.apply(admit("n2", "once")), first);
}

/// Time comes with the entry: a token that expired by the leader's clock is refused.
#[test]
fn an_expired_join_token_is_refused() {
    let mut history = History::founded();
    let token = join_token("late", history.now, 1);
    history.now = Timestamp(token.expires_at.0);
    history.apply(JoinTokenIssue::new(token).into());
    assert_eq!(history.refused(admit("n2", "late")), ErrorCode::JoinTokenExpired);
}

/// A revoked operator token stays revoked at the moment it first was.
#[test]
fn revoking_twice_keeps_the_first_moment() {
    let mut history = History::founded();
    let id = jaco_types::TokenId::new("bootstrap").unwrap();
    let first = history.now;
    history.apply(OperatorTokenRevoke::new(id.clone()).into());
    history.now = Timestamp(first.0 + 1000);
    history.apply(OperatorTokenRevoke::new(id.clone()).into());
    assert_eq!(history.state.operator_tokens.get(&id).unwrap().revoked_at, Some(first));
}

/// A revoked join token admits nobody, says so, and is revoked once; a node that it admitted before stays a
/// member and gets its id again.
#[test]
fn a_revoked_join_token_admits_nobody() {
    let mut history = History::founded();
    history.apply(JoinTokenIssue::new(join_token("shared", history.now, 2)).into());
    let Outcome::NodeAdmitted { id } = history.apply(admit("n2", "shared")) else {
        panic!("the token is good");
    };
    let token = jaco_types::TokenId::new("shared").unwrap();
    let first = history.now;
    history.apply(JoinTokenRevoke::new(token.clone()).into());
    assert_eq!(history.last_event(), "token_revoke role=join token=shared");
    let events = history.state.audit.events.len();
    history.now = Timestamp(first.0 + 1000);
    history.apply(JoinTokenRevoke::new(token.clone()).into());
    assert_eq!(history.state.audit.events.len(), events, "nothing was new");
    assert_eq!(history.state.join_tokens.get(&token).unwrap().revoked_at, Some(first));

    assert_eq!(history.refused(admit("n3", "shared")), ErrorCode::TokenRevoked);
    assert_eq!(history.apply(admit("n2", "shared")), Outcome::NodeAdmitted { id });
    let none = jaco_types::TokenId::new("none").unwrap();
    assert_eq!(history.refused(JoinTokenRevoke::new(none).into()), ErrorCode::TokenNotFound);
}

/// The name of an operator token that has expired can be given again; before that, and once it is revoked, it
/// cannot.
#[test]
fn the_name_of_an_expired_token_is_free() {
    let mut history = History::founded();
    let id = jaco_types::TokenId::new("ann").unwrap();
    let issue = |now: Timestamp, secret: u8| -> jaco_state::Command {
        let token = jaco_state::token::OperatorToken {
            id: id.clone(),
            proof: jaco_state::token::Proof::Secret([secret; 32]),
            issued_at: now,
            issued_by: jaco_types::Identity::Scheduler,
            revoked_at: None,
            expires_at: Some(Timestamp(now.0 + 1000)),
            rights: None,
            last_used_at: None,
        };
        OperatorTokenIssue::new(token).into()
    };
    let first = history.now;
    history.apply(issue(first, 1));
    assert_eq!(history.refused(issue(Timestamp(first.0 + 1000), 2)), ErrorCode::TokenExists);
    assert_eq!(history.apply(issue(Timestamp(first.0 + 1001), 3)), Outcome::Done);
    let proof = history.state.operator_tokens.get(&id).unwrap().proof;
    assert_eq!(proof, jaco_state::token::Proof::Secret([3; 32]));
    history.apply(OperatorTokenRevoke::new(id.clone()).into());
    assert_eq!(history.refused(issue(Timestamp(first.0 + 9999), 4)), ErrorCode::TokenExists);
}

/// R-SEL-1: labels that people give win over the node's own, which show again when they are taken back;
/// what changes nothing leaves no trace.
#[test]
fn labels_of_people_win() {
    let mut history = History::founded();
    let node = history.join("n2");
    let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let member = history.state.nodes.get(&node).expect("it has just joined");
    let facts = NodeFacts { labels: [own("zone", "a")].into(), ..member.facts.clone() };
    history.apply(NodeReport::new(node, member.address.clone(), facts).into());
    let label = |history: &History, key: &str| {
        history.state.nodes.get(&node).and_then(|node| node.label(key).map(str::to_owned))
    };
    let give =
        |key: &str, value: &str| NodeSetLabels::new(node).set([own(key, value)].into()).into();
    history.apply(give("zone", "b"));
    assert_eq!(history.last_event(), "node_labels labels=zone=b node=n2");
    assert_eq!(label(&history, "zone").as_deref(), Some("b"));
    let before = history.state.audit.events.len();
    history.apply(give("zone", "b"));
    assert_eq!(history.state.audit.events.len(), before, "nothing was new");
    let unset = ["zone".to_owned()].into();
    history.apply(NodeSetLabels::new(node).unset(unset).into());
    assert_eq!(label(&history, "zone").as_deref(), Some("a"));

    let many = (0..=LABELS_MAX).map(|n| own(&n.to_string(), "")).collect();
    let command = NodeSetLabels::new(node).set(many).into();
    assert_eq!(history.refused(command), ErrorCode::TooLarge);
    assert_eq!(history.refused(NodeSetLabels::new(NodeId(999)).into()), ErrorCode::NodeNotFound);
}

/// Why a drain ended is told until an operator sets the availability again, also where it is the present one; the
/// node counts as unmodified then, because nothing that is planned by has changed.
#[test]
fn the_end_of_a_drain_is_forgotten() {
    let mut history = History::founded();
    let node = history.join("n2");
    let mut member = history.state.nodes.get(&node).unwrap().clone();
    member.availability_reason = "drain_timeout: nothing left for 300 s".to_owned();
    let modified = member.modified;
    history.state.nodes.insert(node, member);
    let events = history.state.audit.events.len();
    let uncordon = NodeSetAvailability::new(node, Availability::Active);
    assert_eq!(history.apply(uncordon.into()), Outcome::Done);
    let member = history.state.nodes.get(&node).unwrap();
    assert_eq!((member.availability_reason.as_str(), member.modified), ("", modified));
    assert_eq!(history.state.audit.events.len(), events);
}

fn token(id: &str, rights: Option<Rights>) -> jaco_state::token::OperatorToken {
    jaco_state::token::OperatorToken {
        id: TokenId::new(id).unwrap(),
        proof: jaco_state::token::Proof::Secret([1; 32]),
        issued_at: Timestamp(0),
        issued_by: Identity::Scheduler,
        revoked_at: None,
        expires_at: None,
        rights,
        last_used_at: None,
    }
}

/// R-CLI-5: events name the role of the token that asked, and what was issued with which role; those of tokens without one are
/// as members of versions without roles write them.
#[test]
fn events_name_roles() {
    let mut history = History::founded();
    let issue = |id: &str, rights| -> jaco_state::Command {
        OperatorTokenIssue::new(token(id, rights)).into()
    };
    history.apply(issue("old", None));
    assert_eq!(history.last_event(), "token_issue role=operator token=old");
    let shops = [deployment("blog"), deployment("shop")];
    history.apply(issue("ci", Some(Rights::Deployer(shops.into()))));
    assert_eq!(history.last_event(), "token_issue deployments=blog, shop role=deployer token=ci");
    let by = |history: &mut History, id: &str, command| {
        let by = Identity::Operator { token: TokenId::new(id).unwrap() };
        let entry = jaco_state::Entry { by, ..history.entry(None, command) };
        jaco_state::apply(&mut history.state, &entry);
        history.last_event()
    };
    let revoke = |id: &str| OperatorTokenRevoke::new(TokenId::new(id).unwrap()).into();
    assert_eq!(by(&mut history, "old", revoke("old")), "token_revoke token=old");
    let expected = "token_revoke by_role=deployer deployments=blog, shop role=deployer token=ci";
    assert_eq!(by(&mut history, "ci", revoke("ci")), expected);
    let refused = by(&mut history, "ci", revoke("none"));
    assert!(
        refused.starts_with("request_refused by_role=deployer code=token_not_found"),
        "{refused}"
    );
}

/// R-CLI-6: what is issued for a key is told from a token by its events, and has one name with the tokens.
#[test]
fn certificates_are_issued_and_revoked_as_tokens_are() {
    let mut history = History::founded();
    let certificate = |id: &str| {
        let proof = jaco_state::token::Proof::Certificate([5; 32]);
        let rights = Some(Rights::Viewer);
        jaco_state::token::OperatorToken { proof, ..token(id, rights) }
    };
    history.apply(OperatorTokenIssue::new(certificate("ann")).into());
    history.apply(OperatorTokenRevoke::new(TokenId::new("ann").unwrap()).into());
    let events = history.state.audit.events.iter().rev().take(2);
    for (_, event) in events {
        let fact = |name: &str| event.payload.get(name).map(String::as_str);
        assert_eq!((fact("token"), fact("kind")), (Some("ann"), Some("certificate")), "{event:?}");
        assert_eq!(fact("role"), Some("viewer"));
    }
    let again = history.apply(OperatorTokenIssue::new(token("ann", Some(Rights::Viewer))).into());
    assert!(matches!(again, Outcome::Rejected(_)), "a revoked name is not given again: {again:?}");
}

/// R-CLI-6: the secret is replaced and the rest stays. Rotated again while the former one counts, that one stays, because the
/// secret in between may never have arrived.
#[test]
fn secrets_of_tokens_are_rotated() {
    use jaco_state::token::{OperatorToken, Proof};
    let mut history = History::founded();
    let id = TokenId::new("ann").unwrap();
    let rotate = |secret: u8, until: Option<u64>| {
        let rotate = OperatorTokenRotate::new(id.clone(), [secret; 32]);
        rotate.former_until(until.map(Timestamp)).into()
    };
    assert_eq!(history.refused(rotate(2, None)), ErrorCode::TokenNotFound);
    let issued = token("ann", Some(Rights::Viewer));
    let Proof::Secret(first) = issued.proof else { panic!("it has a secret") };
    history.apply(OperatorTokenIssue::new(issued.clone()).into());
    let begun = history.now.0;
    let proof = |history: &History| history.state.operator_tokens.get(&id).unwrap().proof;
    let rotated = |secret: u8, former: [u8; 32], until: u64| Proof::Rotated {
        secret: [secret; 32],
        former,
        former_until: Timestamp(until),
    };

    history.apply(rotate(2, Some(begun + 1000)));
    assert_eq!(proof(&history), rotated(2, first, begun + 1000));
    history.now = Timestamp(begun + 1000);
    history.apply(rotate(3, Some(begun + 3000)));
    assert_eq!(proof(&history), rotated(3, first, begun + 3000), "the second one was lost");
    history.now = Timestamp(begun + 3001);
    history.apply(rotate(4, Some(begun + 5000)));
    assert_eq!(proof(&history), rotated(4, [3; 32], begun + 5000));
    history.apply(rotate(5, None));
    assert_eq!(proof(&history), Proof::Secret([5; 32]), "none is left beside it");
    let now = history.state.operator_tokens.get(&id).unwrap().clone();
    assert_eq!(OperatorToken { proof: issued.proof, ..now }, issued);
    assert_eq!(history.last_event(), "token_rotate role=viewer token=ann");

    history.apply(OperatorTokenRevoke::new(id.clone()).into());
    assert_eq!(history.refused(rotate(6, None)), ErrorCode::TokenRevoked);
    let key = OperatorToken { proof: Proof::Certificate([5; 32]), ..token("bob", None) };
    history.apply(OperatorTokenIssue::new(key).into());
    let bob = OperatorTokenRotate::new(TokenId::new("bob").unwrap(), [6; 32]);
    assert_eq!(history.refused(bob.into()), ErrorCode::InvalidRequest);
    let expired = OperatorToken { expires_at: Some(history.now), ..token("carl", None) };
    history.apply(OperatorTokenIssue::new(expired).into());
    history.now = Timestamp(history.now.0 + 1);
    let carl = OperatorTokenRotate::new(TokenId::new("carl").unwrap(), [6; 32]);
    assert_eq!(history.refused(carl.into()), ErrorCode::TokenExpired);
}

/// R-CLI-6: a later use is kept, whichever node tells first, and none is later than the entry that tells of it. It leaves no
/// event.
#[test]
fn the_last_use_of_a_token_is_the_latest_one() {
    let mut history = History::founded();
    history.apply(OperatorTokenIssue::new(token("ann", None)).into());
    let (events, id) = (history.state.audit.events.len(), TokenId::new("ann").unwrap());
    let mut used = |at: u64, now: u64| {
        history.now = Timestamp(now);
        let gone = TokenId::new("gone").unwrap();
        let uses = [(id.clone(), Timestamp(at)), (gone, Timestamp(at))];
        assert_eq!(history.apply(TokensUsed::new(uses.into()).into()), Outcome::Done);
        history.state.operator_tokens.get(&id).unwrap().last_used_at.unwrap().0
    };
    assert_eq!(used(2000, 2500), 2000);
    assert_eq!(used(1000, 2600), 2000, "told late");
    assert_eq!(used(9000, 3000), 3000, "by a clock that is fast");
    assert_eq!(history.state.audit.events.len(), events);
}
