//! The rotation of the authority: its phases, who may leave them and when (ADR 0121).

use jaco_state::command::{
    AuthorityAbandon, AuthorityContinue, AuthorityReport, AuthorityRotate, AuthoritySettle,
    JoinTokenIssue, NodeRemove, OpenJoinTokens,
};
use jaco_state::invariants::{Law, violations};
use jaco_state::rotation::{RotatedAuthority, RotationPhase, RotationStep};
use jaco_state::{Command, Entry, Outcome, apply};
use jaco_types::{ErrorCode, Identity, NodeId, StateIndex};

use crate::history::{History, join_token};

use RotationStep::{Dropped, Reconnected, Renewed, Trusts};

const OLD: [u8; 32] = [1; 32];

pub(crate) fn authority(number: u8) -> RotatedAuthority {
    RotatedAuthority {
        certificate: format!("pem {number}\n"),
        fingerprint: [number; 32],
        sealed_key: vec![number],
    }
}

fn begin(number: u8) -> Command {
    AuthorityRotate::new(OLD, authority(number)).into()
}

pub(crate) fn current(history: &History) -> StateIndex {
    history.state.rotation.as_ref().expect("one has begun").id
}

fn go_on(history: &History) -> Command {
    AuthorityContinue::new(current(history)).into()
}

fn settle(history: &History) -> Command {
    AuthoritySettle::new(current(history)).into()
}

fn abandon(history: &History) -> Command {
    AuthorityAbandon::new(current(history)).into()
}

/// A report of `node` in the name of `by`.
pub(crate) fn report(
    history: &mut History,
    by: NodeId,
    node: NodeId,
    step: RotationStep,
) -> Outcome {
    let command = AuthorityReport::new(current(history), node, step).into();
    let entry = Entry { by: Identity::Node { id: by }, ..history.entry(None, command) };
    apply(&mut history.state, &entry)
}

fn all_report(history: &mut History, step: RotationStep) {
    let members: Vec<_> = history.state.nodes.values().map(|node| node.id).collect();
    for node in members {
        assert_eq!(report(history, node, node, step), Outcome::Done);
    }
}

fn phase(history: &History) -> RotationPhase {
    history.state.rotation.as_ref().expect("one has begun").phase
}

fn trusted(history: &History) -> (&str, &[u8]) {
    let meta = history.state.meta.as_ref().expect("founded");
    (&meta.ca_certificate, &meta.sealed_ca_key)
}

fn three() -> History {
    let mut history = History::founded();
    for host in ["n2", "n3"] {
        history.join(host);
    }
    history
}

/// R-CLI-6: what is trusted, and what signs, in each phase; every phase is an event, and the old key is gone at the end.
#[test]
fn an_authority_is_replaced_in_phases() {
    let mut history = three();
    assert_eq!(history.apply(begin(2)), Outcome::Done);
    assert_eq!(trusted(&history), ("pempem 2\n", &[1, 2, 3][..]));
    let facts =
        format!("new={} old={} rotation={}", "02".repeat(32), "01".repeat(32), current(&history));
    assert_eq!(history.last_event(), format!("authority_rotation_begun {facts}"));
    all_report(&mut history, Trusts);
    assert_eq!(history.apply(go_on(&history)), Outcome::Done);
    assert_eq!(trusted(&history), ("pem 2\npem", &[2][..]));
    assert_eq!(history.last_event(), format!("authority_rotation_continued {facts}"));
    all_report(&mut history, Renewed);
    all_report(&mut history, Reconnected);
    assert_eq!(history.apply(settle(&history)), Outcome::Done);
    assert_eq!(trusted(&history), ("pem 2\n", &[2][..]));
    assert_eq!(history.last_event(), format!("authority_rotation_settled {facts}"));
    let rotation = history.state.rotation.as_ref().unwrap();
    assert!(rotation.old.sealed_key.is_empty());
    assert_eq!(
        rotation.holders(&history.state.nodes).len(),
        3,
        "each still has to forget the old one"
    );
    all_report(&mut history, Dropped);
    assert!(history.state.rotation.as_ref().unwrap().holders(&history.state.nodes).is_empty());
    assert_eq!(violations(&history.state), []);
}

/// R-CLI-6: no phase is left without the report of each member, whoever asks; the refusal names who is waited for.
#[test]
fn a_phase_waits_for_each_member() {
    let mut history = three();
    history.apply(begin(2));
    let members: Vec<_> = history.state.nodes.values().map(|node| node.id).collect();
    for node in &members[..2] {
        report(&mut history, *node, *node, Trusts);
    }
    let Outcome::Rejected(refused) = history.apply(go_on(&history)) else {
        panic!("n3 is missing")
    };
    assert_eq!(refused.code, ErrorCode::RotationHeld);
    assert_eq!(
        refused.message,
        "the phase trusting waits for n3: bring the node back, or remove it with jaco node rm"
    );
    assert_eq!(refused.details["nodes"], "n3");
    let holders = |history: &History| {
        let rotation = history.state.rotation.as_ref().unwrap();
        let holders = rotation.holders(&history.state.nodes);
        holders.iter().map(|node| node.hostname.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(holders(&history), ["n3"]);
    report(&mut history, members[2], members[2], Trusts);
    assert!(holders(&history).is_empty(), "it waits for an operator");
    history.apply(go_on(&history));
    for (node, step) in
        [(0, Renewed), (0, Reconnected), (1, Renewed), (1, Reconnected), (2, Renewed)]
    {
        assert_eq!(history.refused(settle(&history)), ErrorCode::RotationHeld);
        report(&mut history, members[node], members[node], step);
    }
    assert_eq!(holders(&history), ["n3"]);
    assert_eq!(history.refused(settle(&history)), ErrorCode::RotationHeld);
    history.apply(NodeRemove::new(members[2]).into());
    assert_eq!(
        history.apply(settle(&history)),
        Outcome::Done,
        "nobody waits for one that was removed"
    );
}

/// R-CLI-6: a report counts if it comes from the node that it names, and for the rotation that it names.
#[test]
fn a_report_is_the_nodes_own() {
    let mut history = three();
    history.apply(begin(2));
    let members: Vec<_> = history.state.nodes.values().map(|node| node.id).collect();
    let forged = report(&mut history, members[0], members[1], Trusts);
    let Outcome::Rejected(refused) = forged else { panic!("it is another one's") };
    assert_eq!(refused.code, ErrorCode::PermissionDenied);
    let by_scheduler: Command = AuthorityReport::new(current(&history), members[1], Trusts).into();
    assert_eq!(
        history.refused(by_scheduler),
        ErrorCode::PermissionDenied,
        "not even a local user's"
    );
    let gone = NodeId(77);
    assert!(matches!(report(&mut history, gone, gone, Trusts), Outcome::Rejected(_)));
    assert!(history.state.rotation.as_ref().unwrap().reports.is_empty());
    for early in [Renewed, Reconnected, Dropped] {
        let outcome = report(&mut history, members[0], members[0], early);
        assert!(matches!(outcome, Outcome::Rejected(_)), "{early:?} cannot be in this phase");
    }
    let first = current(&history);
    history.apply(abandon(&history));
    history.apply(begin(3));
    let command = AuthorityReport::new(first, members[0], Trusts).into();
    let entry = Entry { by: Identity::Node { id: members[0] }, ..history.entry(None, command) };
    assert_eq!(apply(&mut history.state, &entry), Outcome::Done);
    assert!(
        history.state.rotation.as_ref().unwrap().reports.is_empty(),
        "it is of another rotation"
    );
}

/// R-CLI-6: phases follow each other, each once; what is abandoned leaves nothing but its record.
#[test]
fn no_phase_is_entered_twice() {
    let mut history = three();
    assert_eq!(
        history.refused(AuthoritySettle::new(StateIndex(1)).into()),
        ErrorCode::RotationHeld
    );
    history.apply(begin(2));
    assert_eq!(history.refused(begin(3)), ErrorCode::RotationHeld);
    all_report(&mut history, Trusts);
    assert_eq!(history.refused(settle(&history)), ErrorCode::RotationHeld);
    assert_eq!(history.apply(abandon(&history)), Outcome::Done);
    assert_eq!(trusted(&history), ("pem", &[1, 2, 3][..]));
    assert!(history.state.rotation.as_ref().unwrap().new.sealed_key.is_empty());
    for again in [go_on(&history), settle(&history), abandon(&history)] {
        assert_eq!(history.refused(again), ErrorCode::RotationHeld);
    }
    let first = current(&history);
    history.apply(begin(3));
    assert_eq!(history.refused(AuthorityAbandon::new(first).into()), ErrorCode::RotationHeld);
    all_report(&mut history, Trusts);
    history.apply(go_on(&history));
    for back in [go_on(&history), abandon(&history)] {
        assert_eq!(history.refused(back), ErrorCode::RotationHeld, "the only way is forward");
    }
    all_report(&mut history, Reconnected);
    history.apply(settle(&history));
    assert_eq!(phase(&history), RotationPhase::Settled);
    assert_eq!(
        history.refused(begin(4)),
        ErrorCode::RotationHeld,
        "it is not the old one any more"
    );
    let again = AuthorityRotate::new([3; 32], authority(4)).into();
    assert_eq!(history.apply(again), Outcome::Done);
    assert_eq!(trusted(&history).0, "pem 3\npem 4\n");
}

/// R-CLI-6: a join token that could be used names the old authority, so it is used, has expired or is revoked before the
/// new one signs.
#[test]
fn join_tokens_of_the_old_authority_do_not_stay() {
    let mut history = three();
    history.apply(begin(2));
    all_report(&mut history, Trusts);
    let token = join_token("open", history.now, 2);
    history.apply(JoinTokenIssue::new(token).into());
    let Outcome::Rejected(refused) = history.apply(go_on(&history)) else { panic!("it is open") };
    assert_eq!(
        (refused.code, refused.details["join_tokens"].as_str()),
        (ErrorCode::RotationHeld, "open")
    );
    let mut later = history.clone();
    later.now = later.now.after(jaco_types::Millis::from_secs(3600));
    assert_eq!(later.apply(go_on(&later)), Outcome::Done, "it has expired");
    let revoking = AuthorityContinue::new(current(&history)).join_tokens(OpenJoinTokens::Revoke);
    assert_eq!(history.apply(revoking.into()), Outcome::Done);
    let open = history.state.join_tokens.values().filter(|token| token.revoked_at.is_none());
    assert_eq!(open.filter(|token| token.uses_left > 0).count(), 0);
}

/// R-CLI-6: who is admitted gets both authorities, and reports the rest itself.
#[test]
fn one_that_joins_in_between_counts_as_trusting() {
    let mut history = three();
    history.apply(begin(2));
    all_report(&mut history, Trusts);
    let n4 = history.join("n4");
    assert_eq!(history.apply(go_on(&history)), Outcome::Done);
    let n5 = history.join("n5");
    for step in [Renewed, Reconnected] {
        all_report(&mut history, step);
    }
    let n6 = history.join("n6");
    assert_eq!(history.refused(settle(&history)), ErrorCode::RotationHeld);
    report(&mut history, n6, n6, Reconnected);
    assert_eq!(history.apply(settle(&history)), Outcome::Done);
    let n7 = history.join("n7");
    let reports = &history.state.rotation.as_ref().unwrap().reports;
    assert_eq!([n4, n5, n7].map(|node| reports[&node]), [Reconnected, Reconnected, Dropped]);
    assert_eq!(violations(&history.state), []);
}

/// ST-19, ST-20: the checks see a phase that was left too early, and a record that is not the phase's.
#[test]
fn broken_rotations_are_seen() {
    let mut history = three();
    history.apply(begin(2));
    let mut early = history.state.clone();
    let rotation = early.rotation.as_mut().unwrap();
    rotation.phase = RotationPhase::Renewing;
    let laws: Vec<_> = violations(&early).into_iter().map(|broken| broken.law).collect();
    let left = Law::PhaseLeftByReports;
    assert_eq!(laws, [left, left, left, Law::PhaseTrusts]);
    let mut stranger = history.state.clone();
    stranger.rotation.as_mut().unwrap().reports.insert(NodeId(99), Trusts);
    assert_eq!(violations(&stranger).len(), 1);
}
