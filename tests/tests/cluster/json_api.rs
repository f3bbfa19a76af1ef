//! The JSON API of real daemons: who may read what, and that it says what the command line prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use jaco_server::endpoints::ENDPOINTS;
use jaco_testkit::{Cluster, Engine, Node, eventually};
use serde_json::Value;

use crate::curl::{Answer, Version, ask, run, token, viewer};
use crate::scenario::deploy;

const COMPOSE: &str = r#"
name: shop
services:
  web: {image: "web:1", deploy: {replicas: 2}}
  db: {image: "db:1", volumes: ["data:/data"]}
  report: {image: "job:1", restart: "no", deploy: {mode: replicated-job}}
volumes: {data: {}}
"#;

const OVERLAY: &str = r#"
deployment: shop
services:
  - {name: report, schedule: {cron: "0 3 1 1 *"}}
routes: [{domain: example.com, service: web, port: 80}]
"#;

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// What a command prints as JSON; a stream of objects as a list.
fn printed(cluster: &Cluster, node: usize, line: &str) -> Value {
    let mut args: Vec<&str> = line.split_whitespace().collect();
    args.extend(["-o", "json"]);
    let out = cluster.cli(node, &args);
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    let values = serde_json::Deserializer::from_slice(&out.stdout).into_iter::<Value>();
    let values: Vec<Value> = values.map(|value| value.expect("it is JSON")).collect();
    match <[Value; 1]>::try_from(values) {
        Ok([one]) => one,
        Err(many) => Value::Array(many),
    }
}

/// A cluster whose deployment has something of everything.
async fn furnished(size: usize) -> Cluster {
    let cluster = Cluster::start(size, Engine::Fake).await;
    eventually("the cluster has networks", || async {
        let out = cluster.cli(0, &["network", "enable"]);
        if out.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&out.stderr).into_owned())
        }
    })
    .await;
    let folder = cluster.nodes[0].folder().join("shop");
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    std::fs::write(folder.join("compose.yaml"), COMPOSE).expect("written");
    std::fs::write(folder.join("jaco.yaml"), OVERLAY).expect("written");
    let out = cluster.cli(0, &["apply", folder.to_str().expect("text"), "--timeout", "60s"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    cluster
}

/// A path with the name of the deployment that there is.
fn filled(path: &str) -> String {
    path.replace("NAME", "shop")
}

/// R-OPS-1, R-CLI-4: each of three nodes answers every path over HTTP/1.1 and HTTP/2 and over its socket, with what the
/// command prints that is documented beside it.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_answers_as_the_command_line_prints() {
    let cluster = furnished(3).await;
    let (_, admin) = token(&cluster, "ann", "admin").await;
    for (number, node) in cluster.nodes.iter().enumerate() {
        for endpoint in ENDPOINTS.iter().filter(|endpoint| !endpoint.command.is_empty()) {
            let path = filled(endpoint.path);
            let what = format!("{path} of {} is what {} prints", node.name, endpoint.command);
            // Between two questions there may be a change.
            eventually(&what, || async {
                let line = filled(endpoint.command.strip_prefix("jaco ").expect("a command"));
                let mut expected = printed(&cluster, number, &line);
                if endpoint.path.ends_with("/nodes") {
                    expected = expected["nodes"].take();
                }
                for (version, spoken) in [(Version::Http1, "1.1"), (Version::Http2, "2")] {
                    let answer = ask(&cluster, node, version, &path, &["--header", &admin]).await;
                    if (answer.status, answer.version.as_str()) != (200, spoken) {
                        return Err(format!("{answer:?}"));
                    }
                    assert!(
                        answer.head.contains("content-type: application/json\r\n"),
                        "{answer:?}"
                    );
                    assert!(answer.head.contains("jaco-index: "), "{answer:?}");
                    let found = json(&answer);
                    if found != expected {
                        return Err(format!("{found}\nis not\n{expected}"));
                    }
                }
                let mut curl = Command::new("curl");
                curl.arg("--unix-socket").arg(node.socket()).arg(format!("http://localhost{path}"));
                let answer = run(curl).await;
                if json(&answer) == expected { Ok(()) } else { Err(format!("{answer:?}")) }
            })
            .await;
        }
    }
    let answer = |path| {
        let (node, admin) = (&cluster.nodes[0], admin.clone());
        let cluster = &cluster;
        async move { json(&ask(cluster, node, Version::Http1, path, &["--header", &admin]).await) }
    };
    // Nothing of this is empty, so that it says something.
    let status = answer("/api/v1/status").await;
    assert_eq!(status["deployments"][0]["name"], "shop");
    for (path, count) in [
        ("/api/v1/nodes", 3),
        ("/api/v1/replicas", 4),
        ("/api/v1/replicas?deployment=shop&service=web", 2),
        ("/api/v1/replicas?deployment=other", 0),
        ("/api/v1/jobs?deployment=shop", 1),
        ("/api/v1/routes", 1),
        ("/api/v1/networks", 1),
        ("/api/v1/volumes", 1),
        ("/api/v1/events?limit=2", 2),
    ] {
        let found = answer(path).await;
        assert_eq!(found.as_array().map(Vec::len), Some(count), "{path}: {found}");
    }
    assert_eq!(answer("/api/v1/deployments/shop?revision=1").await["name"], "shop");
}

async fn as_viewer(cluster: &Cluster, node: &Node, path: &str, more: &[&str]) -> Answer {
    let token = cluster.nodes[0].folder().join("viewer");
    let header = std::fs::read_to_string(token).expect("a viewer was made");
    let mut arguments = vec!["--header", header.as_str()];
    arguments.extend(more);
    ask(cluster, node, Version::Http2, path, &arguments).await
}

/// R-IN-3, R-FAULT-3: who has no token, or one of another role, is refused as over gRPC, in JSON, with the status and the
/// headers of HTTP; and so is what is wrong with a request.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_json_with_the_codes_of_rpcs() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let node = &cluster.nodes[0];
    let (_, authorization) = viewer(&cluster).await;
    let (secret, _) = token(&cluster, "gone", "viewer").await;
    let wrong = format!("authorization: Bearer {}", secret.replace("gone", "another"));
    let header = authorization.as_str();
    for version in [Version::Http1, Version::Http2] {
        for (path, arguments, status, code) in [
            ("/api/v1/status", vec![], 401, "unauthenticated"),
            ("/api/v1/nothing", vec![], 401, "unauthenticated"),
            ("/api/v1/status", vec!["--header", "authorization: Basic YTpi"], 401, "token_invalid"),
            ("/api/v1/status", vec!["--header", &wrong], 401, "token_invalid"),
            ("/api/v1/tokens", vec!["--header", header], 403, "permission_denied"),
            ("/api/v1/status?deploymnet=a", vec!["--header", header], 400, "invalid_request"),
            ("/api/v1/events?limit=5000", vec!["--header", header], 400, "invalid_request"),
            ("/api/v1/events?type=nonsense", vec!["--header", header], 400, "invalid_request"),
            ("/api/v1/events?since=never", vec!["--header", header], 400, "invalid_request"),
            ("/api/v1/deployments/shop", vec!["--header", header], 404, "deployment_not_found"),
            ("/api/v1/nothing", vec!["--header", header], 404, "invalid_request"),
            ("/api", vec!["--header", header], 404, "invalid_request"),
            ("/api/v1/status", vec!["--header", header, "--data", "x=1"], 405, "invalid_request"),
            (
                "/api/v1/status",
                vec!["--header", header, "--request", "DELETE"],
                405,
                "invalid_request",
            ),
        ] {
            let answer = ask(&cluster, node, version, path, &arguments).await;
            assert_eq!(answer.status, status, "{path} {arguments:?}: {answer:?}");
            let error = json(&answer)["error"].take();
            assert_eq!(error["code"], code, "{path}: {answer:?}");
            assert!(error["message"].as_str().is_some_and(|message| message.len() > 20), "{error}");
            let asks = answer.head.contains("www-authenticate: bearer");
            assert_eq!(asks, status == 401, "{}", answer.head);
            assert!(!answer.body.contains(&secret), "{}", answer.body);
        }
    }
    let answer =
        ask(&cluster, node, Version::Http1, "/api/v1/nothing", &["--header", header]).await;
    let listed = json(&answer)["paths"].take();
    let listed: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|row| row["path"].as_str()).collect();
    assert_eq!(listed, ENDPOINTS.iter().map(|endpoint| endpoint.path).collect::<Vec<_>>());
}

/// What a caller has already is not sent again, until it changes; `HEAD` has the head of `GET` and no content; events are
/// read on from where the last answer ended.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_not_sent_twice() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let node = &cluster.nodes[0];
    let (_, authorization) = viewer(&cluster).await;
    let header = authorization.as_str();
    std::fs::write(node.folder().join("viewer"), header).expect("written");
    for version in [Version::Http1, Version::Http2] {
        let first = ask(&cluster, node, version, "/api/v1/replicas", &["--header", header]).await;
        let line = |name: &str| {
            let line = first.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_else(|| panic!("{name} is not in {}", first.head)).to_owned()
        };
        let (tag, length) = (line("etag"), line("content-length"));
        assert_eq!(length, first.body.len().to_string());
        assert_eq!(line("cache-control"), "private, no-cache");
        let known = format!("if-none-match: {tag}");
        let again = ["--header", header, "--header", &known];
        let again = ask(&cluster, node, version, "/api/v1/replicas", &again).await;
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{again:?}");
        assert!(again.head.contains(&format!("etag: {tag}")), "{again:?}");
        let head = ["--header", header, "--head"];
        let head = ask(&cluster, node, version, "/api/v1/replicas", &head).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
        assert!(head.head.contains(&format!("content-length: {length}\r\n")), "{head:?}");
        assert!(head.head.contains(&format!("etag: {tag}\r\n")), "{head:?}");
        let head = ["--header", header, "--head"];
        let head = ask(&cluster, node, version, "/api/v1/nothing", &head).await;
        assert_eq!((head.status, head.body.as_str()), (404, ""), "{head:?}");

        let count = if version == Version::Http1 { 3 } else { 4 };
        deploy(&cluster, "shop", "web:1", count).await;
        let changed = as_viewer(&cluster, node, "/api/v1/replicas", &["--header", &known]).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        assert_eq!(json(&changed).as_array().map(Vec::len), Some(count as usize));
    }
    let all = printed(&cluster, 0, "audit");
    let all = all.as_array().expect("several");
    let mut read = vec![all[0].clone()];
    while read.len() < all.len() {
        let last = read.last().expect("there is one");
        let path = format!("/api/v1/events?limit=3&after={}/{}", last["index"], last["number"]);
        let page = json(&as_viewer(&cluster, node, &path, &[]).await);
        let page = page.as_array().expect("a list");
        assert!((1..=3).contains(&page.len()), "{page:?}");
        read.extend(page.iter().cloned());
    }
    assert_eq!(read[..all.len()], all[..]);
    let applied = json(&as_viewer(&cluster, node, "/api/v1/events?type=apply&limit=2", &[]).await);
    let kinds: Vec<_> =
        applied.as_array().expect("a list").iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["apply"; 2]);
}

/// A node without a quorum says how old its answers are.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_quorum_says_how_old_its_answers_are() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let (_, authorization) = viewer(&cluster).await;
    for number in [1, 2] {
        cluster.nodes[number].kill();
    }
    let node = &cluster.nodes[0];
    eventually("the answer is said to be old", || async {
        let with = ["--header", authorization.as_str()];
        let answer = ask(&cluster, node, Version::Http1, "/api/v1/status", &with).await;
        let is_said =
            answer.head.contains("jaco-stale-ms: ") && answer.head.contains("jaco-stale-node: ");
        let is_there = json(&answer)["stale"]["age_ms"].is_u64();
        if is_said && is_there && answer.status == 200 {
            Ok(())
        } else {
            Err(format!("{answer:?}"))
        }
    })
    .await;
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md")
}

/// The paths that the document has a section of.
fn documented() -> Vec<String> {
    let text = std::fs::read_to_string(document()).expect("it is there");
    let titles = text.lines().filter_map(|line| line.strip_prefix("### `GET "));
    titles.map(|title| title.split(['`', '?']).next().expect("a path").to_owned()).collect()
}

/// Every path is documented, nothing else is, and each of them answers.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_documented_is_answered() {
    let documented = documented();
    let served: Vec<_> = ENDPOINTS.iter().map(|endpoint| endpoint.path).collect();
    assert_eq!(documented, served);
    let cluster = furnished(1).await;
    let (_, admin) = token(&cluster, "ann", "admin").await;
    for path in documented {
        let (node, path) = (&cluster.nodes[0], filled(&path));
        let answer = ask(&cluster, node, Version::Http1, &path, &["--header", &admin]).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        json(&answer);
    }
}
