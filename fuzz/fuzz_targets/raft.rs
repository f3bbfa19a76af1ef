//! Messages of other members, and what the folder of a log holds. The first byte chooses
//! what reads the rest.
#![no_main]

use jaco_raft::testing::decoders;
use libfuzzer_sys::fuzz_target;

const DECODERS: [fn(&[u8]); 6] = [
    decoders::request,
    decoders::reply,
    decoders::record,
    decoders::log_files,
    decoders::identity_file,
    decoders::snapshot_file,
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    DECODERS[usize::from(*choice) % DECODERS.len()](bytes);
});
