//! What goes over the line.

use jaco_proto::v1::{NodeInfo, ReplicaInfo};
use jaco_ui::{OverviewPage, assets};

use crate::samples::{self, Had};

/// The bytes that the figures allow.
const BYTES_MAX: usize = 150 << 10;

/// R-OPS-1: the overview with all that it loads has at most 150 KiB, also of a cluster with more of everything than it shows,
/// the longest names that there are, and trouble everywhere.
#[test]
fn overview_fits_whatever_there_is() {
    let name = |number: usize| format!("{:x<59}{number:04}", "");
    let mut cluster = samples::cluster("n", Had::Everything);
    let node = |number| NodeInfo {
        hostname: name(number),
        status: "down".to_owned(),
        status_reason: "it sends nothing at all, and nobody knows why that is so ".repeat(5),
        ..samples::node("ready")
    };
    cluster.nodes = (0..1000).map(node).collect();
    let mut status = samples::status("x");
    let deployment = |number| {
        let mut deployment = samples::deployment("x");
        deployment.name = name(number);
        deployment.services[0].name = name(number);
        deployment
    };
    status.deployments = (0..1000).map(deployment).collect();
    let replica =
        |number| ReplicaInfo { id: name(number), ..samples::replica(&name(number), "failed") };
    status.replicas = (0..1000).map(replica).collect();
    let page = OverviewPage {
        cluster: &cluster,
        status: Ok(status),
        routes: Ok(Vec::new()),
        voters: Ok(Vec::new()),
        backups: Ok(Vec::new()),
        find: String::new(),
        around: None,
    };
    let html = page.html(&samples::frame("ann, viewer"));
    let beside: usize = assets::ALL.iter().map(|asset| asset.content.len()).sum();
    let whole = html.len() + beside;
    assert!(whole <= BYTES_MAX, "{} and {beside} beside it", html.len());
    assert!(html.contains("1000 deployments; the first") && html.contains("1000 nodes; the first"));
    assert!(html.contains(" more are not shown here"));
}
