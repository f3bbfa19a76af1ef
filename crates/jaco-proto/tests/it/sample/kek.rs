//! The rotation of the key-encryption key.

use jaco_state::command::{KekAbandon, KekAdvance, KekReport, KekReseal, KekRotate, Resealed};
use jaco_state::envelope::Place;
use jaco_state::kek::{KekPhase, KekRotation, KekStep, Sealing};
use jaco_types::{KekId, NotifyTargetName};

use super::*;

/// One of each command.
pub(crate) fn kek_commands() -> Vec<Command> {
    let (old, new) = (KekId([4; 8]), KekId([5; 8]));
    vec![
        KekRotate::new(old, new, NodeId(7), Some(SealedKey([6, 7].into()))).into(),
        KekReport::new(StateIndex(40), NodeId(7), KekStep::Holds).into(),
        KekAdvance::new(StateIndex(40), KekPhase::HandingOut).into(),
        KekReseal::new(StateIndex(40), vec![resealed(Place::NamingKey)]).into(),
        KekAbandon::new(StateIndex(40)).into(),
    ]
}

/// A new envelope in this place.
fn resealed(place: Place) -> Resealed {
    Resealed { place, replaces: [0x66; 32], envelope: [8, 9].into() }
}

/// Commands of a rotation of the key-encryption key with the other values of their enums, and all places.
pub(crate) fn commands_of_kek_rotations() -> Vec<Command> {
    let advance = |phase| KekAdvance::new(StateIndex(40), phase).into();
    let places = [
        Place::AuthorityKey,
        Place::Content(ContentId([0x77; 32])),
        Place::Registry(RegistryName::new("ghcr.io").unwrap()),
        Place::Certificate(CertificateName::new("shop").unwrap()),
        Place::AcmeAccount,
        Place::Issued("shop.example.com".parse().unwrap()),
    ];
    vec![
        KekRotate::new(KekId([4; 8]), KekId([5; 8]), NodeId(7), None).into(),
        KekReport::new(StateIndex(40), NodeId(7), KekStep::Dropped).into(),
        advance(KekPhase::Resealing),
        advance(KekPhase::Settled),
        advance(KekPhase::Abandoned),
        KekReseal::new(StateIndex(40), places.map(resealed).into()).into(),
    ]
}

/// A reseal of the one place that came later.
pub(crate) fn reseal_of_a_notify_target() -> Command {
    let place = Place::NotifyTarget(NotifyTargetName::new("on-call").unwrap());
    KekReseal::new(StateIndex(40), vec![resealed(place)]).into()
}

/// A state with a rotation of the key-encryption key in this phase, and nothing else.
pub(crate) fn state_of_kek_rotation(phase: KekPhase) -> ClusterState {
    let reports = KekStep::ALL.iter().map(|step| (NodeId(7 + *step as u64), *step));
    let rotation = KekRotation {
        id: StateIndex(40),
        begun_at: Timestamp(1_700_000_000_000),
        phase,
        entered: StateIndex(41),
        since: Timestamp(1_700_000_000_500),
        old: KekId([4; 8]),
        new: KekId([5; 8]),
        reports: reports.collect(),
    };
    let naming_key = Some(SealedKey([6, 7].into()));
    let sealing = Sealing { naming_key, rotation: Some(rotation) };
    ClusterState { index: StateIndex(42), sealing, ..ClusterState::default() }
}
