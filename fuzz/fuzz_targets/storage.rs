//! Stored bytes: log entries, outcomes, authors, routes, snapshots, archives of audit events. The first byte chooses
//! what reads the rest.
#![no_main]

#[path = "../../crates/jaco-proto/tests/it/decode.rs"]
mod decode;

use libfuzzer_sys::fuzz_target;

const DECODERS: [fn(&[u8]); 6] = [
    decode::log_entry,
    decode::outcome,
    decode::author,
    decode::route,
    decode::snapshot,
    decode::archive,
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    DECODERS[usize::from(*choice) % DECODERS.len()](bytes);
});
