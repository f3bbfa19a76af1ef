//! What the state keeps of the past, and how much of it: outcomes of requests, join tokens, revisions.

use jaco_state::apply::deployment::KEPT_REVISIONS;
use jaco_state::command::{
    AuditNote, Change, ConsumerAttach, JoinTokenIssue, NodeSetAvailability, Observe, Previous,
    RevisionPin,
};
use jaco_state::deployment::Pin;
use jaco_state::requests::KEPT_REQUESTS;
use jaco_state::{ClusterState, Outcome, apply};
use jaco_types::{
    Availability, ConsumerName, ErrorCode, Hostname, Millis, NodeId, NodeStatus, ReplicaState,
    RequestId, Revision, StateIndex, Timestamp, TokenId,
};

use crate::history::{
    History, admit, create, deploy, deployment, digest, join_token, key, replace, replica, seen,
    service,
};

const N1: NodeId = NodeId::FIRST;

/// R-CLI-9: the outcomes of the newest requests are known, the oldest goes first, and a retry does not
/// make a request newer.
#[test]
fn outcomes_of_the_newest_requests_are_kept() {
    let mut history = History::founded();
    let note = || AuditNote::new(jaco_state::audit::AuditKind::BackupTaken, [].into()).into();
    for number in 0..KEPT_REQUESTS {
        history.apply_as(&format!("r{number}"), note());
    }
    let is_known = |history: &History, number: usize| {
        let request = RequestId::new(&format!("r{number}")).unwrap();
        history.state.requests.outcome(&request) == Some(&Outcome::Done)
    };
    assert!(is_known(&history, 0) && is_known(&history, KEPT_REQUESTS - 1));
    history.apply_as("r0", note());
    assert_eq!(history.state.requests.order.len(), KEPT_REQUESTS, "a retry is no other request");
    history.apply_as("one-more", note());
    assert!(!is_known(&history, 0) && is_known(&history, 1));
    assert_eq!(history.state.requests.order.len(), KEPT_REQUESTS);
    assert_eq!(history.state.requests.outcomes.len(), KEPT_REQUESTS);
    assert_eq!(jaco_state::invariants::violations(&history.state), vec![]);
}

/// R-CLI-9: a retry has the first answer, whatever it asks for, refusals included; only the index goes on.
#[test]
fn retries_have_the_first_answer() {
    let mut history = History::founded();
    let cordon = |id| NodeSetAvailability::new(id, Availability::Cordoned).into();
    let refused = history.apply_as("r1", cordon(NodeId(9)));
    assert!(matches!(&refused, Outcome::Rejected(it) if it.code == ErrorCode::NodeNotFound));
    let deployed = history.apply_as("r2", deploy("shop", &[service("web", "web:1")]));
    assert!(matches!(deployed, Outcome::Deployed { revision: Revision(1), .. }), "{deployed:?}");
    let before = history.state.clone();
    assert_eq!(history.apply_as("r1", cordon(N1)), refused);
    let again = history.apply_as("r2", deploy("shop", &[service("web", "web:2")]));
    assert_eq!(again, deployed);
    let ClusterState { index, .. } = before;
    assert_eq!(history.state.index, StateIndex(index.0 + 2));
    assert_eq!(history.state, ClusterState { index: history.state.index, ..before });
    let unnamed = history.apply(cordon(N1));
    assert_eq!(unnamed, Outcome::Done, "without an id each request is one of its own");
}

/// Join tokens that have expired go with the next one that is issued.
#[test]
fn expired_join_tokens_are_dropped() {
    let mut history = History::founded();
    let issue = |history: &mut History, id: &str| {
        let token = join_token(id, history.now, 2);
        assert_eq!(history.apply(JoinTokenIssue::new(token).into()), Outcome::Done);
    };
    let kept = |history: &History| {
        history.state.join_tokens.keys().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    issue(&mut history, "a");
    history.now = Timestamp(history.now.0 + 3_599_999);
    issue(&mut history, "b");
    assert_eq!(kept(&history), "a b", "a has a moment left");
    history.now = Timestamp(history.now.0 + 1);
    issue(&mut history, "c");
    assert_eq!(kept(&history), "b c");
    assert!(matches!(history.apply(admit("n2", "b")), Outcome::NodeAdmitted { .. }));
    let left =
        |id: &str| history.state.join_tokens.get(&TokenId::new(id).unwrap()).unwrap().uses_left;
    assert_eq!((left("b"), left("c")), (1, 2));
}

fn kept(history: &History) -> Vec<u64> {
    let shop = history.state.deployments.get(&deployment("shop")).unwrap();
    shop.revisions.keys().map(|revision| revision.0).collect()
}

fn apply_versions(history: &mut History, versions: std::ops::RangeInclusive<u64>) {
    for version in versions {
        history.apply(deploy("shop", &[service("web", &format!("web:{version}"))]));
    }
}

/// The newest revisions are kept, and besides them those that a replica, current, retiring or
/// terminating, still runs.
#[test]
fn revisions_that_run_are_kept() {
    let mut history = History::founded();
    let web = key("shop", "web");
    apply_versions(&mut history, 1..=2);
    let ready =
        Change::NodeStatusSet { node: N1, status: NodeStatus::Ready, reason: String::new() };
    history.batch(vec![ready, create(&web, 0, N1), create(&web, 1, N1)]);
    let name = ConsumerName::new("edge").unwrap();
    history.apply(ConsumerAttach::new(name, N1, Millis(5000)).into());
    let id = history.state.slots.get(&replica("shop-web-1")).unwrap().current_id();
    let running = vec![seen(id.clone(), N1, ReplicaState::Running)];
    history.apply(Observe::new(N1).observed(running).into());
    // Of the first revision one retires and one terminates; both slots go on at the second.
    history.batch(vec![replace(&replica("shop-web-0"), N1, Previous::Retire)]);
    history.batch(vec![replace(&replica("shop-web-1"), N1, Previous::Drop)]);
    assert_eq!(history.state.terminating.len(), 1);
    let last = KEPT_REVISIONS as u64 + 3;
    apply_versions(&mut history, 3..=last);
    let newest: Vec<u64> = (4..=last).collect();
    assert_eq!(kept(&history), [&[1, 2][..], &newest].concat());
    history.batch(vec![Change::SlotSettle { id: replica("shop-web-0") }]);
    apply_versions(&mut history, last + 1..=last + 1);
    assert_eq!(kept(&history)[..2], [1, 2], "the terminating one still runs it");
    history.batch(vec![Change::TerminatingRemove { id }]);
    apply_versions(&mut history, last + 2..=last + 2);
    let newest: Vec<u64> = (6..=last + 2).collect();
    assert_eq!(kept(&history), [&[2][..], &newest].concat());
}

/// Pinned revisions do not count among the newest, and go once they are unpinned and old.
#[test]
fn pinned_revisions_are_kept_besides() {
    let mut history = History::founded();
    apply_versions(&mut history, 1..=3);
    let pin = |history: &mut History, revision: u64, pin| {
        let pin = RevisionPin::new(deployment("shop"), Revision(revision), pin);
        assert_eq!(history.apply(pin.into()), Outcome::Done);
    };
    pin(&mut history, 2, Pin::Yes);
    assert_eq!(history.last_event(), "revision_pinned deployment=shop pinned=yes revision=2");
    let last = KEPT_REVISIONS as u64 + 3;
    apply_versions(&mut history, 4..=last);
    let newest: Vec<u64> = (4..=last).collect();
    assert_eq!(kept(&history), [&[2][..], &newest].concat());
    pin(&mut history, 2, Pin::No);
    assert_eq!(kept(&history)[0], 2, "it goes with the next revision");
    apply_versions(&mut history, last + 1..=last + 1);
    assert_eq!(kept(&history)[0], 5);
}

/// Digests go with their revision, and are taken over by name where the image is the same.
#[test]
fn digests_belong_to_their_revision() {
    let mut history = History::founded();
    apply_versions(&mut history, 1..=1);
    let resolve = Change::ImageResolve {
        service: key("shop", "web"),
        revision: Revision(1),
        digest: digest(3),
    };
    assert_eq!(history.batch(vec![resolve]), Outcome::Done);
    apply_versions(&mut history, 2..=2);
    let known = |revision| history.state.image_digest(&key("shop", "web"), Revision(revision));
    assert_eq!((known(1), known(2)), (Some(&digest(3)), None));
}

/// A copy for decisions has all but the audit log and the outcomes; the retention stays with it.
#[test]
fn copies_for_decisions_lack_only_the_logs() {
    let mut history = History::founded();
    history.apply_as("r1", deploy("shop", &[service("web", "web:1")]));
    history.apply(jaco_state::command::AuditRetention::new(Millis(7_200_000)).into());
    let (state, copy) = (&history.state, history.state.for_decisions());
    assert!(!state.audit.events.is_empty() && !state.requests.outcomes.is_empty());
    assert!(copy.audit.events.is_empty() && copy.requests.outcomes.is_empty());
    assert_eq!(copy.audit.retention, state.audit.retention);
    let audit = state.audit.clone();
    let restored = ClusterState { audit, requests: state.requests.clone(), ..copy };
    assert_eq!(&restored, state);
}

/// Two nodes that apply the same entry hold equal states, whatever was read of them before.
#[test]
fn equal_states_stay_equal() {
    let mut one = History::founded();
    one.join("n2");
    let mut other = one.clone();
    for command in [
        deploy("shop", &[service("web", "web:1")]),
        NodeSetAvailability::new(N1, Availability::Draining).into(),
        deploy("shop", &[]),
    ] {
        let entry = one.entry(Some(&format!("r{}", one.state.index)), command);
        assert_eq!(apply(&mut one.state, &entry), apply(&mut other.state, &entry));
        let copy = other.state.for_decisions();
        assert_eq!((&one.state, copy.index), (&other.state, entry.index));
    }
    assert_eq!(one.state.node_by_hostname(&Hostname::new("n2").unwrap()).unwrap().id, NodeId(4));
    assert_eq!(one.state.node_by_hostname(&Hostname::new("n9").unwrap()), None);
}
