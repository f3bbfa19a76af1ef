//! What a scanner of TLS finds in an edge.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jaco_testkit::engines::Machines;
use jaco_testkit::succeeded;

use crate::edged;

const DOMAIN: &str = "shop.example.com";

const COMPOSE: &str = "
name: shop
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
";

const ROUTES: &str = "
deployment: shop
routes:
  - {domain: shop.example.com, service: web, port: 8080, tls: own}
";

/// What the scanner says of what the edge must not have, and of what it must have.
const FOUND: &[(&str, &str)] = &[
    ("SSLv2", "not offered"),
    ("SSLv3", "not offered"),
    ("TLS1", "not offered"),
    ("TLS1_1", "not offered"),
    ("TLS1_2", "offered"),
    ("TLS1_3", "offered with final"),
    ("cipherlist_NULL", "not offered"),
    ("cipherlist_aNULL", "not offered"),
    ("cipherlist_EXPORT", "not offered"),
    ("cipherlist_LOW", "not offered"),
    ("cipherlist_3DES_IDEA", "not offered"),
    ("cipherlist_AVERAGE", "not offered"),
    ("cipherlist_STRONG", "offered"),
    ("PFS", "offered"),
    ("heartbleed", "not vulnerable, no heartbeat extension"),
    ("CCS", "not vulnerable"),
    ("ticketbleed", "not vulnerable"),
    ("ROBOT", "not vulnerable, no RSA key transport cipher"),
    ("secure_client_renego", "not vulnerable"),
    ("CRIME_TLS", "not vulnerable"),
    ("POODLE_SSL", "not vulnerable, no SSLv3"),
    ("SWEET32", "not vulnerable"),
    ("FREAK", "not vulnerable"),
    ("DROWN", "not vulnerable on this host and port"),
    ("LOGJAM", "not vulnerable, no DH EXPORT ciphers,"),
    ("BEAST", "not vulnerable, no SSL3 or TLS1"),
    ("LUCKY13", "not vulnerable"),
    ("RC4", "not vulnerable"),
];

/// What the scanner finds fault with, and is not one.
const NO_FAULTS: &[(&str, &str)] = &[
    // The client chooses among ciphers that are all strong, as it knows what its processor is good at.
    ("cipher_order", "NOT a cipher order configured"),
    // Its client does not come through the handshake; `secure_client_renego` tells of the same.
    ("secure_renego", "OpenSSL handshake didn't succeed"),
    // Of the scanner's own machine, where it was installed without what Debian recommends with it.
    ("engine_problem", "No engine or GOST support via engine with your /usr/bin/openssl"),
];

/// One finding.
#[derive(Debug)]
struct Finding {
    severity: String,
    text: String,
}

/// R-EDGE-2: testssl.sh finds no protocol before TLS 1.2, no weak cipher, forward secrecy, and none of the vulnerabilities
/// that it knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_scanner_of_tls_finds_nothing() {
    let machines = edged::start().await;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    certify(&machines, folder.path());
    machines.apply(COMPOSE, Some(ROUTES));
    edged::serves(&machines, 1).await;
    let report = folder.path().join("report.json");
    let mut scan = machines.at_switch();
    scan.args(["testssl", "--quiet", "--color", "0", "--warnings", "off", "--nodns", "none"]);
    scan.args(["--protocols", "--std", "--pfs", "--server-preference", "--vulnerable"]);
    scan.args(["--ip", &edged::EDGE.to_string(), "--jsonfile"]).arg(&report);
    let scanned = scan.arg(format!("https://{DOMAIN}/")).output();
    let scanned = scanned.expect("testssl is there: `cargo xtask test docker` installs it");
    let found = read(&report).unwrap_or_else(|error| panic!("{error}: {scanned:?}"));
    for (id, expected) in FOUND {
        let text = found.get(*id).map(|finding| &*finding.text);
        assert_eq!(text, Some(*expected), "{id}: {found:#?}");
    }
    let is_fault = |(id, finding): &(&String, &Finding)| {
        !["OK", "INFO"].contains(&&*finding.severity)
            && !NO_FAULTS.contains(&(&***id, &*finding.text))
    };
    let faults: Vec<_> = found.iter().filter(is_fault).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    println!("{} findings of testssl.sh, none a fault", found.len());
}

/// Stores a certificate as `own`.
fn certify(machines: &Machines, folder: &Path) {
    let made = rcgen::generate_simple_self_signed([DOMAIN.to_owned()]).expect("it can be made");
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    fs::write(&chain, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let (chain, key) = (chain.to_str().expect("ASCII"), key.to_str().expect("ASCII"));
    let set = ["certificate", "set", "own", "--cert", chain, "--key", key];
    succeeded(&machines.cluster.cli(0, &set));
}

/// All findings, by their ids.
fn read(report: &Path) -> Result<BTreeMap<String, Finding>, String> {
    let text = fs::read_to_string(report).map_err(|error| error.to_string())?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let findings = json.as_array().ok_or("it is no list")?.iter();
    let text = |finding: &serde_json::Value, name: &str| {
        finding[name].as_str().unwrap_or_default().to_owned()
    };
    let read = |one| {
        (text(one, "id"), Finding { severity: text(one, "severity"), text: text(one, "finding") })
    };
    Ok(findings.map(read).collect())
}
