//! What reads stored bytes withstands any: mutations of each frozen instance.

use jaco_mutate::{Decoder, withstand};
use jaco_proto::storage::{archive_line, decode_payload, encode_route};
use jaco_state::Command;
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, Digest};
use jaco_types::{Identity, StateIndex, Timestamp};

use crate::frozen::{v1_log_entry, v1_outcome, v1_snapshot};
use crate::{decode, sample};

fn decoded<'a>(frozen: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> Vec<Vec<u8>> {
    frozen.into_iter().map(|(_, hex)| hex::decode(hex).unwrap()).collect()
}

/// The rows of a frozen state, one after another.
fn whole(frames: &[(&str, &str)]) -> Vec<u8> {
    decoded(frames).concat()
}

/// The same as [`decode::log_entry`], executed in a state that has something of everything.
fn executed(bytes: &[u8]) {
    decode::log_entry(bytes);
    let Ok(payload) = decode_payload(bytes) else { return };
    let mut state = sample::state();
    let next = StateIndex(state.index.0 + 1);
    jaco_state::apply(&mut state, &payload.into_entry(next));
}

fn routes() -> Vec<Vec<u8>> {
    let applied = sample::commands_of_routes().into_iter().filter_map(|command| {
        let Command::DeploymentApply(apply) = command else { return None };
        Some(apply.spec)
    });
    let routes = applied.flat_map(|spec| spec.routes.clone());
    routes.map(|(key, route)| encode_route(&key, &route).to_vec()).collect()
}

/// A line, and a file of two.
fn archive() -> Vec<Vec<u8>> {
    let event = |previous| AuditEvent {
        kind: AuditKind::Apply,
        at: Timestamp(1_700_000_000_123),
        by: Identity::Local { uid: 1000 },
        origin: None,
        request: None,
        payload: [("deployment".to_owned(), "shop".to_owned())].into(),
        previous: Some(previous),
    };
    let key = |index| AuditKey { index: StateIndex(index), number: 0 };
    let first = event(Digest::start());
    let second = event(Digest::of(key(1), &first));
    let lines = [(key(1), first), (key(2), second)];
    let [first, second] = lines.map(|(key, event)| archive_line(key, &event).unwrap());
    vec![first.trim_end().as_bytes().to_vec(), (first.clone() + &second).into_bytes()]
}

/// ST-1, ST-3: mutations of all that was ever written are read or refused, and take effect without a panic.
#[test]
fn mutated_bytes_are_read_or_refused() {
    let entries = [
        v1_log_entry::LOG_ENTRIES,
        v1_log_entry::OTHER_VALUES,
        v1_log_entry::NETWORKS,
        v1_log_entry::ROUTERS,
        v1_log_entry::EDGES,
        v1_log_entry::ROUTES,
        v1_log_entry::PORTS,
        v1_log_entry::ORDERS,
        v1_log_entry::ROLES,
        v1_log_entry::ORIGINS,
    ];
    let snapshots = [
        v1_snapshot::FRAMES,
        v1_snapshot::CONTENT_FRAMES,
        v1_snapshot::NETWORK_FRAMES,
        v1_snapshot::ROUTE_FRAMES,
        v1_snapshot::PORT_FRAMES,
        v1_snapshot::ORDER_FRAMES,
        v1_snapshot::POLICY_FRAMES,
        v1_snapshot::ROLE_FRAMES,
    ];
    let authors = [v1_outcome::IDENTITIES, v1_outcome::AUTHORS];
    let of = |name, decode, seeds| Decoder { name, decode, seeds };
    withstand(
        "decoders::mutated_bytes_are_read_or_refused",
        &[
            of("storage-entry", executed as fn(&[u8]), decoded(entries.concat().iter())),
            of("storage-outcome", decode::outcome, decoded(v1_outcome::OUTCOMES)),
            of("storage-author", decode::author, decoded(authors.concat().iter())),
            of("storage-route", decode::route, routes()),
            of("storage-snapshot", decode::snapshot, snapshots.map(whole).to_vec()),
            of("storage-archive", decode::archive, archive()),
        ],
    );
}
