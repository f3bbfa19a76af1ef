//! The metrics of real daemons: who may read them and how, and what they say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, Node, eventually_within, v1};
use tokio::task::JoinSet;

use crate::curl::{Version, ask, asking, run, viewer};
use crate::openmetrics::Document;
use crate::scenario::{apply_request, deploy};
use crate::strangers::resident;

async fn scrape(cluster: &Cluster, node: &Node, authorization: &str) -> Document {
    let answer = ask(cluster, node, Version::Http1, "/metrics", &["--header", authorization]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    Document::read(&answer.body)
}

/// R-OPS-1: every node serves its metrics over the one TLS port to who has the token of a viewer, over HTTP/1.1 and
/// HTTP/2, to clients that verify certificates by the rules of the web; and over the socket.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_serves_its_metrics() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let (_, authorization) = viewer(&cluster).await;
    for node in &cluster.nodes {
        for (version, spoken) in [(Version::Http1, "1.1"), (Version::Http2, "2")] {
            let arguments = ["--header", authorization.as_str()];
            let answer = ask(&cluster, node, version, "/metrics", &arguments).await;
            assert_eq!((answer.status, answer.version.as_str()), (200, spoken), "{answer:?}");
            let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
            assert!(answer.head.contains(kind), "{}", answer.head);
            let document = Document::read(&answer.body);
            assert_eq!(document.value("jaco_raft_has_leader", None), Some(1.0));
            assert_eq!(document.value("jaco_raft_voters", None), Some(3.0));
            assert!(document.value("process_resident_memory_bytes", None) > Some(1e6));
            let ends = ("jaco_certificate_not_after_timestamp_seconds", Some(("kind", "node")));
            assert!(document.value(ends.0, ends.1) > Some(1.7e9));
        }
        let mut curl = Command::new("curl");
        curl.arg("--unix-socket").arg(node.socket()).arg("http://localhost/metrics");
        let answer = run(curl).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Document::read(&answer.body);
    }
}

/// R-OPS-1, R-IN-3: who has no token, or one that does not count, is refused by the headers of the request with the
/// status that browsers and scrapers know; documents are read only.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_get_no_metrics() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let node = &cluster.nodes[0];
    let (token, authorization) = viewer(&cluster).await;
    let wrong = format!("authorization: Bearer {}", token.replace("scraper", "another"));
    for version in [Version::Http1, Version::Http2] {
        for (arguments, code) in [
            (vec![], "unauthenticated"),
            (vec!["--header", "authorization: Basic YTpi"], "token_invalid"),
            (vec!["--header", &wrong], "token_invalid"),
        ] {
            let answer = ask(&cluster, node, version, "/metrics", &arguments).await;
            assert_eq!(answer.status, 401, "{arguments:?} {answer:?}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
            assert!(answer.body.starts_with(code), "{}", answer.body);
            assert!(!answer.body.contains("jaco_raft"), "{}", answer.body);
        }
        let with = ["--header", authorization.as_str(), "--data", "x=1"];
        let answer = ask(&cluster, node, version, "/metrics", &with).await;
        assert_eq!(answer.status, 405, "{answer:?}");
    }
    let with = ["--header", authorization.as_str()];
    let answer = ask(&cluster, node, Version::Http1, "/elsewhere", &with).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    let document = scrape(&cluster, node, &authorization).await;
    let refused = document.of("jaco_api_requests_total").filter(|sample| {
        sample.labels["method"] == "metrics" && sample.labels["code"] == "unauthenticated"
    });
    assert_eq!(refused.map(|sample| sample.value).sum::<f64>(), 6.0);

    let revoke = v1::RevokeTokenRequest { name: "scraper".to_owned(), ..Default::default() };
    cluster.client().revoke_token(revoke).await.expect("revoked");
    let answer = ask(&cluster, node, Version::Http2, "/metrics", &with).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.body.starts_with("token_revoked"), "{}", answer.body);
}

/// R-OPS-1: documents are read only, and a client whose body comes after the head of its request is told so as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_late_is_no_broken_stream() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let node = &cluster.nodes[0];
    let (_, authorization) = viewer(&cluster).await;
    for version in [Version::Http1, Version::Http2] {
        let late = ["--header", authorization.as_str(), "--upload-file", "-"];
        let mut curl = asking(&cluster, node, version, "/metrics", &late);
        let mut body = Command::new("sh");
        body.args(["-c", "sleep 0.3; echo x=1"]).stdout(Stdio::piped());
        let mut body = body.spawn().expect("it starts");
        curl.stdin(body.stdout.take().expect("it is piped"));
        let answer = run(curl).await;
        assert_eq!(answer.status, 405, "{answer:?}");
        body.wait().expect("it ends");
    }
}

/// R-OPS-1, R-IN-3: heads of strangers over HTTP/1.1 are bounded, and their memory with them.
#[tokio::test(flavor = "multi_thread")]
async fn heads_of_strangers_are_not_buffered() {
    const CLIENTS: usize = 48;
    /// As much as the client sends at most.
    const HEAD_BYTES: usize = 900 << 10;
    let cluster = Cluster::start(1, Engine::Fake).await;
    let node = &cluster.nodes[0];
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let head = folder.path().join("head");
    let line = format!("x-filler: {}\n", "y".repeat(60_000));
    std::fs::write(&head, line.repeat(HEAD_BYTES / line.len())).expect("written");
    let before = resident(node);
    let (ip, port) = node.address.rsplit_once(':').expect("ip:port");
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut curl = Command::new("curl");
        let name = format!("{}.internal", cluster.id);
        curl.args(["--http1.1", "--silent", "--max-time", "20", "--output", "/dev/null"]);
        curl.arg("--cacert").arg(node.folder().join("data/node/ca.crt"));
        curl.args(["--resolve", &format!("{name}:{port}:{ip}"), "--write-out", "%{http_code}"]);
        curl.arg("--header").arg(format!("@{}", head.display()));
        curl.arg(format!("https://{name}:{port}/metrics"));
        clients.spawn_blocking(move || curl.output().expect("curl is installed").stdout);
    }
    let answers = clients.join_all().await.into_iter();
    let answers: Vec<_> = answers.map(|one| String::from_utf8(one).expect("text")).collect();
    // Some are cut off while they still send, and see no answer.
    assert!(answers.iter().all(|status| ["431", "000"].contains(&status.as_str())), "{answers:?}");
    assert!(answers.iter().any(|status| status == "431"), "{answers:?}");
    let grown = resident(node).saturating_sub(before);
    assert!(grown < 20 << 20, "{} MiB more than at rest", grown >> 20);
    node.client().status(v1::ClusterStatusRequest {}).await.expect("it goes on");
}

/// R-OPS-1: where the configuration asks for it, a loopback address serves the metrics in clear text, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn loopback_serves_metrics_alone() {
    let address = format!("127.{}.77.1:9464", 1 + std::process::id() % 62);
    let settings = format!("metrics: {{listen: \"{address}\"}}\n");
    let cluster = Cluster::start_with(1, Engine::Fake, &settings).await;
    let ask = |path: &str, arguments: &[&str]| {
        let mut curl = Command::new("curl");
        curl.arg(format!("http://{address}{path}")).args(arguments);
        run(curl)
    };
    let answer = ask("/metrics", &[]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = Document::read(&answer.body);
    assert_eq!(document.value("jaco_nodes", Some(("status", "ready"))), Some(1.0));
    assert_eq!(ask("/metrics", &["--data", "x"]).await.status, 405);
    for path in ["/", "/jaco.v1.Query/Overview", "/ui"] {
        assert_eq!(ask(path, &[]).await.status, 404, "{path}");
    }
    let mut settings =
        std::fs::read_to_string(cluster.nodes[0].folder().join("jacod.yaml")).unwrap();
    settings = settings.replace(&address, "0.0.0.0:9464");
    let file = cluster.nodes[0].folder().join("open.yaml");
    std::fs::write(&file, settings).unwrap();
    let mut check = Command::new(jaco_testkit::binary("jacod"));
    check.arg("--check").arg("--config").arg(file);
    let checked = check.output().expect("it can be started");
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && said.contains("metrics.listen"), "{said}");
}

/// R-OPS-1: a change of leader is seen in the metrics of all nodes that are left, and the new leader tells of the lost one.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_leader_is_seen_everywhere() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let (_, authorization) = viewer(&cluster).await;
    let leader = cluster.leader().await;
    let mut before = Vec::new();
    for (number, node) in cluster.nodes.iter().enumerate() {
        let document = scrape(&cluster, node, &authorization).await;
        let leads = document.value("jaco_raft_is_leader", None);
        assert_eq!(leads, Some(if number == leader { 1.0 } else { 0.0 }));
        assert_eq!(
            document.of("jaco_nodes").count() > 0,
            number == leader,
            "the leader alone says it"
        );
        before.push(document);
    }
    let lag = before[leader].of("jaco_raft_peer_lag_entries").count();
    assert_eq!(lag, 2, "one for each other node");
    let lost = cluster.nodes[leader].name.clone();
    cluster.nodes[leader].kill();
    let left: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
    eventually_within(
        Duration::from_secs(30),
        "all that are left follow another leader",
        || async {
            let mut leaders = 0.0;
            for number in &left {
                let now = scrape(&cluster, &cluster.nodes[*number], &authorization).await;
                let value =
                    |document: &Document, name| document.value(name, None).expect("exposed");
                let (was, is) = (&before[*number], &now);
                let grown = |name| value(is, name) > value(was, name);
                if !grown("jaco_raft_term") || !grown("jaco_raft_leader_changes_total") {
                    return Err(format!("{} is in the same term", cluster.nodes[*number].name));
                }
                leaders += value(is, "jaco_raft_is_leader");
                if value(is, "jaco_raft_is_leader") == 1.0 {
                    let down = is.value("jaco_nodes", Some(("status", "down")));
                    let ready = is.value("jaco_node_is_ready", Some(("node", &lost)));
                    if (down, ready) != (Some(1.0), Some(0.0)) {
                        return Err(format!("{lost} is not down yet"));
                    }
                }
            }
            if leaders == 1.0 { Ok(()) } else { Err(format!("{leaders} leaders")) }
        },
    )
    .await;
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of families, as queries use them, that are documented; those of the edge and the router apart, which the fake
/// engine has not.
fn documented() -> (BTreeSet<String>, BTreeSet<String>) {
    let text = std::fs::read_to_string(repository().join("docs/metrics.md")).expect("it is there");
    let (mut always, mut elsewhere) = (BTreeSet::new(), BTreeSet::new());
    let mut section = "";
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        }
        if let Some((name, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) {
            let is_elsewhere = ["The edge", "The router"].contains(&section);
            let names = if is_elsewhere { &mut elsewhere } else { &mut always };
            names.insert(name.to_owned());
        }
    }
    (always, elsewhere)
}

/// The family of a name that queries use.
fn family(name: &str, documented: &BTreeSet<String>) -> Option<String> {
    let stems = ["", "_bucket", "_sum", "_count"].into_iter();
    let mut stems = stems.filter_map(|suffix| name.strip_suffix(suffix));
    stems.find(|stem| documented.contains(*stem)).map(str::to_owned)
}

/// Whatever looks like a name of ours.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|one: char| one != '_' && !one.is_ascii_alphanumeric());
    let ours = words.filter(|word| word.starts_with("jaco_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

/// R-OPS-1: what three real nodes expose is what is documented, and every metric in dashboards, alerts and runbooks is
/// among it.
#[tokio::test(flavor = "multi_thread")]
async fn documents_dashboards_and_alerts_name_what_is_exposed() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let (_, authorization) = viewer(&cluster).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let (always, elsewhere) = documented();
    let mut exposed = BTreeSet::new();
    for node in &cluster.nodes {
        let document = scrape(&cluster, node, &authorization).await;
        for name in document.samples.iter().map(|sample| &sample.name) {
            let found = family(name, &always).or_else(|| family(name, &elsewhere));
            exposed.insert(found.unwrap_or_else(|| panic!("{name} is not in docs/metrics.md")));
        }
        for (name, kind) in &document.families {
            let suffix = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            exposed.insert(format!("{name}{suffix}"));
        }
    }
    let missing: Vec<_> = always.difference(&exposed).collect();
    assert!(missing.is_empty(), "documented, and exposed by no node: {missing:?}");

    let mut used = 0;
    for folder in ["deploy/grafana", "deploy/prometheus", "docs/runbooks"] {
        for entry in std::fs::read_dir(repository().join(folder)).expect("the folder is there") {
            let path = entry.expect("readable").path();
            let text = std::fs::read_to_string(&path).expect("text");
            for name in names(&text) {
                let known = family(&name, &exposed).or_else(|| family(&name, &elsewhere));
                assert!(known.is_some(), "{} has {name}, which nobody exposes", path.display());
                used += 1;
            }
        }
    }
    assert!(used > 50, "{used} names in dashboards and alerts");
}

/// R-OPS-1: who is woken by an alert finds a page about it, and each page is about an alert.
#[test]
fn every_alert_has_a_runbook() {
    let alerts = std::fs::read_to_string(repository().join("deploy/prometheus/alerts.yaml"));
    let alerts = alerts.expect("it is there");
    let lines = || alerts.lines().map(str::trim);
    let named: BTreeSet<_> = lines().filter_map(|line| line.strip_prefix("- alert: ")).collect();
    let linked: Vec<_> = lines().filter_map(|line| line.strip_prefix("runbook: ")).collect();
    assert_eq!(named.len(), linked.len(), "each alert links its runbook");
    for (name, link) in lines().filter_map(|line| line.strip_prefix("- alert: ")).zip(linked) {
        assert_eq!(link, format!("docs/runbooks/{name}.md"));
        let page = std::fs::read_to_string(repository().join(link));
        let page = page.unwrap_or_else(|_| panic!("{link} is not there"));
        for part in ["# ", "\n## What it means\n", "\n## How to look\n", "\n## What to do\n"] {
            assert!(page.contains(part), "{link} lacks {part}");
        }
    }
    for entry in std::fs::read_dir(repository().join("docs/runbooks")).expect("the folder is there")
    {
        let path = entry.expect("readable").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(name == "README" || named.contains(name.as_str()), "{name} is no alert");
    }
}

/// R-OPS-1: dashboards can be imported: JSON with panels, each with a query and a place of its own.
#[test]
fn dashboards_are_whole() {
    for name in ["jaco-cluster", "jaco-node", "jaco-edge"] {
        let path = repository().join(format!("deploy/grafana/{name}.json"));
        let board: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).expect("it is there"))
                .expect("JSON");
        assert_eq!(board["uid"], name);
        let panels = board["panels"].as_array().expect("panels");
        let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
        for panel in panels {
            assert!(ids.insert(panel["id"].as_u64()), "{name}: {} twice", panel["id"]);
            let place = &panel["gridPos"];
            assert!(places.insert((place["x"].as_u64(), place["y"].as_u64())), "{name}: {panel}");
            let queries = panel["targets"].as_array().expect("queries");
            let asks = |query: &serde_json::Value| {
                query["expr"].as_str().is_some_and(|expr| !names(expr).is_empty())
            };
            assert!(!queries.is_empty() && queries.iter().all(asks), "{name}: {panel}");
        }
        assert!(panels.len() > 8, "{name} has {} panels", panels.len());
    }
}

/// R-OPS-1: the metrics of a cluster with 1,000 replicas have at most 200 KB.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_replicas_fit() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let (_, authorization) = viewer(&cluster).await;
    for number in 0..50 {
        let request = apply_request(&format!("d{number}"), "web:1", 20);
        cluster.client().apply(request).await.expect("admitted");
    }
    let leader = cluster.leader().await;
    let node = &cluster.nodes[leader];
    eventually_within(Duration::from_secs(120), "all replicas are known", || async {
        let document = scrape(&cluster, node, &authorization).await;
        let replicas: f64 = document.of("jaco_replicas").map(|sample| sample.value).sum();
        if replicas == 1000.0 { Ok(()) } else { Err(format!("{replicas} replicas")) }
    })
    .await;
    let begun = Instant::now();
    let mut curl = Command::new("curl");
    curl.arg("--unix-socket").arg(node.socket()).arg("http://localhost/metrics");
    let answer = run(curl).await;
    println!("{} bytes after {:?}, the start of curl included", answer.body.len(), begun.elapsed());
    let document = Document::read(&answer.body);
    assert!(answer.body.len() < 200_000, "{} bytes", answer.body.len());
    assert!(document.samples.len() < 1_500, "{} series", document.samples.len());
}
