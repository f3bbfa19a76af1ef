//! Bytes written by other versions of this program: never edit, only add.

use bytes::Bytes;
use expect_test::{Expect, expect};
use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;

use crate::codec::{self, FORMAT, GENESIS, LogIdRecord, SnapshotHeader, StoredMembershipRecord};
use crate::types::{Entry, EntryPayload, Membership, Payload, Peer, StoredMembership};
use crate::types::{Vote, log_id};
use crate::wire::{self, Append, KeptRecord, ReplyBody, RequestBody, SnapshotChunk, VoteAsk};

fn check(bytes: &[u8], frozen: &Expect) {
    frozen.assert_eq(&hex::encode(bytes));
}

fn membership() -> Membership {
    let peers = [(1, "a:1"), (2, "b:2")];
    let peers: BTreeMap<u64, Peer> =
        peers.map(|(id, address)| (id, Peer { address: address.to_owned() })).into();
    Membership::new(vec![BTreeSet::from([1]), BTreeSet::from([1, 2])], peers).unwrap()
}

fn vote() -> Vote {
    Vote::new_committed(3, 2)
}

#[test]
fn votes_and_marks() {
    let bytes = codec::encode_vote(&vote());
    check(&bytes, &expect!["0801100318022001"]);
    assert_eq!(codec::decode_vote(bytes).unwrap(), vote());

    let bytes = codec::encode_mark(Some(&log_id(3, 2, 9)), 0x0102);
    check(&bytes, &expect!["08011206080310021809190201000000000000"]);
    assert_eq!(codec::decode_mark(bytes).unwrap(), (Some(log_id(3, 2, 9)), 0x0102));
}

#[test]
fn entries() {
    let frozen: [(EntryPayload, Expect); 3] = [
        (EntryPayload::Blank, expect!["0801100318022009295bc69f2aae407be53000"]),
        (
            EntryPayload::Normal(Payload(Bytes::from_static(b"jaco"))),
            expect!["08011003180220092969f14a4d2db43b483a046a61636f"],
        ),
        (
            EntryPayload::Membership(membership()),
            expect![
                "0801100318022009292a7b9107d2c541df421d0a030a01010a040a020102120708011203613a31120708021203623a32"
            ],
        ),
    ];
    for (payload, frozen) in frozen {
        let entry = Entry { log_id: log_id(3, 2, 9), payload };
        let chain = codec::chain_after(GENESIS, &entry);
        let bytes = codec::encode_entry(&entry, chain);
        check(&bytes, &frozen);
        let (decoded, decoded_chain) = codec::decode_entry(bytes).unwrap();
        assert_eq!((decoded, decoded_chain), (entry, chain));
    }
}

#[test]
fn snapshot_headers() {
    let stored = StoredMembership::new(Some(log_id(1, 1, 4)), membership());
    let header = SnapshotHeader {
        format: FORMAT,
        cluster: "blue".to_owned(),
        last: Some(LogIdRecord::from(&log_id(3, 2, 9))),
        membership: Some(StoredMembershipRecord::from(&stored)),
        chain: 7,
    };
    let bytes = header.encode_to_vec();
    check(
        &bytes,
        &expect![
            "08011204626c75651a0608031002180922270a06080110011804121d0a030a01010a040a020102120708011203613a31120708021203623a32290700000000000000"
        ],
    );
    let decoded = SnapshotHeader::decode(bytes.as_slice()).unwrap();
    assert_eq!(decoded, header);
    assert_eq!(StoredMembership::try_from(decoded.membership.unwrap()).unwrap(), stored);
}

#[test]
fn messages() {
    let append = Append {
        vote: (&vote()).into(),
        prev: Some(LogIdRecord::from(&log_id(1, 1, 4))),
        prev_chain: Some(5),
        commit: None,
        entries: vec![],
        acknowledged: None,
        kept: Vec::new(),
    };
    let first =
        Append { acknowledged: Some(LogIdRecord::from(&log_id(1, 1, 3))), ..append.clone() };
    let last = LogIdRecord::from(&log_id(1, 1, 3));
    let telling = Append { kept: vec![KeptRecord { node: 3, last }], ..append.clone() };
    let ask = VoteAsk {
        vote: (&vote()).into(),
        last: None,
        leadership_transfer: true,
        kept: None,
        address: String::new(),
    };
    let naming = VoteAsk { kept: Some(last), ..ask.clone() };
    let moved = VoteAsk { address: "n1:7000".to_owned(), ..ask.clone() };
    let chunk = SnapshotChunk {
        vote: (&vote()).into(),
        sum: Bytes::from_static(b"sum"),
        file_len: 10,
        offset: 5,
        data: Bytes::from_static(b"data"),
        install: false,
    };
    let frozen: [(RequestBody, Expect); 9] = [
        (
            RequestBody::Append(append),
            expect!["080110021801221b0a0808011003180220011206080110011804190500000000000000"],
        ),
        (
            RequestBody::Append(first),
            expect![
                "08011002180122230a08080110031802200112060801100118041905000000000000003206080110011803"
            ],
        ),
        (
            RequestBody::Append(telling),
            expect![
                "08011002180122270a08080110031802200112060801100118041905000000000000003a0a08031206080110011803"
            ],
        ),
        (
            RequestBody::Vote(naming),
            expect!["0801100218012a140a08080110031802200118012206080110011803"],
        ),
        (
            RequestBody::PreVote(moved),
            expect!["08011002180132150a08080110031802200118012a076e313a37303030"],
        ),
        (RequestBody::Vote(ask.clone()), expect!["0801100218012a0c0a0808011003180220011801"]),
        (RequestBody::PreVote(ask), expect!["080110021801320c0a0808011003180220011801"]),
        (
            RequestBody::Snapshot(chunk),
            expect!["08011002180142190a080801100318022001120373756d180a20052a0464617461"],
        ),
        (RequestBody::ReadIndex(0), expect!["0801100218014800"]),
    ];
    for (body, frozen) in frozen {
        let bytes = wire::encode_request(2, 1, body.clone());
        check(&bytes, &frozen);
        assert_eq!(wire::claimed_sender(&bytes).unwrap(), 2);
        assert_eq!(wire::decode_request(bytes).unwrap().body, Some(body));
    }
    let reverted = wire::reverted_of(Some(log_id(1, 1, 2)));
    let bytes = wire::encode_reply(reverted.clone());
    check(&bytes, &expect!["0801120a2a080a06080110011802"]);
    assert_eq!(wire::decode_reply(bytes).unwrap(), reverted);
    let reply = wire::encode_reply(ReplyBody::SnapshotReceived(77));
    check(&reply, &expect!["0801284d"]);
    assert_eq!(wire::decode_reply(reply).unwrap(), ReplyBody::SnapshotReceived(77));
}

/// An entry of a newer version must stop this node, not be skipped.
#[test]
fn unknown_records_are_refused() {
    let unknown_body = codec::EntryRecord { format: FORMAT, ..Default::default() };
    assert!(codec::decode_entry(unknown_body.encode_to_vec().into()).is_err());
    let newer = codec::EntryRecord { format: FORMAT + 1, ..Default::default() };
    assert!(codec::decode_entry(newer.encode_to_vec().into()).is_err());
    let newer = codec::VoteRecord { format: FORMAT + 1, ..Default::default() };
    assert!(codec::decode_vote(newer.encode_to_vec().into()).is_err());
}
