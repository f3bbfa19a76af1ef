//! What daemons are sent as text: models, overrides, overlays, lists of files. The first byte chooses
//! what reads the rest.
#![no_main]

#[path = "../../crates/jaco-compose/tests/it/decode.rs"]
mod decode;

use libfuzzer_sys::fuzz_target;

const DECODERS: [fn(&[u8]); 4] = [
    decode::model,
    decode::environment,
    decode::overlay,
    decode::tree,
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    DECODERS[usize::from(*choice) % DECODERS.len()](bytes);
});
