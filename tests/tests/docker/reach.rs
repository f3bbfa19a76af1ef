//! `jaco explain --to` and the packets of `jaco doctor` over two machines, each with an engine and a router of its own.

use std::process::Command;

use jaco_testkit::{Cluster, eventually_within};
use serde_json::Value;

use crate::mesh::{BLOG, BLOG_PLACES, Mesh, PATIENCE, ran, succeeded};

/// `web` on one machine, `db` on the other. `late` is never healthy.
pub(crate) const SHOP: &str = "
name: shop
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
  db: {image: 'jaco-hello:v1', command: [serve]}
";

const LATE: &str = "
name: late
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
  db:
    image: 'jaco-hello:v1'
    command: [serve]
    healthcheck: {test: [CMD, /hello, check, 'http://127.0.0.1:1/'], interval: 1s, retries: 100, start_period: 1h}
";

pub(crate) const PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n1]}
  - {name: db, placement: hosts, hosts: [n2]}
";

/// What `jaco explain --to` finds: the exit code and the steps.
pub(crate) fn explained(cluster: &Cluster, from: &str, to: &str) -> (Option<i32>, Value) {
    let output = cluster.cli(0, &["explain", from, "--to", to, "-o", "json"]);
    let json = serde_json::from_slice(&output.stdout);
    let json: Value = json.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), json)
}

/// All steps but the last hold; the last one is this one, with these words and a fix.
pub(crate) fn breaks_at(cluster: &Cluster, from: &str, to: &str, step: &str, words: &str) {
    let (code, json) = explained(cluster, from, to);
    let steps = json["steps"].as_array().expect("a list");
    let (last, held) = steps.split_last().expect("not empty");
    assert_eq!((code, &json["holds"]), (Some(1), &Value::Bool(false)), "{json:#}");
    assert!(held.iter().all(|step| step["holds"] == true), "{json:#}");
    assert!(last["holds"] == false && last["step"] == step, "{json:#}");
    assert!(last["detail"].as_str().is_some_and(|detail| detail.contains(words)), "{json:#}");
    assert!(last["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{json:#}");
}

pub(crate) async fn holds(cluster: &Cluster, from: &str, to: &str) {
    eventually_within(PATIENCE, "all of it holds", || async {
        let (code, json) = explained(cluster, from, to);
        if code == Some(0) { Ok(()) } else { Err(format!("{json:#}")) }
    })
    .await;
    let (_, json) = explained(cluster, from, to);
    let steps = json["steps"].as_array().expect("a list");
    let names: Vec<&str> = steps.iter().filter_map(|step| step["step"].as_str()).collect();
    assert_eq!(names, ["network", "name", "endpoints", "tunnel", "applied", "connect"]);
}

/// The row of a node in the matrix of the page: what reaches the others from it, by their names.
fn reached_from(mesh: &Mesh, from: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--unix-socket"]).arg(mesh.cluster.nodes[0].socket());
    let page = ran(curl.arg("http://localhost/ui/network"));
    let head = format!("href=\"/ui/nodes/{from}\">{from}</a></th>");
    let row = page.split("<tr>").find(|row| row.contains(&head));
    let row = row.unwrap_or_else(|| panic!("no row of {from}: {page}"));
    row.split_once("</tr>").expect("a row ends").0.to_owned()
}

/// R-CLI-3, R-OPS-1: `jaco explain --to`, and the page's matrix of nodes, say of each break which it is, while it lasts.
#[tokio::test]
async fn explain_names_what_breaks_the_way() {
    let mesh = Mesh::start().await;
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    mesh.apply(SHOP, PLACES);
    mesh.apply(BLOG, BLOG_PLACES);
    for (from, to) in [("shop/web", "shop/db:8080"), ("shop/db-0", "shop/web-0:8080")] {
        holds(&mesh.cluster, from, to).await;
    }
    for from in ["n1", "n2"] {
        let row = reached_from(&mesh, from);
        assert!(row.contains("reaches") && !row.contains("nothing arrives"), "{row}");
    }
    breaks_at(&mesh.cluster, "shop/web", "blog/web", "network", "no network connects them");
    breaks_at(&mesh.cluster, "shop/web", "shop/db:5432", "connect", "nothing listens");
    // Where both are on one machine, there is no tunnel between them, and the same answer.
    breaks_at(&mesh.cluster, "shop/web", "shop/web-0:5432", "connect", "nothing listens");
    holds(&mesh.cluster, "shop/web", "shop/web-0:8080").await;
    // Nothing was left of the connections that were tried.
    let db = mesh.container(1, "shop", "db");
    let pid = ran(&mut mesh.engines[1].command(&["inspect", "--format", "{{.State.Pid}}", &db]));
    let open =
        ran(Command::new("nsenter").args(["--net", "--target", &pid, "cat", "/proc/net/tcp"]));
    let half_open = open.lines().filter(|line| line.split_whitespace().nth(3) == Some("03"));
    assert_eq!(half_open.count(), 0, "{open}");

    let folder = tempfile::tempdir().expect("temporary files can be made");
    std::fs::write(folder.path().join("compose.yaml"), LATE).expect("written");
    std::fs::write(folder.path().join("jaco.yaml"), PLACES).expect("written");
    let path = folder.path().to_str().expect("a path in ASCII");
    succeeded(&mesh.cluster.cli(0, &["apply", path, "--detach"]));
    eventually_within(PATIENCE, "the endpoint is not ready", || async {
        let (_, json) = explained(&mesh.cluster, "late/web", "late/db");
        let steps = json["steps"].as_array().expect("a list");
        let last = steps.last().expect("not empty");
        let starting = last["detail"].as_str().is_some_and(|found| found.contains("is starting"));
        if last["step"] == "endpoints" && starting { Ok(()) } else { Err(format!("{json:#}")) }
    })
    .await;
    breaks_at(&mesh.cluster, "late/web", "late/db", "endpoints", "late-db-0 on n2 is starting");

    // UDP in one direction, then in none, while the daemons go on talking.
    let drop = |at: usize, chain: &str| {
        let mut nft = mesh.inside(at);
        let rules = format!(
            "table inet cut {{ chain {chain} {{ type filter hook {chain} priority 0; udp dport 51820 drop; }}; }}"
        );
        ran(nft.args(["nft", &rules]));
    };
    drop(1, "input");
    breaks_at(
        &mesh.cluster,
        "shop/web",
        "shop/db:8080",
        "tunnel",
        "n1 hears n2, and n2 does not hear n1",
    );
    assert!(reached_from(&mesh, "n1").contains("nothing arrives"));
    drop(0, "input");
    breaks_at(
        &mesh.cluster,
        "shop/web",
        "shop/db:8080",
        "tunnel",
        "no packet passes between n1 and n2",
    );
    for from in ["n1", "n2"] {
        let row = reached_from(&mesh, from);
        assert!(row.contains("nothing arrives") && !row.contains("reaches"), "{row}");
    }
    for at in 0..2 {
        ran(mesh.inside(at).args(["nft", "delete table inet cut"]));
    }
    holds(&mesh.cluster, "shop/web", "shop/db:8080").await;
}

/// The findings of `jaco doctor` about packets, as check, object and severity.
fn found(mesh: &Mesh) -> Vec<String> {
    let output = mesh.cluster.cli(0, &["doctor", "-o", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let line = |one: &Value| {
        let field = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        assert!(!field("help").is_empty(), "{one}");
        format!("{} {} {}", field("severity"), field("check"), field("object"))
    };
    let of_packets = |line: &String| {
        ["tunnel", "mtu", "isolation", "router"]
            .iter()
            .any(|check| line.contains(&format!(" {check} ")))
    };
    json["findings"].as_array().expect("a list").iter().map(line).filter(of_packets).collect()
}

async fn finds(mesh: &Mesh, expected: &[&str]) {
    eventually_within(PATIENCE, "exactly these findings", || async {
        let found = found(mesh);
        if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
    })
    .await;
}

/// R-CLI-6, NET-7: `jaco doctor` names pairs of nodes, the direction and the kind of packet that does not pass, or that
/// passes and must not.
#[tokio::test]
async fn doctor_sends_packets_between_routers() {
    let mesh = Mesh::start().await;
    assert_eq!(found(&mesh), [""; 0], "without networks nothing is sent");
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    mesh.apply(SHOP, PLACES);
    finds(&mesh, &[]).await;
    // A link that takes less at its far end and says nothing about it, as behind another router.
    ran(mesh.inside(1).args(["ip", "link", "set", "wire", "mtu", "1280"]));
    finds(&mesh, &["failing mtu n1 to n2", "warning mtu n2 to n1"]).await;
    let small = "between n1 and n2 small packets pass, those of 1420 bytes do not";
    breaks_at(&mesh.cluster, "shop/web", "shop/db:8080", "tunnel", small);
    ran(mesh.inside(0).args(["ip", "link", "set", "wire", "mtu", "1280"]));
    finds(&mesh, &["warning mtu n1 to n2", "warning mtu n2 to n1"]).await;
    for at in 0..2 {
        ran(mesh.inside(at).args(["ip", "link", "set", "wire", "mtu", "1500"]));
    }
    finds(&mesh, &[]).await;
    // Rules that let everything pass, again and again: the router puts them right at once.
    let mut open = Command::new("nsenter");
    open.arg(format!("--net={}", mesh.router(1).join("router").display()));
    let again =
        "for _ in $(seq 2000); do nft insert rule inet jaco forward accept; sleep 0.02; done";
    let mut opening = open.args(["sh", "-c", again]).spawn().expect("nsenter is there");
    finds(&mesh, &["failing isolation n1 to n2"]).await;
    let begun = std::time::Instant::now();
    found(&mesh);
    let taken = begun.elapsed();
    assert!(taken.as_secs() < 5, "{taken:?}");
    opening.kill().expect("it is ours");
    opening.wait().expect("it ends");
    finds(&mesh, &[]).await;
    // UDP in one direction; then the whole wire.
    let rules = "table inet cut { chain input { type filter hook input priority 0; udp dport 51820 drop; }; }";
    ran(mesh.inside(1).args(["nft", rules]));
    finds(&mesh, &["failing tunnel n1 to n2"]).await;
    ran(mesh.inside(1).args(["nft", "delete table inet cut"]));
    // The whole wire: the daemons do not reach each other either.
    ran(mesh.inside(1).args(["ip", "link", "set", "wire", "down"]));
    finds(&mesh, &["failing tunnel n1 to n2"]).await;
    breaks_at(&mesh.cluster, "shop/web", "shop/db:8080", "tunnel", "n2 cannot be asked");
    ran(mesh.inside(1).args(["ip", "link", "set", "wire", "up"]));
    holds(&mesh.cluster, "shop/web", "shop/db:8080").await;
}
