//! Files of the command line: backups, saved plans, contexts, lists of what is disabled, archives of containers
//! and of images. The first byte chooses what reads the rest.
#![no_main]

use jaco_cli::decoders;
use libfuzzer_sys::fuzz_target;

const DECODERS: [fn(&[u8]); 5] = [
    decoders::backup,
    decoders::text,
    decoders::archive,
    decoders::image,
    decoders::encrypted_backup,
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    DECODERS[usize::from(*choice) % DECODERS.len()](bytes);
});
