//! What a page says is so, and what is not known it says.

use jaco_proto::v1::{ClusterStatusResponse, NodeInfo, ReplicaInfo, StatusResponse};
use jaco_types::Rights;
use jaco_ui::{DeploymentPage, Frame, NodePage, OverviewPage, Refused, SignedIn, WhyPage};

use crate::document::Document;
use crate::samples::{self, Had, NOW};

fn frame() -> Frame {
    Frame {
        now_ms: NOW,
        by: "ann, viewer".to_owned(),
        rights: Rights::Viewer,
        signed_in: SignedIn::EachRequest,
        done: None,
    }
}

fn calm() -> ClusterStatusResponse {
    let node = |name: &str| NodeInfo {
        hostname: name.to_owned(),
        status: "ready".to_owned(),
        availability: "active".to_owned(),
        suffrage: "voter".to_owned(),
        joined_at_ms: NOW - 1000,
        ..NodeInfo::default()
    };
    ClusterStatusResponse {
        initialized: true,
        name: "prod".to_owned(),
        leader: "n1".to_owned(),
        answered_by: "n2".to_owned(),
        nodes: ["n1", "n2", "n3"].map(node).into(),
        ..ClusterStatusResponse::default()
    }
}

fn text(html: &str) -> String {
    let page = Document::read(html);
    page.one("body").text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn overview(cluster: &ClusterStatusResponse) -> String {
    let page = OverviewPage {
        cluster,
        status: Ok(StatusResponse::default()),
        routes: Ok(Vec::new()),
        voters: Ok(Vec::new()),
        backups: Ok(Vec::new()),
        find: String::new(),
        around: None,
    };
    text(&page.html(&frame()))
}

/// R-OPS-1: a cluster that is in order says so, and by whose word.
#[test]
fn a_calm_overview_says_who_knows() {
    let said = overview(&calm());
    assert!(said.contains("Nothing, as far as n2 knows."), "{said}");
    assert!(said.contains("Answered by n2 at") && said.contains("leader n1."), "{said}");
}

/// R-OPS-1: without a quorum nothing is called well, and the page says how old it is.
#[test]
fn lost_quorum_is_never_calm() {
    let old = samples::cluster("n2", Had::Little);
    let said = overview(&ClusterStatusResponse { nodes: calm().nodes, ..old });
    assert!(said.contains("✕ This page is old: what n2 knows is not current for 4.2s"), "{said}");
    assert!(said.contains("no quorum: nothing can be changed"), "{said}");
    assert!(!said.contains("Nothing, as far as"), "{said}");
}

/// R-OPS-1: a node that is down is told with its reason, and in the counts of votes.
#[test]
fn down_nodes_need_attention() {
    let mut cluster = calm();
    cluster.nodes[2].status = "down".to_owned();
    let said = overview(&cluster);
    assert!(said.contains("failing n3: not ready: it sends no heartbeat"), "{said}");
    assert!(said.contains("0 of 3 voters can be lost without losing the quorum"), "{said}");
}

/// R-OPS-1: what could not be asked for is called unknown, with the reason.
#[test]
fn what_is_missing_is_said() {
    let cluster = calm();
    let refused = || Refused { code: "no_leader".to_owned(), message: "nobody leads".to_owned() };
    let page = NodePage {
        cluster: &cluster,
        name: "n1",
        replicas: Err(refused()),
        facts: Err(refused()),
        top: Err(refused()),
        voters: Err(refused()),
    };
    let said = text(&page.html(&frame()).unwrap());
    for what in
        ["how much of it is used", "its replicas", "its hardware", "whether its vote counts"]
    {
        let expected = format!("▲ Not known: {what}. nobody leads (no_leader)");
        assert!(said.contains(&expected), "{said}");
    }
    let page =
        WhyPage { cluster: &cluster, question: Default::default(), answer: Some(Err(refused())) };
    assert!(
        text(&page.html(&frame())).contains("Not known: the answer of the leader. nobody leads")
    );
    let unknown = NodePage {
        cluster: &cluster,
        name: "n9",
        replicas: Ok(Vec::new()),
        facts: Ok(None),
        top: Ok(Default::default()),
        voters: Ok(Vec::new()),
    };
    assert_eq!(unknown.html(&frame()), None);
}

/// R-OPS-1: the map has each replica once, at its node, with its state.
#[test]
fn the_map_shows_where_replicas_are() {
    let cluster = calm();
    let replica = |number: usize, node: &str, state: &str| ReplicaInfo {
        id: format!("shop-web-{number}"),
        deployment: "shop".to_owned(),
        service: "web".to_owned(),
        node: node.to_owned(),
        state: state.to_owned(),
        ..ReplicaInfo::default()
    };
    let replicas = vec![
        replica(10, "n2", "failed"),
        replica(2, "n1", "running"),
        replica(0, "n1", "running"),
        replica(3, "", "pending"),
    ];
    let mut deployment = samples::deployment("web");
    deployment.name = "shop".to_owned();
    let status = StatusResponse { replicas, ..StatusResponse::default() };
    let page = DeploymentPage {
        cluster: &cluster,
        deployment: &deployment,
        status: &status,
        history: Ok(Default::default()),
        routes: Ok(Vec::new()),
        around: None,
    };
    let page = Document::read(&page.html(&frame()));
    let map = page.by_id("map").unwrap();
    let said = map.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "Node web not placed ▲ 3 pending n1 ● 0 running ● 2 running n2 ✕ 10 failed";
    let said = said.replace("running●", "running ●").replace("placed▲", "placed ▲");
    let squeeze = |text: &str| text.replace(' ', "");
    assert!(squeeze(&said).contains(&squeeze(expected)), "{said}");
    let row = page.by_id("replica-shop-web-10").expect("the map leads to the list");
    assert_eq!(row.text, "shop-web-10");
}

/// R-OPS-1: strangers learn nothing of the cluster, not even its name.
#[test]
fn strangers_see_where_to_sign_in() {
    let html = jaco_ui::Login::default().html();
    let page = Document::read(&html);
    let links: Vec<_> = page.all("a").filter_map(|it| it.attribute("href")).collect();
    assert_eq!(links, ["#main", "/ui"]);
    let token = page.by_id("token").unwrap();
    assert_eq!(
        (token.attribute("type"), token.attribute("autocomplete")),
        (Some("password"), Some("off"))
    );
    assert_eq!(page.one("form").attribute("method"), Some("post"));
}
