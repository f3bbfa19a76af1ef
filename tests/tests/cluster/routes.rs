//! Routes and certificates from the command to the state, by real daemons.

use std::path::{Path, PathBuf};

use jaco_testkit::{Cluster, Engine, eventually};
use serde_json::Value;

/// Runs a command; its exit code, stdout and stderr.
pub(crate) fn ran(cluster: &Cluster, node: usize, args: &[&str]) -> (Option<i32>, String, String) {
    let out = cluster.cli(node, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

pub(crate) fn done(cluster: &Cluster, node: usize, args: &[&str]) -> (String, String) {
    let (code, out, err) = ran(cluster, node, args);
    assert_eq!(code, Some(0), "{args:?}: {err}");
    (out, err)
}

/// Writes a deployment of one service with these routes, and returns its folder.
pub(crate) fn manifest(cluster: &Cluster, name: &str, routes: &str) -> PathBuf {
    let folder = cluster.nodes[0].folder().join(name);
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    let compose = format!("name: {name}\nservices: {{web: {{image: web:1}}}}\n");
    std::fs::write(folder.join("compose.yaml"), compose).expect("it is written");
    let overlay = format!("deployment: {name}\nroutes: {routes}\n");
    std::fs::write(folder.join("jaco.yaml"), overlay).expect("it is written");
    folder
}

fn apply(cluster: &Cluster, node: usize, folder: &Path) -> (Option<i32>, String, String) {
    let folder = folder.to_str().expect("text");
    ran(cluster, node, &["apply", folder, "--timeout", "60s"])
}

/// The listed routes, as `DOMAIN PATH DEPLOYMENT TLS`.
fn routes(cluster: &Cluster, node: usize) -> Vec<String> {
    let (out, _) = done(cluster, node, &["route", "ls", "-o", "json"]);
    let listed: Value = serde_json::from_str(&out).expect("json");
    let row = |route: &Value| {
        let text = |key: &str| route[key].as_str().expect("text").to_owned();
        ["domain", "path", "deployment", "tls"].map(text).join(" ")
    };
    listed.as_array().expect("a list").iter().map(row).collect()
}

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/certificates/");

/// R-EDGE-2, R-CLI-5: routes are kept where the cluster has networks; one deployment has each; a rollback brings them
/// back and a deletion gives them up; every node lists the same, and the audit log tells each change.
#[tokio::test(flavor = "multi_thread")]
async fn routes_belong_to_one_deployment() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let shop = manifest(&cluster, "shop", "[{domain: example.com, service: web, port: 80}]");
    let (code, _, err) = apply(&cluster, 0, &shop);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("`jaco network enable` first"), "{err}");
    assert_eq!(routes(&cluster, 1), [""; 0]);
    eventually("all nodes have reported their versions", || async {
        let (code, _, err) = ran(&cluster, 1, &["network", "enable"]);
        if code == Some(0) { Ok(()) } else { Err(err) }
    })
    .await;

    let (out, _) = done(&cluster, 2, &["plan", shop.to_str().expect("text")]);
    assert!(out.contains("example.com") && out.contains("added"), "{out}");
    let (code, _, err) = apply(&cluster, 1, &shop);
    assert_eq!(code, Some(0), "{err}");
    for node in 0..3 {
        eventually("the node has applied it", || async {
            let listed = routes(&cluster, node);
            if listed == ["example.com / shop auto"] { Ok(()) } else { Err(listed.join(", ")) }
        })
        .await;
    }
    let blog = manifest(
        &cluster,
        "blog",
        "[{domain: example.com, service: web, port: 80}, {domain: example.com, path: /b, service: web, port: 80}]",
    );
    let (code, _, err) = apply(&cluster, 2, &blog);
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("route_conflict") && err.contains("example.com (deployment shop)"),
        "{err}"
    );

    manifest(
        &cluster,
        "shop",
        "[{domain: www.example.com, redirect: {to: 'https://example.com'}}]",
    );
    let (code, _, err) = apply(&cluster, 0, &shop);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = apply(&cluster, 0, &blog);
    assert_eq!(code, Some(0), "the route was given up: {err}");
    let (code, _, err) = ran(&cluster, 0, &["rollback", "shop", "--timeout", "60s"]);
    assert_eq!(code, Some(3), "its former route is another's by now: {err}");
    assert!(err.contains("deployment blog has the route example.com already"), "{err}");
    done(&cluster, 0, &["delete", "blog", "--yes"]);
    done(&cluster, 0, &["rollback", "shop", "--timeout", "60s"]);
    assert_eq!(routes(&cluster, 0), ["example.com / shop auto"]);
    let (out, _) =
        done(&cluster, 0, &["audit", "--type", "route_added,route_removed", "-o", "json"]);
    let events: Value = serde_json::from_str(&out).expect("json");
    assert_eq!(events.as_array().map(Vec::len), Some(9), "{events:#}");
}

/// R-EDGE-2, R-IN-5: a certificate is stored with its own key alone, shown without it, and kept while a route names it.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_kept_for_routes() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    eventually("the node has reported its version", || async {
        let (code, _, err) = ran(&cluster, 0, &["network", "enable"]);
        if code == Some(0) { Ok(()) } else { Err(err) }
    })
    .await;
    let cert = format!("{CERTIFICATES}shop.cert.pem");
    let set = |key: &str| {
        let key = format!("{CERTIFICATES}{key}");
        ran(&cluster, 0, &["certificate", "set", "own", "--cert", &cert, "--key", &key])
    };
    let shop = manifest(
        &cluster,
        "shop",
        "[{domain: '*.example.com', service: web, port: 80, tls: own}, {domain: a.de, service: web, port: 80, tls: own}]",
    );
    let (code, _, err) = apply(&cluster, 0, &shop);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("run `jaco certificate set own`"), "{err}");
    let (code, _, err) = set("other.key.pem");
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("certificate_unusable") && err.contains("does not belong"), "{err}");
    let (code, out, err) = set("shop.key.pem");
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "certificate own created: for *.example.com, example.com\n"),
        "{err}"
    );
    let (_, out, _) = set("shop.key.pem");
    assert!(out.contains("own unchanged"), "{out}");
    let (code, _, err) = apply(&cluster, 0, &shop);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("certificate own is not for a.de"), "{err}");
    let (out, _) = done(&cluster, 0, &["certificate", "ls", "-o", "json"]);
    let listed: Value = serde_json::from_str(&out).expect("json");
    assert_eq!(listed[0]["routes"], serde_json::json!(["*.example.com", "a.de"]), "{listed:#}");
    assert!(!out.contains("PRIVATE"), "{out}");
    let (code, _, err) = ran(&cluster, 0, &["certificate", "rm", "own"]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("certificate_in_use") && err.contains("*.example.com of shop"), "{err}");
    done(&cluster, 0, &["delete", "shop", "--yes"]);
    done(&cluster, 0, &["certificate", "rm", "own"]);
    let (out, _) = done(&cluster, 0, &["certificate", "ls", "-o", "json"]);
    assert_eq!(out.trim(), "[]");
}
