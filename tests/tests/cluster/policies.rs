//! R-IN-6: what deployments may reach of the nodes, over a rollback and a restore in another cluster.

use std::fs;
use std::path::Path;

use jaco_testkit::{Cluster, Engine, said, v1};
use serde_json::Value;

const REACHING: &str = "
name: shop
services:
  web:
    image: web:1
    volumes: ['/srv/media:/media']
";

const HARMLESS: &str = "
name: shop
services:
  web:
    image: web:2
";

fn run(cluster: &Cluster, node: usize, args: &[&str]) -> String {
    let output = cluster.cli(node, args);
    assert!(output.status.success(), "jaco {}: {}", args.join(" "), said(&output));
    said(&output)
}

fn refused(cluster: &Cluster, node: usize, args: &[&str]) -> String {
    let output = cluster.cli(node, args);
    assert!(!output.status.success(), "jaco {}: {}", args.join(" "), said(&output));
    said(&output)
}

fn project(compose: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    fs::write(folder.path().join("compose.yaml"), compose).expect("written");
    folder
}

fn apply(cluster: &Cluster, node: usize, compose: &str) {
    let folder = project(compose);
    let path = folder.path().to_str().expect("text");
    run(cluster, node, &["apply", "--detach", path]);
}

async fn policy(cluster: &Cluster, node: usize) -> (String, Vec<(String, Vec<String>)>) {
    let found = cluster.nodes[node].client().get_policy(v1::GetPolicyRequest {}).await;
    let found = found.expect("answered").policy.expect("there always is one");
    let grants = found.grants.into_iter().map(|one| (one.deployment, one.reaches));
    (found.mode, grants.collect())
}

async fn revision(cluster: &Cluster, node: usize) -> u64 {
    let status = cluster.overview(node).await.expect("answered");
    status.deployments.iter().find(|one| one.name == "shop").map_or(0, |one| one.revision)
}

/// R-IN-6: a rollback to a revision that reaches a node without a grant is refused through any node and changes nothing;
/// with the grant it is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_refused_by_the_policy() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let follower = (cluster.leader().await + 1) % 3;
    apply(&cluster, follower, REACHING);
    apply(&cluster, follower, HARMLESS);
    run(&cluster, follower, &["policy", "set", "refuse"]);
    for node in 0..3 {
        let why = refused(&cluster, node, &["rollback", "shop", "--to", "1", "--detach"]);
        assert!(why.contains("policy_refused") && why.contains("/srv/media"), "{why}");
    }
    for node in 0..3 {
        cluster.idle_index(node).await;
        assert_eq!(revision(&cluster, node).await, 2, "nothing was changed");
    }
    run(&cluster, follower, &["policy", "allow", "shop", "host-path=/srv/media"]);
    run(&cluster, follower, &["rollback", "shop", "--to", "1", "--detach"]);
    assert_eq!(revision(&cluster, cluster.leader().await).await, 3);
}

fn outcomes(shown: &str) -> Vec<(String, String, String)> {
    // Errors are printed after the result.
    let mut json = serde_json::Deserializer::from_str(shown).into_iter::<Value>();
    let report = json.next().and_then(Result::ok).unwrap_or_else(|| panic!("{shown}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = report["items"].as_array().expect("a list");
    let of = |item: &Value| (text(&item["kind"]), text(&item["name"]), text(&item["outcome"]));
    items.iter().map(of).collect()
}

fn restored(cluster: &Cluster, args: &[&str]) -> Vec<(String, String, String)> {
    let args = [&["restore", "-o", "json", "-q"], args].concat();
    outcomes(&String::from_utf8_lossy(&cluster.cli(0, &args).stdout))
}

fn has(outcomes: &[(String, String, String)], kind: &str, name: &str, outcome: &str) -> bool {
    outcomes.iter().any(|(k, n, o)| (k.as_str(), n.as_str(), o.as_str()) == (kind, name, outcome))
}

/// R-IN-6, R-CLI-6: a backup has the policy and its grants. In another cluster they are shown, and given only where that is
/// asked for; until then the deployment that needs them is refused there as any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_restored_only_on_request() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let file = folder.path().join("sun.jacobak");
    let file = file.to_str().expect("text");
    run(&cluster, 0, &["policy", "allow", "shop", "host-path=/srv/media"]);
    run(&cluster, 0, &["policy", "set", "refuse"]);
    apply(&cluster, 0, REACHING);
    run(&cluster, 0, &["backup", file]);
    assert!(Path::new(file).is_file());

    let other = Cluster::start(1, Engine::Fake).await;
    run(&other, 0, &["policy", "set", "refuse"]);
    run(&other, 0, &["policy", "allow", "blog", "privileged"]);
    let shown = said(&other.cli(0, &["restore", file, "--dry-run"]));
    assert!(shown.contains("grants host-path=/srv/media") && shown.contains("--policy"), "{shown}");
    let first = restored(&other, &[file]);
    assert!(has(&first, "grants", "shop", "skipped"), "{first:?}");
    assert!(has(&first, "policy", "refuse", "unchanged"), "{first:?}");
    assert!(has(&first, "deployment", "shop", "refused"), "{first:?}");
    let blog = || ("blog".to_owned(), vec!["privileged".to_owned()]);
    assert_eq!(policy(&other, 0).await, ("refuse".to_owned(), vec![blog()]));

    let second = restored(&other, &[file, "--policy"]);
    assert!(has(&second, "grants", "shop", "restored"), "{second:?}");
    assert!(has(&second, "deployment", "shop", "restored"), "{second:?}");
    let shop = ("shop".to_owned(), vec!["host-path=/srv/media".to_owned()]);
    assert_eq!(policy(&other, 0).await, ("refuse".to_owned(), vec![blog(), shop]));
    let third = restored(&other, &[file, "--policy"]);
    assert!(third.iter().all(|(_, _, outcome)| outcome == "unchanged"), "{third:?}");

    let open = Cluster::start(1, Engine::Fake).await;
    let kept = restored(&open, &[file]);
    assert!(has(&kept, "policy", "refuse", "skipped"), "{kept:?}");
    assert!(has(&kept, "deployment", "shop", "restored"), "only a warning there: {kept:?}");
    assert_eq!(policy(&open, 0).await.0, "warn");
    let asked = restored(&open, &[file, "--policy"]);
    assert!(has(&asked, "policy", "refuse", "restored"), "{asked:?}");
    assert_eq!(policy(&open, 0).await.0, "refuse");
}
