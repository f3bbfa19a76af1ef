//! Which networks a new cluster has.

use jaco_testkit::eventually_within;
use serde_json::Value;

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::succeeded;

const SHOP: &str = "
name: shop
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
";

/// What the container of `web` has of the network: its name.
fn network(machines: &Machines) -> String {
    let engine = &machines.engines[0];
    let id = engine.command(&["ps", "--quiet", "--filter", "label=jaco.service=web"]).output();
    let id = succeeded(&id.expect("docker runs"));
    let format = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}";
    let shown = engine.command(&["inspect", "--format", format, &id]).output();
    succeeded(&shown.expect("docker runs"))
}

/// NET-6: networks are the cluster's from the start, with the pool that was asked for.
#[tokio::test]
async fn a_new_cluster_has_networks_of_its_own() {
    let path = std::env::var("PATH").expect("there is one");
    let mut machines = Machines::start(1, &format!("{path}:/usr/sbin:/sbin")).await;
    let created = machines.found(&["--pool", "172.16.0.0/12", "--mtu", "1370"]).await;
    let json: Value = serde_json::from_slice(&created.stdout).expect("it is JSON");
    assert_eq!(json["network_pool"]["pool"], "172.16.0.0/12", "{json}");
    assert_eq!(String::from_utf8_lossy(&created.stderr), "");
    machines.apply(SHOP, None);
    machines.have_routers().await;
    let listed = machines.cluster.cli(0, &["network", "ls", "--output", "json"]);
    let listed = succeeded(&listed);
    assert!(listed.contains("172.17.0.0/24"), "{listed}");
    let replicas = machines.cluster.overview(0).await.expect("it answers").replicas;
    assert_eq!(replicas.len(), 1, "{replicas:?}");
}

/// Where no router can be made, the cluster says so, says what is missing and what to do, and runs what it
/// can.
#[tokio::test]
async fn a_machine_without_nft_gets_a_cluster_without_networks() {
    let empty = tempfile::tempdir().expect("temporary files can be made");
    let mut machines = Machines::start(1, empty.path().to_str().expect("ASCII")).await;
    let created = machines.found(&[]).await;
    let json: Value = serde_json::from_slice(&created.stdout).expect("it is JSON");
    assert_eq!(json["network_pool"], Value::Null, "{json}");
    let said = String::from_utf8_lossy(&created.stderr).into_owned();
    for word in
        ["services on different nodes do not reach each other", "nft", "jaco network enable"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    machines.apply(SHOP, None);
    assert!(!network(&machines).is_empty());
    eventually_within(PATIENCE, "the tried router has ended", || async {
        match jaco_testkit::router::pid(&machines.router(0)) {
            None => Ok(()),
            Some(pid) => Err(pid.to_string()),
        }
    })
    .await;
}
