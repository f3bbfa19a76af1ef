//! Routers of three machines while a node joins, is cut off, comes by another address and is removed.

use jaco_testkit::eventually_within;

use crate::reach::{breaks_at, explained, holds};
use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::{ran, succeeded};

/// `web` on the first machine, `db` on all.
const SHOP: &str = "
name: shop
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
  db: {image: 'jaco-hello:v1', command: [serve]}
";

const PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n1]}
  - {name: db, placement: global}
";

const WAY: (&str, &str) = ("shop/web", "shop/db:8080");

/// All of the way holds, and its endpoints are replicas on exactly these nodes.
async fn reaches(machines: &Machines, nodes: &[&str]) {
    let all = ["n1", "n2", "n3"];
    eventually_within(PATIENCE, "the way holds", || async {
        let (code, json) = explained(&machines.cluster, WAY.0, WAY.1);
        // Behind them stand those that are not ready.
        let endpoints = json["steps"][2]["detail"].as_str().unwrap_or_default();
        let (endpoints, _) = endpoints.split_once(" ready").unwrap_or_default();
        let found: Vec<&str> =
            all.into_iter().filter(|node| endpoints.contains(&format!(" on {node}"))).collect();
        if code == Some(0) && found == nodes { Ok(()) } else { Err(format!("{json:#}")) }
    })
    .await;
    holds(&machines.cluster, WAY.0, WAY.1).await;
}

/// The addresses that lead into the tunnel of a machine.
fn routes(machines: &Machines, at: usize) -> String {
    let router = machines.router(at).join("router");
    let mut command = std::process::Command::new("nsenter");
    command.arg(format!("--net={}", router.display()));
    ran(command.args(["ip", "route", "show", "dev", "wg0"]))
}

/// R-CLI-3, NET-12: the routers of a cluster converge whatever happens to a node, and `jaco explain --to` names the node
/// while it is not reached.
#[tokio::test]
async fn routers_follow_nodes_that_join_move_and_leave() {
    let path = std::env::var("PATH").expect("there is one");
    let mut machines = Machines::start(3, &format!("{path}:/usr/sbin:/sbin")).await;
    machines.found_of(2, &[]).await;
    machines.apply(SHOP, Some(PLACES));
    reaches(&machines, &["n1", "n2"]).await;
    machines.cluster.join(2).await;
    reaches(&machines, &["n1", "n2", "n3"]).await;

    ran(machines.at_switch().args(["ip", "link", "set", "port2", "down"]));
    breaks_at(&machines.cluster, WAY.0, WAY.1, "tunnel", "n3 cannot be asked");
    ran(machines.at_switch().args(["ip", "link", "set", "port2", "up"]));
    reaches(&machines, &["n1", "n2", "n3"]).await;

    // By another address, and back by the one that is known: its daemon is not found meanwhile.
    let moves = |from: &str, to: &str| {
        ran(machines.inside(1).args(["ip", "address", "del", from, "dev", "wire"]));
        ran(machines.inside(1).args(["ip", "address", "add", to, "dev", "wire"]));
    };
    moves("10.99.0.2/24", "10.99.0.12/24");
    let (code, json) = explained(&machines.cluster, WAY.0, WAY.1);
    let steps = json["steps"].as_array().expect("a list");
    let last = steps.last().expect("not empty");
    let named = last["detail"].as_str().is_some_and(|detail| detail.contains("n2 cannot be asked"));
    assert!(code == Some(1) && last["holds"] == false && named, "{json:#}");
    moves("10.99.0.12/24", "10.99.0.2/24");
    reaches(&machines, &["n1", "n2", "n3"]).await;

    let replicas = machines.cluster.overview(0).await.expect("it answers").replicas;
    let on_third = replicas.iter().find(|replica| replica.node == "n3").expect("there is one");
    let address = on_third.addresses[0].address.clone();
    assert!(routes(&machines, 0).contains(&address));
    succeeded(&machines.cluster.cli(0, &["node", "rm", "n3", "--force"]));
    reaches(&machines, &["n1", "n2"]).await;
    for at in 0..2 {
        eventually_within(PATIENCE, "no way leads to the removed node", || async {
            let shown = routes(&machines, at);
            if shown.contains(&address) { Err(shown) } else { Ok(()) }
        })
        .await;
    }
}
