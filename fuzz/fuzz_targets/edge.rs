//! Whatever clients send to the edge before it is HTTP: the PROXY protocol, heads and chunks, hosts and paths. Nothing
//! may panic; what passes is a prefix of what came, however it was cut; what is normal stays normal.
#![no_main]

use jaco_edge::wire::host::normalize_host;
use jaco_edge::wire::path::normalize_path;
use jaco_edge::wire::proxy::{self, Preamble};
use jaco_edge::wire::screen::{Advance, HeadLimits, Screen};
use libfuzzer_sys::fuzz_target;

const LIMITS: HeadLimits = HeadLimits { bytes_max: 4096, fields_max: 20 };

fuzz_target!(|data: &[u8]| {
    match proxy::read(data) {
        Preamble::Header { length, .. } => assert!(length <= data.len()),
        Preamble::More => assert!(data.len() < proxy::LENGTH_MAX),
        Preamble::None | Preamble::Invalid => {}
    }
    let whole = screened(data, data.len().max(1));
    let cut = screened(data, 7);
    assert!(data.starts_with(&whole) && (whole.starts_with(&cut) || cut.starts_with(&whole)));
    if let Ok(text) = std::str::from_utf8(data) {
        if let Some(host) = normalize_host(text) {
            assert_eq!(normalize_host(&host).as_deref(), Some(&*host));
        }
        let path = format!("/{text}");
        let normal = normalize_path(&path);
        assert!(normal.key.starts_with('/') && !normal.key.contains("//"));
        assert!(normal.key.split('/').all(|segment| segment != "." && segment != ".."));
        assert!(normal.after("/a").starts_with('/'));
    }
});

/// What passes of a connection that comes in parts of `step` bytes.
fn screened(data: &[u8], step: usize) -> Vec<u8> {
    let (mut screen, mut passed, mut held) = (Screen::new(LIMITS), Vec::new(), Vec::new());
    for part in data.chunks(step) {
        held.extend_from_slice(part);
        loop {
            match screen.advance(&held) {
                Ok(Advance::Pass(count)) => passed.extend(held.drain(..count)),
                Ok(Advance::More | Advance::Held) => break,
                Err(_) => return passed,
            }
        }
    }
    passed
}
