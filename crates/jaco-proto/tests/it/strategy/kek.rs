//! The rotation of the key-encryption key.

use jaco_state::command::{KekAbandon, KekAdvance, KekReport, KekReseal, KekRotate, Resealed};
use jaco_state::envelope::Place;
use jaco_state::kek::{KekPhase, KekRotation, KekStep, Sealing};
use jaco_types::KekId;

use super::*;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        Just(Place::NamingKey),
        Just(Place::AuthorityKey),
        Just(Place::AcmeAccount),
        content_id().prop_map(Place::Content),
        registry_name().prop_map(Place::Registry),
        certificate_name().prop_map(Place::Certificate),
        route_domain().prop_map(Place::Issued),
        notify_target_name().prop_map(Place::NotifyTarget),
        backup_schedule_name().prop_map(Place::BackupSchedule),
    ]
}

pub(crate) fn kek_command() -> impl Strategy<Value = Command> {
    let envelope = (place(), any::<[u8; 32]>(), vec(any::<u8>(), 0..40));
    let envelope = envelope.prop_map(|(place, replaces, envelope)| Resealed {
        place,
        replaces,
        envelope: envelope.into(),
    });
    prop_oneof![
        (kek_id(), kek_id(), node_id(), option::of(sealed_key()))
            .prop_map(|(old, new, node, key)| KekRotate::new(old, new, node, key).into()),
        (index(), node_id(), select(KekStep::ALL))
            .prop_map(|(id, node, step)| KekReport::new(id, node, step).into()),
        (index(), select(KekPhase::ALL)).prop_map(|(id, phase)| KekAdvance::new(id, phase).into()),
        (index(), vec(envelope, 0..4)).prop_map(|(id, all)| KekReseal::new(id, all).into()),
        index().prop_map(|id| KekAbandon::new(id).into()),
    ]
}

fn kek_id() -> impl Strategy<Value = KekId> {
    any::<[u8; 8]>().prop_map(KekId)
}

pub(crate) fn sealing() -> impl Strategy<Value = Sealing> {
    let reports = btree_map(node_id(), select(KekStep::ALL), 0..4);
    let when = (index(), moment(), index(), moment());
    let rotation = (when, select(KekPhase::ALL), kek_id(), kek_id(), reports).prop_map(
        |((id, begun_at, entered, since), phase, old, new, reports)| KekRotation {
            id,
            begun_at,
            phase,
            entered,
            since,
            old,
            new,
            reports,
        },
    );
    (option::of(sealed_key()), option::of(rotation))
        .prop_map(|(naming_key, rotation)| Sealing { naming_key, rotation })
}
