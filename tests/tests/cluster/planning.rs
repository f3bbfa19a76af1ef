//! Plans, explanations and forecasts of real daemons come true.

use std::path::PathBuf;

use jaco_testkit::{Cluster, Engine};
use serde_json::Value;

use crate::scenario::deploy;

/// Writes a compose file of one service; its path.
fn compose_file(cluster: &Cluster, name: &str, image: &str, replicas: u32) -> PathBuf {
    let folder = cluster.nodes[0].folder().join(format!("{name}-{}", image.replace(':', "-")));
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    let file = folder.join("compose.yaml");
    let text = format!(
        "name: {name}\nservices:\n  web:\n    image: {image}\n    deploy:\n      replicas: {replicas}\n"
    );
    std::fs::write(&file, text).expect("the folder was just made");
    file
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

/// R-CLI-2, R-CLI-7: a plan from any node is what happens; a stale plan is refused with exit code 8
/// and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn plan_is_executed_or_refused_as_stale() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let file = compose_file(&cluster, "shop", "web:2", 4);
    let plan = file.with_file_name("plan.json");
    let (path, plan) = (file.to_str().unwrap(), plan.to_str().unwrap());
    let args = ["plan", "-f", path, "--out", plan, "-o", "json", "--exit-code"];
    let out = cluster.cli(1, &args);
    assert_eq!(out.status.code(), Some(4), "{}", String::from_utf8_lossy(&out.stderr));
    let told = json(&out.stdout);
    let mut forecast: Vec<(String, String)> = told["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["replica"].as_str().unwrap().into(), row["node"].as_str().unwrap().into()))
        .collect();
    forecast.sort();
    assert_eq!(forecast.len(), 4, "{told:#}");

    // A second plan of the same files.
    let stale = file.with_file_name("stale.json");
    let stale = stale.to_str().unwrap();
    let more = compose_file(&cluster, "shop", "web:2", 5);
    let out = cluster.cli(1, &["plan", "-f", more.to_str().unwrap(), "--out", stale]);
    assert_eq!(out.status.code(), Some(0));

    let out = cluster.cli(2, &["apply", plan, "-o", "json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let status = cluster.overview(0).await.unwrap();
    let mut happened: Vec<_> =
        status.replicas.iter().map(|r| (r.id.clone(), r.node.clone())).collect();
    happened.sort();
    assert_eq!(forecast, happened);

    let out = cluster.cli(0, &["apply", stale]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(8), "{said}");
    assert!(said.contains("error[stale_plan]"), "{said}");
    let after = cluster.overview(0).await.unwrap();
    assert_eq!(after.deployments[0].revision, status.deployments[0].revision);
}

/// R-CLI-2: a cluster of one node cannot lose it.
#[tokio::test(flavor = "multi_thread")]
async fn impossible_drain_is_refused() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let file = compose_file(&cluster, "shop", "web:1", 2);
    let path = file.to_str().unwrap();
    let out = cluster.cli(0, &["apply", "-f", path, "--require-survive", "node"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(11), "{said}");
    assert!(said.contains("error[would_not_survive]") && said.contains("n1"), "{said}");
    assert!(cluster.overview(0).await.unwrap().deployments.is_empty());
    let out = cluster.cli(0, &["plan", "-f", path, "--require-survive", "zone"]);
    assert_eq!(out.status.code(), Some(11));
}

/// R-CLI-3: any node answers what-if questions, and the forecasts of a lost node and of a capacity
/// come true.
#[tokio::test(flavor = "multi_thread")]
async fn what_if_forecasts_come_true() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let leader = cluster.leader().await;
    let asked = (leader + 1) % 3;
    let out = cluster.cli(asked, &["whatif", "--scale", "web=5", "-o", "json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let told = json(&out.stdout);
    let rows = told["changes"].as_array().unwrap();
    let mut forecast: Vec<(String, String)> = rows
        .iter()
        .map(|row| (row["replica"].as_str().unwrap().into(), row["node"].as_str().unwrap().into()))
        .collect();
    forecast.sort();
    let before = cluster.overview(0).await.unwrap();
    assert_eq!(before.replicas.len(), 2, "nothing was changed");
    let scaled = cluster.cli(asked, &["scale", "shop/web", "5"]);
    assert_eq!(scaled.status.code(), Some(0), "{}", String::from_utf8_lossy(&scaled.stderr));
    let known: Vec<_> = before.replicas.iter().map(|replica| replica.id.clone()).collect();
    let after = cluster.converged(0, "shop").await;
    let new = after.replicas.iter().filter(|replica| !known.contains(&replica.id));
    let mut happened: Vec<_> = new.map(|r| (r.id.clone(), r.node.clone())).collect();
    happened.sort();
    assert_eq!(forecast, happened);

    let gone = cluster.cli(asked, &["whatif", "--lose", "n9"]);
    assert_eq!(gone.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("error[node_not_found]"));
}

/// R-CLI-3: the reasons why a replica waits, by node.
#[tokio::test(flavor = "multi_thread")]
async fn pending_replica_is_explained() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    let drained = cluster.cli(0, &["node", "cordon", "n2"]);
    assert_eq!(drained.status.code(), Some(0));
    deploy(&cluster, "shop", "web:1", 1).await;
    let leader = cluster.leader().await;
    let out = cluster.cli(1 - leader, &["explain", "shop/web", "-o", "json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let told = json(&out.stdout);
    assert_eq!(told["nodes"][0]["eligible"], true, "{told:#}");
    assert_eq!(told["nodes"][0]["of_service"], 1);
    assert_eq!(told["nodes"][1]["failed"][0]["rule"], "cordoned");
    let none = cluster.cli(0, &["explain", "shop/nobody"]);
    assert_eq!(none.status.code(), Some(3));
}

/// R-SEL-1: a label set on a running node makes it eligible for its selectors; an invalid label is
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn label_makes_a_node_eligible() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    let folder = cluster.nodes[0].folder().join("dedicated");
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
    write("compose.yaml", "services:\n  web:\n    image: web:1\n").unwrap();
    let overlay = "deployment: shop\nservices:\n  - {name: web, selectors: [fast]}\n";
    write("jaco.yaml", overlay).unwrap();
    let path = folder.to_str().unwrap();
    let out = cluster.cli(0, &["plan", path, "--exit-code"]);
    assert_eq!(out.status.code(), Some(5), "{}", String::from_utf8_lossy(&out.stderr));
    let labelled = cluster.cli(1, &["node", "label", "n2", "fast="]);
    assert_eq!(labelled.status.code(), Some(0), "{}", String::from_utf8_lossy(&labelled.stderr));
    let out = cluster.cli(0, &["apply", path]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let status = cluster.overview(0).await.unwrap();
    assert_eq!(status.replicas[0].node, "n2");
    for (node, label, code) in [("n2", "node.os=x", 3), ("n2", "a b=x", 3), ("n9", "a=b", 3)] {
        assert_eq!(cluster.cli(0, &["node", "label", node, label]).status.code(), Some(code));
    }
}

/// Writes `compose.yaml` and `jaco.yaml` of one deployment into a folder; its path.
fn folder(cluster: &Cluster, name: &str, compose: &str, overlay: &str) -> PathBuf {
    let folder = cluster.nodes[0].folder().join(name);
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    std::fs::write(folder.join("compose.yaml"), compose).expect("the folder was just made");
    std::fs::write(folder.join("jaco.yaml"), overlay).expect("the folder was just made");
    folder
}

/// R-CLI-2: a constraint that changes moves nobody, and the plan names the replicas that do not comply any more, as
/// long as they do not; it does not name those of other deployments.
#[tokio::test(flavor = "multi_thread")]
async fn plan_names_replicas_that_do_not_comply() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    let compose = "name: shop\nservices:\n  web:\n    image: web:1\n    deploy: {replicas: 2}\n";
    let apply = |overlay: &str| {
        let folder = folder(&cluster, "shop", compose, overlay);
        cluster.cli(0, &["apply", folder.to_str().unwrap()])
    };
    let out = apply("deployment: shop\n");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let on_n1 = "services:\n  - {name: web, constraints: hostname=n1}\n";
    let out = apply(&format!("deployment: shop\n{on_n1}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let told: Vec<_> = said.lines().filter(|line| line.contains("does not comply")).collect();
    assert_eq!(told.len(), 1, "{said}");
    assert!(told[0].ends_with("stays on n2: n2 does not satisfy node.hostname = n1"), "{said}");
    let status = cluster.overview(0).await.unwrap();
    assert_eq!(crate::scenario::per_node(&status).len(), 2, "nobody has moved");
    let file = compose_file(&cluster, "blog", "blog:1", 1);
    let out = cluster.cli(0, &["plan", "-f", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && !said.contains("does not comply"), "{said}");
}

/// R-CLI-1: a warning is given by the revision that introduces it, and not again by those that keep it.
#[tokio::test(flavor = "multi_thread")]
async fn warnings_are_given_once() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let warnings = |out: &std::process::Output| {
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
        said.matches("works differently").count()
    };
    let apply = |image: &str, rest: &str| {
        let compose = format!(
            "name: shop\nservices:\n  web:\n    image: {image}\n    restart: always\n{rest}"
        );
        let folder = folder(&cluster, "shop", &compose, "deployment: shop\n");
        cluster.cli(0, &["apply", folder.to_str().unwrap()])
    };
    assert_eq!(warnings(&apply("web:1", "")), 1);
    assert_eq!(warnings(&apply("web:2", "")), 0);
    assert_eq!(warnings(&cluster.cli(0, &["scale", "shop/web", "2"])), 0);
    assert_eq!(warnings(&cluster.cli(0, &["restart", "shop/web"])), 0);
    let other = "  db:\n    image: db:1\n    pid: host\n";
    let introduced = apply("web:2", other);
    let said = String::from_utf8_lossy(&introduced.stderr).into_owned();
    assert!(introduced.status.success() && !said.contains("`services.web.restart`"), "{said}");
}
