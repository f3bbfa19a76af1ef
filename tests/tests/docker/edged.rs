//! A machine with an edge, and an address outside of it for clients.

use std::net::{IpAddr, Ipv4Addr};

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::{eventually_within, ran, router};

/// The address of the edge.
pub(crate) const EDGE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));

/// The address of the clients, in the namespace of the switch.
pub(crate) const CLIENT: &str = "10.99.0.100";

/// A cluster of one machine, which has a router and gets an edge with its first route.
pub(crate) async fn start() -> Machines {
    let path = std::env::var("PATH").expect("there is one");
    let mut machines = Machines::start(1, &format!("{path}:/usr/sbin:/sbin")).await;
    let address = format!("{CLIENT}/24");
    ran(machines.at_switch().args(["ip", "address", "add", &address, "dev", "switch"]));
    machines.found(&["--name", "edge"]).await;
    machines.have_routers().await;
    machines
}

/// The process of the edge.
pub(crate) fn process(machines: &Machines) -> u32 {
    let pids = router::edges(&machines.router(0));
    assert_eq!(pids.len(), 1, "one edge runs: {pids:?}");
    pids[0]
}

/// Waits until the edge carries out so many routes.
pub(crate) async fn serves(machines: &Machines, count: usize) {
    eventually_within(PATIENCE, "the edge serves", || async {
        let listed = machines.cluster.cli(0, &["route", "ls", "-o", "json"]);
        let text = String::from_utf8_lossy(&listed.stdout);
        let routes: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let routes = routes.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_done = routes.len() == count && routes.iter().all(|route| route["edges"] == 1);
        if is_done { Ok(()) } else { Err(format!("{listed:?}")) }
    })
    .await;
}
