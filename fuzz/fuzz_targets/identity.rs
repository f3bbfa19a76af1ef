//! Tokens, requests for certificates, certificates, sealed values. The first byte chooses
//! what reads the rest.
#![no_main]

#[path = "../../crates/jaco-pki/tests/it/decode.rs"]
mod decode;

use libfuzzer_sys::fuzz_target;

const DECODERS: [fn(&[u8]); 4] = [
    decode::token,
    decode::request,
    decode::certificate,
    decode::sealed_value,
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    DECODERS[usize::from(*choice) % DECODERS.len()](bytes);
});
