//! Bytes are forever: what a release wrote is read by all later ones as what it meant, and written
//! by them as it was. The bytes themselves are in `tests/frozen`.

#[path = "../frozen/v1_log_entry.rs"]
pub(crate) mod v1_log_entry;
#[path = "../frozen/v1_outcome.rs"]
pub(crate) mod v1_outcome;
#[path = "../frozen/v1_snapshot.rs"]
pub(crate) mod v1_snapshot;

use std::fmt::Debug;

use bytes::Bytes;
use jaco_proto::storage::{
    CodecError, decode_author, decode_outcome, decode_payload, encode_author, encode_outcome,
    encode_payload, read_snapshot,
};
use jaco_state::command::{AuditRetention, OperatorTokenIssue};
use jaco_state::kek::KekPhase;
use jaco_state::rotation::RotationPhase;
use jaco_types::Millis;
use proptest::prelude::*;

use crate::round_trip::snapshot;
use crate::{sample, strategy};

/// Checks both directions, in the order of the frozen list.
fn check<T: PartialEq + Debug>(
    samples: &[T],
    frozen: &[(&str, &str)],
    encode: impl Fn(&T) -> Bytes,
    decode: impl Fn(&[u8]) -> Result<T, CodecError>,
) {
    let hex: Vec<String> = samples.iter().map(|sample| hex::encode(encode(sample))).collect();
    let expected: Vec<&str> = frozen.iter().map(|(_, hex)| *hex).collect();
    assert_eq!(hex, expected, "what is written has changed");
    for (sample, (name, hex)) in samples.iter().zip(frozen) {
        let read = decode(&hex::decode(hex).unwrap()).unwrap();
        assert_eq!(read, *sample, "what {name} is read as has changed");
    }
}

#[test]
fn log_entries_are_as_they_were() {
    let samples: Vec<_> = sample::commands().into_iter().map(sample::payload).collect();
    let names: Vec<_> =
        samples.iter().map(|payload| sample::command_name(&payload.command)).collect();
    let frozen: Vec<_> = v1_log_entry::LOG_ENTRIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, frozen);
    check(&samples, v1_log_entry::LOG_ENTRIES, encode_payload, decode_payload);
    let samples: Vec<_> =
        sample::commands_of_other_values().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::OTHER_VALUES, encode_payload, decode_payload);
    let samples: Vec<_> = sample::commands_of_networks().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::NETWORKS, encode_payload, decode_payload);
    let samples: Vec<_> =
        sample::commands_of_resolvers().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::RESOLVERS, encode_payload, decode_payload);
    let samples: Vec<_> = sample::reports_of_routers().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::ROUTERS, encode_payload, decode_payload);
    let samples: Vec<_> = sample::reports_of_edges().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::EDGES, encode_payload, decode_payload);
    let samples: Vec<_> = sample::commands_of_routes().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::ROUTES, encode_payload, decode_payload);
    let samples: Vec<_> = sample::commands_of_ports().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::PORTS, encode_payload, decode_payload);
    let samples: Vec<_> = sample::notes_of_orders().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::ORDERS, encode_payload, decode_payload);
    let samples: Vec<_> = sample::commands_of_roles().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::ROLES, encode_payload, decode_payload);
    let samples: Vec<_> = sample::commands_with_bounds().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::BOUNDS, encode_payload, decode_payload);
    let samples: Vec<_> =
        sample::commands_with_volume_classes().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::VOLUME_CLASSES, encode_payload, decode_payload);
    let samples = [sample::payload(sample::command_with_trace())];
    check(&samples, v1_log_entry::TRACES, encode_payload, decode_payload);
    let issue = OperatorTokenIssue::new(sample::operator_certificate());
    let samples = [sample::payload(issue.into())];
    check(&samples, v1_log_entry::CERTIFICATES, encode_payload, decode_payload);
    let samples = sample::commands_of_token_rotations().into_iter().map(sample::payload);
    let samples: Vec<_> = samples.collect();
    check(&samples, v1_log_entry::TOKEN_ROTATIONS, encode_payload, decode_payload);
    let retention = AuditRetention::new(Millis(7_776_000_000)).doubting_jumps();
    let samples = [sample::payload(retention.into())];
    check(&samples, v1_log_entry::CLOCKS, encode_payload, decode_payload);
    let named = sample::named_content_for_users();
    let samples = [sample::payload(named.into())];
    check(&samples, v1_log_entry::USERS, encode_payload, decode_payload);
    let samples = sample::named_contents_on_terms().into_iter().map(Into::into);
    let samples: Vec<_> = samples.map(sample::payload).collect();
    check(&samples, v1_log_entry::TERMS, encode_payload, decode_payload);
    let samples = sample::commands_of_rotations().into_iter().map(sample::payload);
    let samples: Vec<_> = samples.collect();
    check(&samples, v1_log_entry::ROTATIONS, encode_payload, decode_payload);
    let samples = sample::commands_of_kek_rotations().into_iter().map(sample::payload);
    let samples: Vec<_> = samples.collect();
    check(&samples, v1_log_entry::KEK_ROTATIONS, encode_payload, decode_payload);
    let samples: Vec<_> =
        sample::commands_of_schedules().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::SCHEDULES, encode_payload, decode_payload);
    let samples: Vec<_> = sample::commands_of_images().into_iter().map(sample::payload).collect();
    check(&samples, v1_log_entry::IMAGES, encode_payload, decode_payload);
    let samples = sample::commands_of_notifications().into_iter().map(sample::payload);
    let samples: Vec<_> = samples.collect();
    check(&samples, v1_log_entry::NOTIFICATIONS, encode_payload, decode_payload);
    let samples = sample::commands_of_backups().into_iter().map(sample::payload);
    let samples: Vec<_> = samples.collect();
    check(&samples, v1_log_entry::BACKUPS, encode_payload, decode_payload);
    let samples = sample::payloads_with_origin();
    check(&samples, v1_log_entry::ORIGINS, encode_payload, decode_payload);
}

#[test]
fn outcomes_and_identities_are_as_they_were() {
    check(&sample::outcomes(), v1_outcome::OUTCOMES, encode_outcome, decode_outcome);
    check(&sample::authors(), v1_outcome::IDENTITIES, encode_author, decode_author);
    let samples = sample::authors_with_origin();
    check(&samples, v1_outcome::AUTHORS, encode_author, decode_author);
}

/// The frozen rows, one after another, are a snapshot.
#[test]
fn snapshots_are_as_they_were() {
    let frozen: String = v1_snapshot::FRAMES.iter().map(|(_, hex)| *hex).collect();
    assert_eq!(hex::encode(snapshot(&sample::state())), frozen, "what is written has changed");
    let read = read_snapshot(&mut hex::decode(frozen).unwrap().as_slice()).unwrap();
    assert_eq!(read, sample::state(), "what it is read as has changed");
    for (frames, sample) in [
        (v1_snapshot::CONTENT_FRAMES, sample::state_of_contents()),
        (v1_snapshot::NAME_FRAMES, sample::state_of_names()),
        (v1_snapshot::REGISTRY_FRAMES, sample::state_of_registries()),
        (v1_snapshot::CHAIN_FRAMES, sample::state_of_chain()),
        (v1_snapshot::RETENTION_FRAMES, sample::state_of_retention()),
        (v1_snapshot::ENDING_FRAMES, sample::state_of_terminations()),
        (v1_snapshot::PREPARING_FRAMES, sample::state_of_prepull()),
        (v1_snapshot::DRAIN_FRAMES, sample::state_of_drains()),
        (v1_snapshot::GPU_FRAMES, sample::state_of_gpus()),
        (v1_snapshot::DISABLED_FRAMES, sample::state_of_disabled()),
        (v1_snapshot::DIGEST_FRAMES, sample::state_of_digests()),
        (v1_snapshot::NO_DATA_FRAMES, sample::state_without_data()),
        (v1_snapshot::TOKEN_FRAMES, sample::state_of_tokens()),
        (v1_snapshot::NETWORK_FRAMES, sample::state_of_networks()),
        (v1_snapshot::ROUTE_FRAMES, sample::state_of_routes()),
        (v1_snapshot::PORT_FRAMES, sample::state_of_ports()),
        (v1_snapshot::ORDER_FRAMES, sample::state_of_orders()),
        (v1_snapshot::POLICY_FRAMES, sample::state_of_policy()),
        (v1_snapshot::ROLE_FRAMES, sample::state_of_roles()),
        (v1_snapshot::USE_FRAMES, sample::state_of_uses()),
        (v1_snapshot::TRUSTING_FRAMES, sample::state_of_rotation(RotationPhase::Trusting)),
        (v1_snapshot::RENEWING_FRAMES, sample::state_of_rotation(RotationPhase::Renewing)),
        (v1_snapshot::SETTLED_FRAMES, sample::state_of_rotation(RotationPhase::Settled)),
        (v1_snapshot::ABANDONED_FRAMES, sample::state_of_rotation(RotationPhase::Abandoned)),
        (v1_snapshot::HANDING_OUT_FRAMES, sample::state_of_kek_rotation(KekPhase::HandingOut)),
        (v1_snapshot::RESEALING_FRAMES, sample::state_of_kek_rotation(KekPhase::Resealing)),
        (v1_snapshot::KEK_SETTLED_FRAMES, sample::state_of_kek_rotation(KekPhase::Settled)),
        (v1_snapshot::KEK_ABANDONED_FRAMES, sample::state_of_kek_rotation(KekPhase::Abandoned)),
        (v1_snapshot::CERTIFICATE_FRAMES, sample::state_of_certificates()),
        (v1_snapshot::USERS_FRAMES, sample::state_of_users()),
        (v1_snapshot::EXPIRY_FRAMES, sample::state_of_expiry()),
        (v1_snapshot::CLOCK_FRAMES, sample::state_of_clock()),
        (v1_snapshot::JOB_FRAMES, sample::state_of_jobs()),
        (v1_snapshot::IMAGE_FRAMES, sample::state_of_images()),
        (v1_snapshot::NOTIFY_FRAMES, sample::state_of_notifications()),
        (v1_snapshot::TRACE_FRAMES, sample::state_of_traces()),
        (v1_snapshot::PAUSED_FRAMES, sample::state_of_paused_notifications()),
        (v1_snapshot::BACKUP_FRAMES, sample::state_of_backups()),
    ] {
        let frozen: String = frames.iter().map(|(_, hex)| *hex).collect();
        assert_eq!(hex::encode(snapshot(&sample)), frozen, "what is written has changed");
        assert_eq!(read_snapshot(&mut hex::decode(frozen).unwrap().as_slice()).unwrap(), sample);
    }
}

proptest! {
    /// No command is without frozen bytes.
    #[test]
    fn every_command_is_frozen(command in strategy::command()) {
        let name = sample::command_name(&command);
        prop_assert!(v1_log_entry::LOG_ENTRIES.iter().any(|(frozen, _)| *frozen == name));
    }
}
