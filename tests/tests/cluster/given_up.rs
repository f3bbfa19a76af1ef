//! Changes of what runs after a revision was given up: they start from what serves, not from what failed.

use jaco_testkit::{Cluster, Engine};
use serde_json::Value;

use crate::scenario::{containers, deploy};

/// A service whose containers end at once.
const FAILING: &str = "labels: {jaco.fake.exit_code: '1'}\n    deploy: {replicas: 2}\n";

/// Applies files that fail, and returns the exit code.
fn apply(cluster: &Cluster, services: &str) -> Option<i32> {
    let file = cluster.nodes[0].folder().join("compose.yaml");
    std::fs::write(&file, format!("services:\n{services}")).expect("it can be written");
    let file = file.to_str().expect("text");
    cluster.cli(0, &["apply", "-f", file, "--name", "shop"]).status.code()
}

fn json(cluster: &Cluster, args: &[&str]) -> Value {
    let out = cluster.cli(0, &[args, &["-o", "json"]].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "jaco {}: {said}", args.join(" "));
    serde_json::from_slice(&out.stdout).expect("json")
}

/// R-ROLL-3, R-CLI-6: after a revision was given up, a restart replaces what serves by the same, and a new number of
/// replicas changes nothing else; what failed comes back with an apply of its files only.
#[tokio::test(flavor = "multi_thread")]
async fn restart_and_scale_start_from_what_serves() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let before = containers(&cluster.converged(0, "shop").await);
    let failing = format!("  web:\n    image: web:2\n    {FAILING}");
    assert_eq!(apply(&cluster, &failing), Some(6));

    let done = json(&cluster, &["restart", "shop/web"]);
    assert_eq!((done["revision"].as_u64(), &done["outcome"]), (Some(3), &"converged".into()));
    let after = cluster.converged(0, "shop").await;
    assert!(after.replicas.iter().all(|one| one.image == "web:1"), "{after:?}");
    let new = containers(&after);
    assert_eq!(new.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(before.iter().all(|(id, container)| new[id] != *container), "{before:?} {new:?}");

    assert_eq!(apply(&cluster, &failing), Some(6), "an apply is another attempt");
    assert_eq!(apply(&cluster, &failing), Some(6), "and so is the next");
    let done = json(&cluster, &["scale", "shop/web", "3"]);
    assert_eq!((done["revision"].as_u64(), &done["outcome"]), (Some(6), &"converged".into()));
    let scaled = cluster.converged(0, "shop").await;
    assert!(scaled.replicas.iter().all(|one| one.image == "web:1"), "{scaled:?}");
    let now = containers(&scaled);
    assert_eq!(now.len(), 3);
    assert!(new.iter().all(|(id, container)| now[id] == *container), "{new:?} {now:?}");
}

/// R-ROLL-3, R-CLI-6: where a service of the revision that was given up stays, no revision is what runs: nothing is
/// changed, and it is said what leads on.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_changed_where_no_revision_is_what_runs() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let failing = format!("  cache:\n    image: cache:1\n  web:\n    image: web:2\n    {FAILING}");
    assert_eq!(apply(&cluster, &failing), Some(6));
    for args in [&["restart", "shop"][..], &["scale", "shop/web", "3"]] {
        let refused = cluster.cli(0, args);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(3), "{args:?}: {said}");
        assert!(said.contains("revision 2 of shop was rolled back to 1, without cache"), "{said}");
        assert!(said.contains("jaco rollback shop"), "{said}");
    }
    let status = cluster.overview(0).await.expect("it answers");
    assert_eq!(status.deployments[0].revision, 2);

    json(&cluster, &["rollback", "shop"]);
    let done = json(&cluster, &["restart", "shop"]);
    assert_eq!(done["outcome"], "converged");
    let images: Vec<_> = cluster.converged(0, "shop").await.replicas;
    assert!(images.iter().all(|one| one.image == "web:1"), "{images:?}");
}

/// R-ROLL-3, R-IN-5: the new version of a secret is rolled into what serves.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_rolled_into_what_serves() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let value = cluster.nodes[0].folder().join("value");
    let value = value.to_str().expect("text");
    let store = |secret: &str| {
        std::fs::write(value, secret).expect("it can be written");
        json(&cluster, &["secret", "set", "db", value, "--for-all"]);
    };
    store("one");
    let service = |image: &str, more: &str| {
        format!(
            "  web:\n    image: {image}\n    secrets: [db]\n    {more}secrets: {{db: {{external: true}}}}\n"
        )
    };
    assert_eq!(apply(&cluster, &service("web:1", "deploy: {replicas: 2}\n")), Some(0));
    assert_eq!(apply(&cluster, &service("web:2", FAILING)), Some(6));
    store("two");
    let rolled = json(&cluster, &["secret", "roll", "db"]);
    let held = json(&cluster, &["secret", "get", "db"]);
    let versions = &held["uses"][0]["versions"];
    assert_eq!(
        (&versions[0]["version"], &versions[0]["replicas"]),
        (&2.into(), &2.into()),
        "{rolled}"
    );
    assert_eq!(versions.as_array().map(Vec::len), Some(1), "{held}");
    let status = cluster.converged(0, "shop").await;
    assert!(status.replicas.iter().all(|one| one.image == "web:1"), "{status:?}");
}
