//! Clusters that are looked at, and what is done to them.

use std::process::Output;

use jaco_testkit::browser::{Browser, Scripts, Site};
use jaco_testkit::{Cluster, Engine, Node, succeeded, v1};
use serde_json::Value;

/// Three nodes with a deployment of several services.
pub(crate) async fn cluster() -> Cluster {
    let cluster = Cluster::start(3, Engine::Fake).await;
    apply(&cluster, "shop", 5);
    cluster
}

/// Applies a deployment with so many replicas of its service `web`, and waits until they run.
pub(crate) fn apply(cluster: &Cluster, name: &str, replicas: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("compose.yaml");
    let text = format!(
        "name: {name}\nservices:\n  web:\n    image: web:1\n    deploy:\n      replicas: {replicas}\n  db:\n    image: db:1\n"
    );
    std::fs::write(&file, text).expect("written");
    jaco(cluster, &["apply", file.to_str().expect("a path")]);
}

/// Runs `jaco` at the first node.
pub(crate) fn jaco(cluster: &Cluster, arguments: &[&str]) -> String {
    let output: Output = cluster.cli(0, arguments);
    succeeded(&output)
}

/// Where the page of a node is.
pub(crate) fn site(cluster: &Cluster, node: &Node) -> Site {
    Site {
        name: format!("{}.internal", cluster.id),
        address: node.address.clone(),
        authority: node.folder().join("data/node/ca.crt"),
    }
}

/// A token of this role.
pub(crate) async fn token(cluster: &Cluster, name: &str, role: &str) -> String {
    let request = v1::IssueOperatorTokenRequest {
        name: name.to_owned(),
        role: role.to_owned(),
        ..Default::default()
    };
    cluster.client().issue_operator_token(request).await.expect("issued").token
}

/// A browser at a page of the first node, signed in as a viewer.
pub(crate) async fn signed_in(cluster: &Cluster, scripts: Scripts, path: &str) -> Browser {
    let name = match scripts {
        Scripts::Run => "ann",
        Scripts::Blocked => "bob",
    };
    signed_in_as(cluster, scripts, path, (name, "viewer")).await
}

/// A browser at a page of the first node, signed in with a token of this name and role.
pub(crate) async fn signed_in_as(
    cluster: &Cluster,
    scripts: Scripts,
    path: &str,
    (name, role): (&str, &str),
) -> Browser {
    let token = token(cluster, name, role).await;
    let browser = Browser::start(&site(cluster, &cluster.nodes[0]), scripts).await;
    browser.open(path).await;
    sign_in(&browser, &token).await;
    assert_eq!(browser.path().await, path);
    browser
}

/// A browser at a page of the first node, signed in as whoever may open its socket.
pub(crate) async fn signed_in_by_link(cluster: &Cluster, scripts: Scripts, path: &str) -> Browser {
    let made: Value = serde_json::from_str(&jaco(cluster, &["ui", "-o", "json"])).expect("JSON");
    let browser = Browser::start(&site(cluster, &cluster.nodes[0]), scripts).await;
    let url = made["url"].as_str().expect("an address");
    browser.open(url.strip_prefix(browser.origin()).expect("an address of this node")).await;
    browser.follow("form.login button").await;
    browser.open(path).await;
    browser
}

/// Fills in the form.
pub(crate) async fn sign_in(browser: &Browser, token: &str) {
    browser.fill("#token", token).await;
    browser.follow("form.login button").await;
}

/// The pages that a viewer has.
pub(crate) const PAGES: [&str; 6] = [
    "/ui",
    "/ui/deployments/shop",
    "/ui/nodes/n1",
    "/ui/why?deployment=shop&service=web",
    "/ui/whatif?lose=n2",
    "/ui/audit",
];

/// The pages that a viewer has, those that are about another time and of what is measured included.
pub(crate) fn all_pages() -> Vec<&'static str> {
    [&PAGES[..], &["/ui?at=15", "/ui/deployments/shop?at=25", "/ui/network"]].concat()
}

/// A function body that puts one text in the place of all that is of a moment, removes how much of a node is in use, and hides
/// the line that says whether the page is live: what is left is the same whenever it is looked at.
pub(crate) const STILL: &str = "
    for (const time of document.querySelectorAll('time')) { time.textContent = 'then'; time.removeAttribute('datetime'); time.removeAttribute('title'); }
    for (const line of document.querySelectorAll('.answered')) line.textContent = 'answered';
    document.getElementById('usage')?.remove();
    document.getElementById('live').textContent = 'live';
    return document.getElementById('main').innerHTML;
";
