//! A browser before an application that is rolled: over TLS, by the application's own domain.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use jaco_testkit::browser::{Browser, Scripts, Site};
use jaco_testkit::{eventually_within, namespace, ran};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;

use crate::outside::{Outside, Replicas};

const DOMAIN: &str = "secure.example.com";

/// What is downloaded and uploaded, in MiB.
const DOWNLOAD_MIB: u64 = 1024;
const UPLOAD_MIB: u64 = 256;

/// How long the browser may take for all of it, on a machine that builds at the same time.
const PATIENCE: Duration = Duration::from_secs(240);

/// The routes of the other tests, and one over TLS with an own certificate. What is up and down takes longer than the default
/// drain time, and the response to an upload begins at its end.
const ROUTES: &str = "
deployment: shop
services:
  - {name: web, placement: spread, drain: 30s}
routes:
  - {domain: shop.example.com, service: web, port: 8080, tls: off}
  - {domain: secure.example.com, service: web, port: 8080, tls: own, body_max: 1g, timeout: 4m}
";

/// Starts everything in the page: a download whose every byte is compared, an upload that the server compares, a WebSocket that is
/// opened again when it is closed, and requests one after the other.
const VISIT: &str = "
const byteAt = (place) => Math.imul(place, 2654435761) >>> 24;
const visit = window.visit = {
    download: null, place: 0, upload: null,
    echoed: 0, sockets: 0, requests: 0, failed: [], stop: false, ended: 0,
};
const note = (what) => (error) => visit.failed.push(`${what}: ${error}`);

const download = async () => {
    const response = await fetch('/download?mib=' + DOWNLOAD);
    const reader = response.body.getReader();
    for (;;) {
        const {done, value} = await reader.read();
        if (done) break;
        for (let at = 0; at < value.length; at++) {
            if (value[at] !== byteAt(visit.place + at)) throw `another byte at ${visit.place + at}`;
        }
        visit.place += value.length;
    }
    visit.download = `${response.status}, ${visit.place} bytes`;
};

const upload = async () => {
    const bytes = new Uint8Array(UPLOAD << 20);
    for (let at = 0; at < bytes.length; at++) bytes[at] = byteAt(at);
    const response = await fetch('/upload', {method: 'POST', body: new Blob([bytes])});
    visit.upload = await response.text();
};

const talk = () => {
    const socket = new WebSocket(`wss://${location.host}/websocket`);
    let opened = false, said = '';
    const say = () => {
        // The edge may have closed it since the last message.
        if (socket.readyState !== WebSocket.OPEN) return;
        if (visit.stop) return socket.close();
        said = `message ${visit.echoed}`;
        socket.send(said);
    };
    socket.onopen = () => { opened = true; visit.sockets++; say(); };
    socket.onmessage = ({data}) => {
        if (data !== said) note('socket')(`${data} instead of ${said}`);
        visit.echoed++;
        setTimeout(say, 20);
    };
    socket.onclose = ({code}) => {
        if (!opened) note('socket')(`not opened, ${code}`);
        if (visit.stop) visit.ended++; else talk();
    };
};

const ask = async () => {
    while (!visit.stop) {
        const response = await fetch('/', {cache: 'no-store'});
        const text = await response.text();
        if (response.status !== 200 || !text.startsWith('hello ')) throw `${response.status}: ${text}`;
        visit.requests++;
        await new Promise((resume) => setTimeout(resume, 50));
    }
    visit.ended++;
};

download().catch(note('download'));
upload().catch(note('upload'));
ask().catch(note('request'));
talk();
";

/// Writes an authority, and a certificate of the domain by it.
fn write_certificate(folder: &Path) {
    let authority_key = KeyPair::generate().expect("there are random numbers");
    let mut authority = CertificateParams::new([]).expect("no name is no bad name");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&authority_key).expect("it can be signed").pem();
    let key = KeyPair::generate().expect("there are random numbers");
    let site = CertificateParams::new([DOMAIN.to_owned()]).expect("a domain is a name");
    let issuer = Issuer::new(authority, authority_key);
    let site = site.signed_by(&key, &issuer).expect("it can be signed");
    let write = |name: &str, text: String| {
        fs::write(folder.join(name), text).expect("the folder can be written");
    };
    write("ca.pem", pem);
    write("site.pem", site.pem());
    write("site.key", key.serialize_pem());
}

/// What a visit came to.
#[derive(Debug)]
struct Visit {
    /// By the page's own count.
    seen: Value,
    protocol: Value,
    text: String,
    complaints: Vec<String>,
}

/// What the test and the browser's thread tell each other.
#[derive(Debug, Default)]
struct Signals {
    /// What is downloaded and uploaded has begun to move.
    moving: AtomicBool,
    /// The visit ends once all is down and up, and the WebSocket was closed and is back.
    enough: AtomicBool,
}

/// Visits the domain until it is told that this is enough.
async fn visit(site: Site, signals: Arc<Signals>) -> Visit {
    let browser = Browser::start(&site, Scripts::Run).await;
    browser.open("/").await;
    let protocol = "return performance.getEntriesByType('navigation')[0].nextHopProtocol";
    let protocol = browser.run(protocol).await;
    let begun = Instant::now();
    let script = VISIT
        .replace("' + DOWNLOAD", &format!("{DOWNLOAD_MIB}'"))
        .replace("UPLOAD <<", &format!("{UPLOAD_MIB} <<"));
    browser.run(&script).await;
    let seen = loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let seen = browser.run("return window.visit").await;
        let failed = seen["failed"].as_array().is_some_and(|failed| !failed.is_empty());
        if seen["place"].as_u64() > Some(0) && seen["echoed"].as_u64() > Some(0) {
            signals.moving.store(true, Ordering::SeqCst);
        }
        let done = seen["download"].is_string() && seen["upload"].is_string();
        let reopened = seen["sockets"].as_u64() > Some(1);
        let enough = done && reopened && signals.enough.load(Ordering::SeqCst);
        if failed || enough || begun.elapsed() > PATIENCE {
            browser.run("window.visit.stop = true").await;
        }
        if failed || seen["ended"] == 2 || begun.elapsed() > PATIENCE + Duration::from_secs(10) {
            break seen;
        }
    };
    browser.open("/").await;
    let (text, mut complaints) = (browser.text().await, browser.complaints().await);
    // The application has no icon, and a browser asks for one.
    complaints.retain(|complaint| !complaint.contains("/favicon.ico"));
    Visit { seen, protocol, text, complaints }
}

/// Milliseconds, as the access log has them.
fn since_1970() -> u64 {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(elapsed.expect("it is later").as_millis()).expect("it fits")
}

/// R-EDGE-1, R-EDGE-2: a browser downloads 1 GiB, uploads 256 MiB, talks over a WebSocket and asks for pages by the domain of
/// an application, over TLS, while all replicas of it are replaced: each byte arrives, nothing fails, and the WebSocket is back when
/// it was closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_does_not_notice_a_roll() {
    let mut outside = Outside::start(Replicas::Everywhere).await;
    ran(outside.machines.at_switch().args(["ip", "link", "set", "lo", "up"]));
    let folder = tempfile::tempdir().expect("temporary files can be made");
    write_certificate(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let set =
        ["certificate", "set", "own", "--cert", &file("site.pem"), "--key", &file("site.key")];
    outside.cli(&set);
    outside.overlay = ROUTES.to_owned();
    outside.apply(2);
    outside.are_serving(3).await;
    let before = outside.containers().await;

    let site = Site {
        name: DOMAIN.to_owned(),
        address: format!("{}:443", Outside::address(0).ip()),
        authority: folder.path().join("ca.pem"),
    };
    let signals = Arc::new(Signals::default());
    let (namespace, own) = (outside.namespace(), Arc::clone(&signals));
    let visiting = thread::spawn(move || {
        namespace::enter(&namespace);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("there is a runtime").block_on(visit(site, own))
    });
    eventually_within(PATIENCE, "the browser has begun", || async {
        let moving = signals.moving.load(Ordering::SeqCst);
        assert!(!visiting.is_finished(), "it has ended before it began");
        if moving { Ok(()) } else { Err("nothing moves") }
    })
    .await;
    let rolled_at = since_1970();
    outside.apply(3);
    let after = outside.containers().await;
    signals.enough.store(true, Ordering::SeqCst);
    let visit = visiting.join().expect("the browser does what it is asked for");
    let ends = outside.log.lines().into_iter().filter_map(|line| {
        let end = line["time_ms"].as_u64()? + line["total_us"].as_u64()? / 1000;
        Some((line["path"].as_str()?.to_owned(), end))
    });
    let ends: BTreeMap<String, u64> = ends.collect();
    for path in ["/download", "/upload"] {
        let end = ends.get(path).unwrap_or_else(|| panic!("{path} is in the access log"));
        println!("{path} ended {} ms after the begin of the roll", end.saturating_sub(rolled_at));
        assert!(*end > rolled_at, "{path} was over before the roll");
    }
    assert!(after.iter().all(|id| !before.contains(id)), "all were replaced: {before:?} {after:?}");
    assert_eq!(visit.seen["failed"], serde_json::json!([]), "{visit:#?}");
    let downloaded = format!("200, {} bytes", DOWNLOAD_MIB << 20);
    assert_eq!(visit.seen["download"], downloaded.as_str(), "{visit:#?}");
    let uploaded = format!("took {} bytes\n", UPLOAD_MIB << 20);
    assert_eq!(visit.seen["upload"], uploaded.as_str(), "{visit:#?}");
    assert_eq!(visit.protocol, "h2");
    let at_least = |key: &str| visit.seen[key].as_u64().unwrap_or_default();
    assert!(at_least("sockets") >= 2, "it was closed and is back: {visit:#?}");
    assert!(at_least("echoed") >= 100 && at_least("requests") >= 100, "{visit:#?}");
    assert!(visit.text.starts_with("hello "), "{visit:#?}");
    assert_eq!(visit.complaints, Vec::<String>::new());
}
