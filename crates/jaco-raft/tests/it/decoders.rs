//! What reads bytes of other machines and of disks withstands any.

use jaco_mutate::{Decoder, withstand};
use jaco_raft::testing::decoders;

/// Frozen instances: see `src/frozen.rs`.
const REQUESTS: [&str; 6] = [
    "080110021801221b0a0808011003180220011206080110011804190500000000000000",
    "08011002180122230a08080110031802200112060801100118041905000000000000003206080110011803",
    "0801100218012a0c0a0808011003180220011801",
    "080110021801320c0a0808011003180220011801",
    "08011002180142190a080801100318022001120373756d180a20052a0464617461",
    "0801100218014800",
];
const REPLIES: [&str; 2] = ["0801120a2a080a06080110011802", "0801284d"];
const RECORDS: [&str; 5] = [
    "0801100318022001",
    "08011206080310021809190201000000000000",
    "0801100318022009295bc69f2aae407be53000",
    "08011003180220092969f14a4d2db43b483a046a61636f",
    "0801100318022009292a7b9107d2c541df421d0a030a01010a040a020102120708011203613a31120708021203623a32",
];
const HEADER: &str = "08011204626c75651a0608031002180922270a06080110011804121d0a030a01010a040a020102120708011203613a31120708021203623a32290700000000000000";
const JOURNAL: &str =
    "1b00000019940d200700000000000000010000000000000003000000010101020000000000000000000000";

fn decoded(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| hex::decode(text).unwrap()).collect()
}

/// R-IN-3, R-FAULT-1: no message and no byte on a disk ends a node otherwise than by an error, or takes memory or time that it
/// does not have.
#[test]
fn mutated_bytes_are_read_or_refused() {
    let header = hex::decode(HEADER).unwrap();
    let length = u32::try_from(header.len()).unwrap().to_le_bytes();
    let snapshot = [length.as_slice(), &header, b"the state"].concat();
    // A block of two records at index 5; a part of three.
    let block =
        [&[0, 0, 0, 0, 0, 0, 0, 5, 0, 0][..], &[2, 0, 0, 0, 0, 0, 2, 0, 1, 7, 0, 0]].concat();
    let last = [&[0xff; 8][..], &[0, 0], &[2, 0, 0, 0, 0, 0, 2, 0, 1, 7, 0, 0]].concat();
    let part = [&[0, 0, 0, 0, 0, 0, 0, 5, 0, 1][..], &[1, 0, 0, 0, 0, 0, 3, 9, 9]].concat();
    let appended = decoded(&REQUESTS[..1]).remove(0);
    // An append with entries: each of the frozen ones, as field 5 of field 4.
    let entries = decoded(&RECORDS[2..]);
    let entries = entries
        .iter()
        .flat_map(|entry| [&[0x2a, u8::try_from(entry.len()).unwrap()][..], entry].concat());
    let body: Vec<u8> = appended[8..].iter().copied().chain(entries).collect();
    let length =
        [u8::try_from(body.len() & 0x7f).unwrap() | 0x80, u8::try_from(body.len() >> 7).unwrap()];
    let with_entries = [&appended[..7], &length, &body].concat();
    let mut requests = decoded(&REQUESTS);
    requests.push(with_entries);
    let of = |name, decode, seeds| Decoder { name, decode, seeds };
    withstand(
        "decoders::mutated_bytes_are_read_or_refused",
        &[
            of("raft-request", decoders::request as fn(&[u8]), requests),
            of("raft-reply", decoders::reply, decoded(&REPLIES)),
            of("raft-record", decoders::record, decoded(&RECORDS)),
            of(
                "raft-log",
                decoders::log_files,
                vec![hex::decode(JOURNAL).unwrap(), block, part, last],
            ),
            of("raft-identity", decoders::identity_file, decoded(&["080110071a04626c7565"])),
            of("raft-snapshot", decoders::snapshot_file, vec![snapshot, header]),
        ],
    );
}

/// A key is what a disk says: a block at the end of all indices was added up beyond them.
#[test]
fn a_block_at_the_last_index_is_read() {
    decoders::log_files(&[&[0xff; 8][..], &[0, 0], &[2, 0, 0, 0, 0, 0, 2, 0, 1, 7, 0, 0]].concat());
}

/// The length of a header is what a member says: one that reaches into the checksum left a state of less than no bytes.
#[test]
fn a_snapshot_whose_header_reaches_into_its_checksum_is_refused() {
    let header = hex::decode(HEADER).unwrap();
    let length = u32::try_from(header.len()).unwrap().to_le_bytes();
    let cut = [length.as_slice(), &header[..header.len() - 7]].concat();
    decoders::snapshot_file(&cut);
}
