//! The rotation of the key-encryption key: its phases, who may leave them and when, and what is sealed with which key
//! (ADR 0127).

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_state::acme::{AcmeAccount, IssuedCertificate};
use jaco_state::command::{
    AuthorityRotate, KekAbandon, KekAdvance, KekReport, KekReseal, KekRotate, NodeRemove,
    NotifyStore, Resealed,
};
use jaco_state::contents::{Content, Form, Hold, PieceBytes};
use jaco_state::edge::{Certificate, SealedKey};
use jaco_state::envelope::Place;
use jaco_state::invariants::{Law, violations};
use jaco_state::kek::{KekPhase, KekRotation, KekStep};
use jaco_state::notify::SealedEndpoint;
use jaco_state::view::{envelopes, envelopes_of, needed_keys, sealing_key};
use jaco_state::{ClusterState, Command, Entry, Outcome, apply};
use jaco_types::{ContentId, ErrorCode, Identity, KekId, NodeId, StateIndex};
use sha2::{Digest as _, Sha256};

use crate::history::History;
use crate::{backups, notifications, orders, registries, rotation, routes};

use KekPhase::{Abandoned, HandingOut, Resealing, Settled};
use KekStep::{Dropped, Holds};

/// The key with this number.
pub(crate) fn id(number: u8) -> KekId {
    KekId([number; 8])
}

/// An envelope of the key with this number.
pub(crate) fn envelope(key: u8, content: u8) -> Vec<u8> {
    let mut bytes = vec![1, 1];
    bytes.extend([key; 8]);
    bytes.extend([content; 30]);
    bytes
}

/// A cluster of one node whose authority is sealed with the key 1.
pub(crate) fn founded() -> History {
    let mut history = History::founded();
    history.state.meta.as_mut().unwrap().sealed_ca_key = envelope(1, 9);
    history
}

fn three() -> History {
    let mut history = founded();
    for host in ["n2", "n3"] {
        history.join(host);
    }
    history
}

pub(crate) fn naming(key: u8) -> Option<SealedKey> {
    Some(SealedKey(envelope(key, 8).into()))
}

fn begin(old: u8, new: u8, naming_key: Option<SealedKey>) -> Command {
    KekRotate::new(id(old), id(new), NodeId::FIRST, naming_key).into()
}

fn rotation_of(history: &History) -> &KekRotation {
    history.state.sealing.rotation.as_ref().expect("one has begun")
}

pub(crate) fn current(history: &History) -> StateIndex {
    rotation_of(history).id
}

fn phase(history: &History) -> KekPhase {
    rotation_of(history).phase
}

fn leave(history: &History, phase: KekPhase) -> Command {
    KekAdvance::new(current(history), phase).into()
}

fn abandon(history: &History) -> Command {
    KekAbandon::new(current(history)).into()
}

/// A report of `node` in the name of `by`.
pub(crate) fn report(history: &mut History, by: NodeId, node: NodeId, step: KekStep) -> Outcome {
    let command = KekReport::new(current(history), node, step).into();
    let entry = Entry { by: Identity::Node { id: by }, ..history.entry(None, command) };
    apply(&mut history.state, &entry)
}

fn members(history: &History) -> Vec<NodeId> {
    history.state.nodes.values().map(|node| node.id).collect()
}

fn all_report(history: &mut History, step: KekStep) {
    for node in members(history) {
        assert_eq!(report(history, node, node, step), Outcome::Done);
    }
}

/// The new envelopes for all that the old key has sealed.
pub(crate) fn resealed(state: &ClusterState) -> Vec<Resealed> {
    let Some(rotation) = &state.sealing.rotation else { return Vec::new() };
    let outdated = envelopes_of(state, rotation.old).map(|(place, old)| {
        let mut new = old.to_vec();
        new[2..10].copy_from_slice(&rotation.new.0);
        Resealed { place, replaces: Sha256::digest(old).into(), envelope: new.into() }
    });
    outdated.collect()
}

fn reseal(history: &mut History) {
    let command = KekReseal::new(current(history), resealed(&history.state)).into();
    assert_eq!(history.apply(command), Outcome::Done);
}

/// Each command about the rotation, in an order in which each is done, for [`founded`].
pub(crate) fn every_command() -> Vec<Command> {
    let (first, second, node) = (StateIndex(3), StateIndex(6), NodeId::FIRST);
    let mut sealed = founded();
    assert_eq!(sealed.apply(begin(1, 3, naming(1))), Outcome::Done);
    let mut sealed = sealed.state;
    sealed.sealing.rotation.as_mut().unwrap().phase = Resealing;
    vec![
        begin(1, 2, naming(1)),
        KekAbandon::new(first).into(),
        KekReport::new(first, node, Dropped).into(),
        begin(1, 3, None),
        KekReport::new(second, node, Holds).into(),
        KekAdvance::new(second, HandingOut).into(),
        KekReseal::new(second, resealed(&sealed)).into(),
        KekAdvance::new(second, Resealing).into(),
    ]
}

/// R-CLI-6: what seals, what opens and who is waited for in each phase; every phase is an event.
#[test]
fn a_key_is_replaced_in_phases() {
    let mut history = three();
    assert_eq!(sealing_key(&history.state), Some(id(1)));
    assert_eq!(history.apply(begin(1, 2, naming(1))), Outcome::Done);
    let facts = format!("new={} old={} rotation={}", id(2), id(1), current(&history));
    assert_eq!(history.last_event(), format!("kek_rotation_begun {facts}"));
    let keys =
        |history: &History| (sealing_key(&history.state).unwrap(), needed_keys(&history.state));
    assert_eq!(keys(&history), (id(1), vec![id(1)]));
    let holders = |history: &History| rotation_of(history).holders(&history.state.nodes).len();
    assert_eq!(holders(&history), 2, "who made the key has it");
    all_report(&mut history, Holds);
    assert_eq!(history.apply(leave(&history, HandingOut)), Outcome::Done);
    assert_eq!(history.last_event(), format!("kek_rotation_resealing {facts}"));
    assert_eq!(keys(&history), (id(2), vec![id(1), id(2)]));
    assert_eq!(history.refused(leave(&history, Resealing)), ErrorCode::RotationHeld);
    reseal(&mut history);
    assert_eq!(history.apply(leave(&history, Resealing)), Outcome::Done);
    assert_eq!(history.last_event(), format!("kek_rotation_settled {facts}"));
    assert_eq!(keys(&history), (id(2), vec![id(2)]));
    assert_eq!(holders(&history), 3, "each still has to drop the old one");
    assert_eq!(history.refused(begin(2, 3, None)), ErrorCode::RotationHeld);
    all_report(&mut history, Dropped);
    assert_eq!(holders(&history), 0);
    assert_eq!(violations(&history.state), []);
    let name = history.state.sealing.naming_key.clone();
    assert_eq!(history.apply(begin(2, 3, None)), Outcome::Done);
    assert_eq!(history.state.sealing.naming_key, name, "it survives");
}

/// R-CLI-6: no phase is left without the report of each member, whoever asks; the refusal names who is waited for.
#[test]
fn a_phase_waits_for_each_member() {
    let mut history = three();
    history.apply(begin(1, 2, naming(1)));
    let all = members(&history);
    report(&mut history, all[1], all[1], Holds);
    let Outcome::Rejected(refused) = history.apply(leave(&history, HandingOut)) else {
        panic!("n3 is missing")
    };
    assert_eq!(
        refused.message,
        "n3 does not have the new key yet: bring the node back, or remove it with jaco node rm"
    );
    assert_eq!((refused.code, &*refused.details["nodes"]), (ErrorCode::RotationHeld, "n3"));
    history.apply(NodeRemove::new(all[2]).into());
    assert_eq!(history.apply(leave(&history, HandingOut)), Outcome::Done, "it was removed");
    let n4 = history.join("n4");
    reseal(&mut history);
    let Outcome::Rejected(refused) = history.apply(leave(&history, Resealing)) else {
        panic!("n4 may have lost the answer with the keys")
    };
    assert_eq!(refused.details["nodes"], "n4");
    report(&mut history, n4, n4, Holds);
    assert_eq!(history.apply(leave(&history, Resealing)), Outcome::Done);
    let n5 = history.join("n5");
    assert_eq!(rotation_of(&history).reports[&n5], Dropped, "it gets the new key only");
    assert_eq!(violations(&history.state), []);
}

/// R-CLI-6: a report counts if it comes from the node that it names, for the rotation and the phase that it names.
#[test]
fn a_report_is_the_nodes_own() {
    let mut history = three();
    history.apply(begin(1, 2, naming(1)));
    let all = members(&history);
    let code = |outcome| match outcome {
        Outcome::Rejected(rejection) => rejection.code,
        other => panic!("{other:?}"),
    };
    let forged = report(&mut history, all[0], all[1], Holds);
    assert_eq!(code(forged), ErrorCode::PermissionDenied);
    let by_user: Command = KekReport::new(current(&history), all[1], Holds).into();
    assert_eq!(history.refused(by_user), ErrorCode::PermissionDenied);
    let gone = NodeId(77);
    assert_eq!(code(report(&mut history, gone, gone, Holds)), ErrorCode::NodeNotFound);
    let early = report(&mut history, all[1], all[1], Dropped);
    assert_eq!(code(early), ErrorCode::RotationHeld);
    let first = current(&history);
    assert_eq!(rotation_of(&history).reports, BTreeMap::from([(all[0], Holds)]));
    history.apply(abandon(&history));
    assert_eq!(report(&mut history, all[1], all[1], Holds), Outcome::Done, "it is late");
    all_report(&mut history, Dropped);
    history.apply(begin(1, 3, None));
    let command = KekReport::new(first, all[1], Holds).into();
    let entry = Entry { by: Identity::Node { id: all[1] }, ..history.entry(None, command) };
    assert_eq!(apply(&mut history.state, &entry), Outcome::Done);
    assert_eq!(rotation_of(&history).reports.len(), 1, "it is of another rotation");
}

/// R-CLI-6: phases follow each other, each once; from *resealing* it only goes on.
#[test]
fn no_phase_is_entered_twice() {
    let mut history = three();
    let early: Command = KekAdvance::new(StateIndex(1), HandingOut).into();
    assert_eq!(history.refused(early), ErrorCode::RotationHeld);
    assert_eq!(history.refused(begin(1, 2, None)), ErrorCode::RotationHeld, "no naming key");
    assert_eq!(history.refused(begin(3, 2, naming(1))), ErrorCode::RotationHeld);
    assert_eq!(history.refused(begin(1, 1, naming(1))), ErrorCode::RotationHeld);
    history.apply(begin(1, 2, naming(1)));
    assert_eq!(history.refused(begin(1, 3, None)), ErrorCode::RotationHeld);
    all_report(&mut history, Holds);
    assert_eq!(history.refused(leave(&history, Resealing)), ErrorCode::RotationHeld);
    history.apply(leave(&history, HandingOut));
    for back in [leave(&history, HandingOut), abandon(&history)] {
        assert_eq!(history.refused(back), ErrorCode::RotationHeld, "the only way is forward");
    }
    reseal(&mut history);
    history.apply(leave(&history, Resealing));
    assert_eq!(phase(&history), Settled);
    for again in ALL_PHASES {
        assert_eq!(history.refused(leave(&history, *again)), ErrorCode::RotationHeld);
    }
    all_report(&mut history, Dropped);
    history.apply(begin(2, 3, None));
    history.apply(abandon(&history));
    assert_eq!((phase(&history), sealing_key(&history.state)), (Abandoned, Some(id(2))));
}

const ALL_PHASES: &[KekPhase] = KekPhase::ALL;

/// A state with an envelope of the key 1 in every place that there is.
pub(crate) fn everywhere() -> History {
    let mut history = three();
    let at = history.now;
    let mut contents = 0..;
    let mut sealed = || envelope(1, contents.next().unwrap());
    let state = &mut history.state;
    state.edges.begun = Some(state.index);
    let piece = Content {
        bytes: PieceBytes(sealed().into()),
        form: Form::Sealed,
        hold: Hold::Staged { since: at },
    };
    let plain = Content { bytes: PieceBytes([5; 40].into()), form: Form::Plain, ..piece.clone() };
    state.contents.insert(ContentId([1; 32]), piece);
    state.contents.insert(ContentId([2; 32]), plain);
    let own = routes::certificate("own");
    let certificate = Certificate {
        chain: own.chain,
        key: SealedKey(sealed().into()),
        names: own.names,
        not_before: own.not_before,
        not_after: own.not_after,
        fingerprint: own.fingerprint,
        stored_at: at,
        by: Identity::Scheduler,
    };
    let issued = IssuedCertificate {
        directory: "d".into(),
        chain: Arc::clone(&certificate.chain),
        key: SealedKey(sealed().into()),
        not_before: at,
        not_after: at,
        fingerprint: [1; 32],
        issued_at: at,
        window: None,
    };
    state.edges.certificates.insert(own.name, certificate);
    state.edges.acme.account = Some(AcmeAccount {
        directory: "d".into(),
        url: "u".into(),
        key: SealedKey(sealed().into()),
    });
    state.edges.acme.issued.insert("a.example".parse().unwrap(), issued);
    let (password, endpoint) = (sealed(), sealed());
    let mut new = rotation::authority(2);
    new.sealed_key = sealed();
    assert_eq!(history.apply(registries::store("ghcr.io", &password)), Outcome::Done);
    let endpoint = SealedEndpoint(endpoint.into());
    let target = NotifyStore { endpoint, ..notifications::store("ops") };
    assert_eq!(history.apply(target.into()), Outcome::Done);
    let schedule = backups::store_in_bucket("nightly", &sealed());
    assert_eq!(history.apply(schedule.into()), Outcome::Done);
    assert_eq!(history.apply(AuthorityRotate::new([1; 32], new).into()), Outcome::Done);
    history
}

/// R-IN-5: every place where there is an envelope is found and resealed, whatever is there beside it stays, and the
/// rotation of the authority goes on with its keys.
#[test]
fn every_envelope_is_resealed() {
    let mut history = everywhere();
    history.apply(begin(1, 2, naming(1)));
    let places: Vec<Place> = envelopes(&history.state).map(|(place, _)| place).collect();
    let is_there = |place: &dyn Fn(&Place) -> bool| places.iter().any(place);
    // A place that is new does not compile before it is in the state above.
    for place in &places {
        assert!(
            match place {
                Place::NamingKey => is_there(&|it| *it == Place::NamingKey),
                Place::AuthorityKey => places.iter().filter(|it| *it == place).count() == 3,
                Place::Content(id) => *id == ContentId([1; 32]),
                Place::Registry(_)
                | Place::Certificate(_)
                | Place::AcmeAccount
                | Place::Issued(_)
                | Place::NotifyTarget(_)
                | Place::BackupSchedule(_) => true,
            },
            "{place}"
        );
    }
    assert_eq!(places.len(), 11, "{places:?}");
    let before = history.state.clone();
    all_report(&mut history, Holds);
    history.apply(leave(&history, HandingOut));
    let all = resealed(&history.state);
    for one in all {
        assert_eq!(history.refused(leave(&history, Resealing)), ErrorCode::RotationHeld);
        assert_eq!(violations(&history.state), []);
        let command = KekReseal::new(current(&history), vec![one]).into();
        assert_eq!(history.apply(command), Outcome::Done);
    }
    assert_eq!(history.apply(leave(&history, Resealing)), Outcome::Done);
    assert_eq!(violations(&history.state), []);
    let state = &history.state;
    assert!(envelopes(state).all(|(_, it)| KekId::of_envelope(it) == Some(id(2))));
    let body = |state: &ClusterState| -> Vec<_> {
        envelopes(state).map(|(place, it)| (place, it[10..].to_vec())).collect()
    };
    assert_eq!(body(state), body(&before), "each has its own content");
    let plain = ContentId([2; 32]);
    assert_eq!(state.contents.get(&plain), before.contents.get(&plain));
}

/// R-IN-5: an envelope that changed since it was read is not overwritten, nor one that was removed brought back; only the
/// new key seals, and only in its phase.
#[test]
fn what_changed_meanwhile_stays() {
    let mut history = three();
    history.apply(registries::store("ghcr.io", &envelope(1, 1)));
    history.apply(registries::store("quay.io", &envelope(1, 2)));
    history.apply(begin(1, 2, naming(1)));
    let early = KekReseal::new(current(&history), Vec::new()).into();
    assert_eq!(history.refused(early), ErrorCode::RotationHeld);
    all_report(&mut history, Holds);
    history.apply(leave(&history, HandingOut));
    let stale = resealed(&history.state);
    history.apply(registries::store("ghcr.io", &envelope(2, 77)));
    history.apply(registries::remove("quay.io"));
    let mut wrong = stale.clone();
    wrong[0].envelope = envelope(1, 1).into();
    let wrong = KekReseal::new(current(&history), wrong).into();
    assert_eq!(history.refused(wrong), ErrorCode::RotationHeld);
    history.apply(KekReseal::new(current(&history), stale).into());
    let passwords: Vec<_> =
        history.state.registries.values().map(|login| login.password.0.to_vec()).collect();
    assert_eq!(passwords, [envelope(2, 77)]);
    assert_eq!(history.apply(leave(&history, Resealing)), Outcome::Done);
}

/// ST-22: an envelope of a key that the phase does not open is refused, whoever brings it, and leaves nothing.
#[test]
fn no_envelope_of_another_key_comes_in() {
    let mut history = everywhere();
    history.apply(begin(1, 2, naming(1)));
    let bring = |key: u8| -> Vec<Command> {
        let mut certificate = routes::certificate("other");
        certificate.key = SealedKey(envelope(key, 50).into());
        let mut account = orders::account(1);
        if let Command::AcmeNote(jaco_state::command::AcmeNote::Account(account)) = &mut account {
            account.key = SealedKey(envelope(key, 51).into());
        }
        vec![
            registries::store("quay.io", &envelope(key, 52)),
            certificate.into(),
            account,
            jaco_state::command::ContentPut::new(vec![piece(key)]).into(),
        ]
    };
    let is_refused = |history: &mut History, key: u8| {
        let before = history.state.clone();
        for command in bring(key) {
            let Outcome::Rejected(refused) = history.apply(command.clone()) else {
                panic!("{command:?}")
            };
            assert!(refused.message.contains("try it again"), "{}", refused.message);
            assert_eq!(history.state.registries, before.registries);
            assert_eq!(history.state.contents, before.contents);
        }
    };
    is_refused(&mut history, 2);
    is_refused(&mut history, 3);
    assert_eq!(history.apply(registries::store("quay.io", &envelope(1, 1))), Outcome::Done);
    all_report(&mut history, Holds);
    history.apply(leave(&history, HandingOut));
    is_refused(&mut history, 3);
    for key in [1, 2] {
        assert_eq!(history.apply(registries::store("quay.io", &envelope(key, 1))), Outcome::Done);
    }
    reseal(&mut history);
    history.apply(leave(&history, Resealing));
    is_refused(&mut history, 1);
    assert_eq!(violations(&history.state), []);
}

fn piece(key: u8) -> jaco_state::contents::Piece {
    let bytes = PieceBytes(envelope(key, 60).into());
    jaco_state::contents::Piece { id: ContentId([9; 32]), form: Form::Sealed, bytes }
}

/// R-CLI-6: a rotation does not begin where something could not be sealed anew.
#[test]
fn what_nobody_can_open_is_named_first() {
    let mut history = three();
    history.apply(registries::store("ghcr.io", b"sealed"));
    let Outcome::Rejected(refused) = history.apply(begin(1, 2, naming(1))) else {
        panic!("a password is no envelope")
    };
    assert!(refused.message.starts_with("the password at ghcr.io is sealed with another key"));
    history.apply(registries::remove("ghcr.io"));
    let stranger = KekRotate::new(id(1), id(2), NodeId(77), naming(1)).into();
    assert_eq!(history.refused(stranger), ErrorCode::NodeNotFound);
    assert_eq!(history.apply(begin(1, 2, naming(1))), Outcome::Done);
}

/// ST-21, ST-22: the checks see a phase that was left too early, a stranger's report, and an envelope of another key.
#[test]
fn broken_rotations_are_seen() {
    let mut history = three();
    history.apply(begin(1, 2, naming(1)));
    let broken = |change: &dyn Fn(&mut ClusterState)| {
        let mut state = history.state.clone();
        change(&mut state);
        violations(&state).into_iter().map(|broken| broken.law).collect::<Vec<_>>()
    };
    let early = |state: &mut ClusterState| {
        let index = state.index;
        let rotation = state.sealing.rotation.as_mut().unwrap();
        (rotation.phase, rotation.entered) = (Resealing, index);
    };
    assert_eq!(broken(&early), [Law::KekPhaseLeftByReports; 2]);
    let stranger = |state: &mut ClusterState| {
        state.sealing.rotation.as_mut().unwrap().reports.insert(NodeId(99), Holds);
    };
    assert_eq!(broken(&stranger), [Law::KekPhaseLeftByReports]);
    let other = |state: &mut ClusterState| {
        state.meta.as_mut().unwrap().sealed_ca_key = envelope(2, 1);
    };
    assert_eq!(broken(&other), [Law::EnvelopesOpen]);
}
