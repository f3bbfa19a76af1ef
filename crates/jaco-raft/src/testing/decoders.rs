//! What reads bytes of other machines and of disks, as functions of bytes: for mutations and fuzz targets.
//!
//! A checksum is put right first: whoever can write to a disk or is a member can do that as well, and behind it is what
//! is to be shown.

use std::sync::Arc;

use bytes::Bytes;

use super::SimDisk;
use crate::codec::{self, SnapshotHeader};
use crate::types::{Membership, StoredMembership, Vote};
use crate::wire::{self, RequestBody};
use crate::{engine, identity, snapshot};

/// A message of another member.
pub fn request(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    let claimed = wire::claimed_sender(&body);
    let Ok(request) = wire::decode_request(body) else { return };
    assert_eq!(claimed.ok(), Some(request.from));
    match request.body {
        None | Some(RequestBody::ReadIndex(_) | RequestBody::Snapshot(_)) => {}
        Some(RequestBody::Append(append)) => {
            drop(
                append.entries.into_iter().map(codec::EntryRecord::into_entry).collect::<Vec<_>>(),
            );
            std::hint::black_box(Vote::from(append.vote));
        }
        Some(RequestBody::Vote(ask) | RequestBody::PreVote(ask)) => {
            std::hint::black_box(wire::vote_ask_from(ask));
        }
        Some(RequestBody::TransferLeader(transfer)) => {
            std::hint::black_box(wire::transfer_from(transfer));
        }
    }
}

/// The answer of another member.
pub fn reply(bytes: &[u8]) {
    let Ok(reply) = wire::decode_reply(Bytes::copy_from_slice(bytes)) else { return };
    std::hint::black_box((wire::is_conflict(&reply), wire::reverted_from(&reply)));
    std::hint::black_box(wire::appended_from(reply.clone()));
    std::hint::black_box(wire::voted_from(reply));
}

/// An entry of a log, a vote and a mark.
pub fn record(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok((entry, chain)) = codec::decode_entry(bytes.clone()) {
        std::hint::black_box(codec::chain_after(chain, &entry));
        let again = codec::decode_entry(codec::encode_entry(&entry, chain));
        assert_eq!(again.ok(), Some((entry, chain)), "what is read is written as itself");
    }
    drop(codec::decode_vote(bytes.clone()));
    drop(codec::decode_mark(bytes));
}

/// The journal, values and the extent in the folder of a log.
pub fn log_files(bytes: &[u8]) {
    engine::read_stored(bytes);
}

/// The identity of a data directory.
pub fn identity_file(bytes: &[u8]) {
    identity::read_with_checksum(bytes);
}

/// A snapshot: what follows its first eight bytes.
pub fn snapshot_file(bytes: &[u8]) {
    snapshot::read_with_checksum(Arc::new(SimDisk::new(0)), bytes);
    if let Ok(header) = <SnapshotHeader as prost::Message>::decode(bytes) {
        let Some(stored) = header.membership else { return };
        if let Some(Ok(membership)) = stored.membership.clone().map(Membership::try_from) {
            std::hint::black_box(membership.voter_ids().count());
        }
        drop(StoredMembership::try_from(stored));
    }
}
