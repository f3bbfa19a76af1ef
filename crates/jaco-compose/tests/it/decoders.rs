//! What reads texts of clients withstands any.

use std::fmt::Write as _;
use std::time::Duration;

use jaco_compose::Environment;
use jaco_mutate::{Decoder, stay_within, withstand};

use crate::decode;
use crate::util::load_files;

const ENVIRONMENT: &str = "[web]\nmemory = \"512 MB\"\ncpu = 500\n\n[my-db]\nmax_rows = 7\nready = true\nx = {a = [1, 2]}\n";

const TREE: &str = r#"{"entries":[{"mode":493,"path":"a","type":"folder"},{"mode":420,"path":"a/b","pieces":["0707070707070707070707070707070707070707070707070707070707070707"],"size":9,"type":"file"},{"path":"c","target":"a/b","type":"link"}],"format":1}"#;

const OVERLAY: &str = "deployment: shop\nservices:\n  web:\n    replicas: 3\n    placement: spread\n    constraints: [\"zone == a\"]\n    resources: {memory: 1G, cpus: 0.5}\n    update: {parallelism: 1, order: start-first}\nroutes:\n  - {domain: example.com, path: /a, service: web, port: 80, tls: auto}\n";

/// R-IN-3: mutations of what daemons are sent are taken or refused with a reason.
#[test]
fn mutated_texts_are_taken_or_refused() {
    let shop = include_str!("../fixtures/shop.yaml");
    let loaded = load_files(&[("/p/compose.yaml", shop)]).unwrap();
    let model = loaded.project.model().to_string().into_bytes();
    let of = |name, decode, seeds| Decoder { name, decode, seeds };
    withstand(
        "decoders::mutated_texts_are_taken_or_refused",
        &[
            of("sent-model", decode::model as fn(&[u8]), vec![model]),
            of("sent-environment", decode::environment, vec![ENVIRONMENT.into()]),
            of("sent-overlay", decode::overlay, vec![OVERLAY.into()]),
            of("sent-tree", decode::tree, vec![TREE.into()]),
        ],
    );
}

/// R-IN-3: where each table of an environment begins was counted from the first line, which is quadratic in 256 KiB of tables.
#[test]
fn as_many_tables_as_fit_take_no_time() {
    let time = Duration::from_millis(if cfg!(debug_assertions) { 5000 } else { 500 });
    let tables = || {
        let mut text = String::new();
        for number in 0.. {
            if text.len() > (256 << 10) - 16 {
                break;
            }
            writeln!(text, "[{number:x}]").unwrap();
        }
        text
    };
    stay_within("decoders::as_many_tables_as_fit_take_no_time", 64 << 20, time, tables, |text| {
        let environment = Environment::parse("jaco.services.toml", text.as_bytes()).unwrap();
        assert!(environment.overrides().len() > 30_000);
    });
}
