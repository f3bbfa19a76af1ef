//! Whatever people hand in: compose files, jaco.yaml, a `.env` and a file to extend, separated by NUL
//! bytes. Nothing may panic, what is refused has a reason, and what loads survives being sent.
#![no_main]

use std::collections::BTreeMap;

use jaco_compose::{Images, Input, JacoYaml, Options, from_model, load, resolve};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 4] = ["/p/compose.yaml", "/p/jaco.yaml", "/p/.env", "/p/base.yaml"];

fuzz_target!(|data: &[u8]| {
    let files: BTreeMap<String, Vec<u8>> = NAMES
        .iter()
        .zip(data.split(|byte| *byte == 0))
        .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()))
        .collect();
    let overlay = files.get(NAMES[1]).map(|text| JacoYaml::parse(NAMES[1], text));
    let overlay = match overlay {
        Some(Err(problems)) => {
            assert!(problems.errors().next().is_some());
            None
        }
        Some(Ok(overlay)) => Some(overlay),
        None => None,
    };
    let project = match load(&Input::file(NAMES[0]), &files) {
        Ok(loaded) => loaded.project,
        Err(problems) => {
            assert!(problems.errors().next().is_some());
            return;
        }
    };
    let sent = project.model().to_string();
    let received = from_model(sent.as_bytes()).expect("what loads can be sent");
    assert_eq!(received.model().to_string(), sent);
    let options = Options { images: Images::AllowLocal, ..Options::default() };
    if let Err(problems) = resolve(&project, overlay.as_ref(), &options) {
        assert!(problems.errors().next().is_some());
    }
});
