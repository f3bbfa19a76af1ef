//! Pages that look back and closer.

use jaco_json::difference::Change;
use jaco_proto::v1::{
    ExamineNetworkResponse, ExaminedRouter, ExaminedWay, LogLine, NodeInfo, PastInfo,
    ReplicaAddress, ReplicaInfo, StatusResponse,
};
use jaco_ui::{
    Around, DeploymentPage, DifferencePage, LogsPage, Named, NetworkPage, NodeThenPage,
    OverviewPage, Refused, line_text,
};

use crate::document::Document;
use crate::samples::{self, Had, NOW};

/// A day before now.
const THEN: i64 = NOW - 86_400_000;

fn status_then(text: &str) -> StatusResponse {
    let past = PastInfo { at_ms: THEN, kept_from: 3, kept_to: 200 };
    StatusResponse { past: Some(past), leader: String::new(), ..samples::status(text) }
}

fn around(text: &str, much: Had) -> Around {
    Around {
        upto: samples::had(
            much,
            text,
            vec![samples::event(text, 120), samples::event(text, 117), samples::event(text, 7)],
        ),
        later: samples::had(much, text, vec![samples::event(text, 125)]),
    }
}

pub(crate) fn overview_then(text: &str, much: Had) -> String {
    let cluster = samples::cluster(text, much);
    let page = OverviewPage {
        cluster: &cluster,
        status: Ok(status_then(text)),
        routes: samples::had(much, text, samples::routes(text)),
        voters: Ok(Vec::new()),
        backups: Ok(Vec::new()),
        find: text.to_owned(),
        around: Some(around(text, much)),
    };
    page.html(&samples::frame(text))
}

pub(crate) fn deployment_then(text: &str, much: Had) -> String {
    let (cluster, status) = (samples::cluster(text, much), status_then(text));
    let page = DeploymentPage {
        cluster: &cluster,
        deployment: &status.deployments[0],
        status: &status,
        history: Ok(Default::default()),
        routes: samples::had(much, text, samples::routes(text)),
        around: Some(around(text, much)),
    };
    page.html(&samples::frame(text))
}

pub(crate) fn node_then(text: &str, much: Had) -> String {
    let (cluster, status) = (samples::cluster(text, much), status_then(text));
    let name = &status.nodes[0].hostname;
    let page =
        NodeThenPage { cluster: &cluster, name, status: &status, around: around(text, much) };
    page.html(&samples::frame(text)).expect("the cluster had this node")
}

fn way(from: &str, to: &str) -> ExaminedWay {
    ExaminedWay {
        from: from.to_owned(),
        to: to.to_owned(),
        port: 7001,
        arrives: true,
        arrives_full: true,
        ..ExaminedWay::default()
    }
}

pub(crate) fn network(text: &str, much: Had) -> String {
    let t = || text.to_owned();
    let router = |node: String| ExaminedRouter {
        node,
        unreachable: t(),
        problem: t(),
        let_through: vec![t()],
    };
    let examined = ExamineNetworkResponse {
        routers: vec![router(t()), router("other".to_owned())],
        ways: vec![
            ExaminedWay { arrives: false, ..way(text, "other") },
            ExaminedWay { arrives_full: false, ..way("other", text) },
        ],
        mtu: 1400,
    };
    let page = NetworkPage {
        cluster: &samples::cluster(text, much),
        examined: samples::had(much, text, examined),
    };
    page.html(&samples::frame(text))
}

pub(crate) fn logs(text: &str) -> String {
    let t = || text.to_owned();
    let line = LogLine { replica: t(), node: t(), stream: t(), at_ms: NOW, text: t() };
    let page = LogsPage {
        cluster: &samples::cluster(text, Had::Everything),
        deployment: t(),
        service: t(),
        replica: t(),
        tail: 200,
        lines: vec![line.clone(), line],
        cut: Some(t()),
    };
    page.html(&samples::frame(text))
}

pub(crate) fn difference(text: &str) -> String {
    let t = || text.to_owned();
    let change = |from: Option<&str>, to: Option<&str>| Change {
        key: t(),
        from: from.map(Into::into),
        to: to.map(Into::into),
    };
    let page = DifferencePage {
        cluster: &samples::cluster(text, Had::Everything),
        deployment: t(),
        from: 1,
        to: 2,
        kept: vec![1, 2],
        changes: vec![change(Some(text), Some(text)), change(None, Some(text))],
    };
    page.html(&samples::frame(text))
}

fn text(html: &str) -> String {
    let page = Document::read(html);
    page.one("body").text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn links(html: &str) -> Vec<String> {
    let page = Document::read(html);
    page.all("a").filter_map(|it| it.attribute("href")).map(str::to_owned).collect()
}

/// R-OPS-1: an earlier moment says of when it is, what is not known of it, and what happened around it; ages are of then, and
/// each link that leaves the moment says so.
#[test]
fn an_earlier_moment_is_not_taken_for_now() {
    let overview = overview_then("x", Had::Everything);
    let said = text(&overview);
    assert!(said.contains("▲ This is the cluster as it was at index 120, of 2026-"), "{said}");
    assert!(
        said.contains("x can show 3 to 200. Ages are of that moment. Not known of then"),
        "{said}"
    );
    assert!(!said.contains("leader x Replicas"), "who led then is not known: {said}");
    let found = links(&overview);
    for (link, text) in [("/ui?at=117", "the event before"), ("/ui?at=125", "the event after")] {
        assert!(found.contains(&link.to_owned()), "{text}: {found:?}");
    }
    assert!(found.contains(&"/ui/deployments/x?at=120".to_owned()), "{found:?}");
    assert!(found.contains(&"/ui/nodes/x?at=120".to_owned()), "{found:?}");
    let now = ["/ui/network", "/ui/why?", "/ui/logs"];
    let deployment = deployment_then("x", Had::Everything);
    let node = node_then("x", Had::Everything);
    for (html, back) in [(&overview, ""), (&deployment, ""), (&node, "/ui/nodes/x")] {
        let leaves: Vec<_> = links(html)
            .into_iter()
            .filter(|it| {
                let is_of_a_node = it.starts_with("/ui/nodes/") && !it.contains("at=");
                (is_of_a_node && it != back) || now.iter().any(|now| it.starts_with(now))
            })
            .collect();
        assert_eq!(leaves, [""; 0], "what is of now is not mixed into what is of then");
        assert!(!html.contains("data-live"), "it does not change");
    }
    let node = text(&node);
    assert!(node.contains("Node x at index 120") && node.contains("What it was"), "{node}");
    assert!(!node.contains("Capacity") && !node.contains("votes"), "not known of then: {node}");
    let deployment = text(&deployment);
    assert!(deployment.contains("Deployment x at index 120"), "{deployment}");
    let html = deployment_then("x", Had::Everything);
    let changed_before = Document::read(&html);
    let updated = changed_before.all("time").find(|it| it.text.ends_with(" ago"));
    assert!(updated.is_some_and(|it| !it.text.contains('d')), "ages are of then: {updated:?}");
    let rows = deployment.matches("not yet").count();
    assert_eq!(rows, 1, "one event is later: {deployment}");
}

/// R-OPS-1: a page of now leads to no earlier moment by itself, and has no word of it.
#[test]
fn now_is_not_taken_for_an_earlier_moment() {
    for html in [
        samples::overview("x", Had::Everything),
        samples::deployment_page("x", Had::Everything),
        samples::node_page("x", Had::Everything),
    ] {
        assert!(!html.contains("as it was at index") && !html.contains("at=120"), "{html}");
        assert!(html.contains("data-live"), "it changes by itself");
    }
}

/// R-OPS-1: only ready replicas are endpoints, each with its networks, addresses and names.
#[test]
fn endpoints_are_those_of_ready_replicas() {
    let mut status = samples::status("shop");
    let replica = |id: &str, in_routing: bool| ReplicaInfo {
        id: id.to_owned(),
        deployment: "shop".to_owned(),
        service: "web".to_owned(),
        in_routing,
        addresses: vec![ReplicaAddress {
            network: "shop/default".to_owned(),
            address: format!("10.9.0.{}", id.len()),
        }],
        ..ReplicaInfo::default()
    };
    status.replicas = vec![replica("shop-web-0", true), replica("shop-web-10", false)];
    let cluster = samples::cluster("shop", Had::Everything);
    let page = DeploymentPage {
        cluster: &cluster,
        deployment: &status.deployments[0],
        status: &status,
        history: Ok(Default::default()),
        routes: Ok(Vec::new()),
        around: None,
    };
    let html = page.html(&samples::frame("ann"));
    let page = Document::read(&html);
    let place = page.elements.iter().position(|it| it.attribute("id") == Some("endpoints"));
    let place = place.expect("there is a section");
    let rows: Vec<_> =
        page.all("tr").filter(|it| it.within.contains(&place)).map(|it| it.text.clone()).collect();
    assert_eq!(rows.len(), 2, "a head and a row: {rows:?}");
    for part in ["web, web.shop, web.shop.jaco.internal", "shop/default", "10.9.0.10", "shop-web-0"]
    {
        assert!(rows[1].contains(part), "{part}: {rows:?}");
    }
}

/// R-OPS-1: the matrix has a cell for each direction, with what arrives; what is wrong is told with what helps, and what was not
/// measured is not called well.
#[test]
fn the_matrix_shows_who_reaches_whom() {
    let router = |node: &str, unreachable: &str| ExaminedRouter {
        node: node.to_owned(),
        unreachable: unreachable.to_owned(),
        ..ExaminedRouter::default()
    };
    let examined = ExamineNetworkResponse {
        routers: vec![router("n1", ""), router("n2", ""), router("n3", "no answer")],
        ways: vec![way("n1", "n2"), ExaminedWay { arrives: false, ..way("n2", "n1") }],
        mtu: 1400,
    };
    let cluster = samples::cluster("n1", Had::Everything);
    let page = NetworkPage { cluster: &cluster, examined: Ok(examined) };
    let html = page.html(&samples::frame("ann"));
    let rows: Vec<Vec<String>> =
        Document::read(&html).all("tr").map(|it| it.text.clone()).map(|row| vec![row]).collect();
    let rows: Vec<_> = rows.into_iter().map(|row| row.concat()).collect();
    let bare = |row: &String| row.replace(['●', '▲', '✕', '■', ' '], "");
    let rows: Vec<_> = rows.iter().map(bare).collect();
    assert_eq!(rows[0], "Fromn1n2n3");
    assert_eq!(rows[1], "n1–reachesnotneeded");
    assert_eq!(rows[2], "n2nothingarrives–notneeded");
    let said = text(&html);
    assert!(said.contains("n2 to n1: n1 does not answer the router of n2"), "{said}");
    assert!(said.contains("let UDP port 7001 pass from n2 to n1"), "{said}");
    assert!(said.contains("n3: not known: no answer"), "{said}");
    let refused = Refused { code: "timed_out".to_owned(), message: "too late".to_owned() };
    let page = NetworkPage { cluster: &cluster, examined: Err(refused) };
    let said = text(&page.html(&samples::frame("ann")));
    assert!(said.contains("▲ Not known: which node reaches which. too late"), "{said}");
    let page = NetworkPage { cluster: &cluster, examined: Ok(Default::default()) };
    let said = text(&page.html(&samples::frame("ann")));
    assert!(said.contains("no networks of its own"), "{said}");
}

/// R-OPS-1, R-IN-3: log lines are text whatever containers write, one line each, and a page that lacks some says so.
#[test]
fn log_lines_are_text() {
    let line = |text: &str| LogLine {
        replica: "shop-web-0".to_owned(),
        stream: "stderr".to_owned(),
        at_ms: NOW,
        text: text.to_owned(),
        ..LogLine::default()
    };
    let cluster = samples::cluster("n1", Had::Everything);
    let mut page = LogsPage {
        cluster: &cluster,
        deployment: "shop".to_owned(),
        service: "web".to_owned(),
        replica: String::new(),
        tail: 50,
        lines: vec![line("</pre><script>alert(1)</script>"), line("\u{1b}[31mred\u{202e}\r\n")],
        cut: None,
    };
    let html = page.html(&samples::frame("ann"));
    let document = Document::read(&html);
    let shown = &document.one("pre").text;
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines[0].ends_with("shop-web-0 stderr </pre><script>alert(1)</script>"), "{shown}");
    assert!(lines[1].ends_with("\u{fffd}[31mred\u{fffd}"), "{shown}");
    assert!(!html.contains("Not all"), "{html}");
    let lines = page.lines.iter().map(|line| line_text(line, Named::Replica));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        shown.lines().collect::<Vec<_>>(),
        "later ones look the same"
    );
    page.replica = "shop-web-0".to_owned();
    page.cut = Some("there is more".to_owned());
    let html = page.html(&samples::frame("ann"));
    assert!(text(&html).contains("▲ Not all: there is more"), "{html}");
    assert!(!Document::read(&html).one("pre").text.contains("shop-web-0"), "it is in the heading");
}

/// R-OPS-1: an empty side of a change is a dash, and revisions without a difference say so.
#[test]
fn differences_have_two_sides() {
    let cluster = samples::cluster("n1", Had::Everything);
    let change =
        Change { key: "services.web.image".to_owned(), from: None, to: Some("web:2".into()) };
    let mut page = DifferencePage {
        cluster: &cluster,
        deployment: "shop".to_owned(),
        from: 1,
        to: 2,
        kept: vec![1, 2],
        changes: vec![change],
    };
    let said = text(&page.html(&samples::frame("ann")));
    assert!(said.contains("services.web.image–\"web:2\""), "{said}");
    page.changes.clear();
    assert!(text(&page.html(&samples::frame("ann"))).contains("They are equal."));
}

/// A node of an earlier state leads to itself as it was: there may be none of that name now.
#[test]
fn nodes_of_then_lead_to_then() {
    let mut status = status_then("x");
    status.nodes = vec![NodeInfo { hostname: "n7".to_owned(), ..NodeInfo::default() }];
    let cluster = samples::cluster("x", Had::Everything);
    let page = OverviewPage {
        cluster: &cluster,
        status: Ok(status),
        routes: Ok(Vec::new()),
        voters: Ok(Vec::new()),
        backups: Ok(Vec::new()),
        find: String::new(),
        around: Some(around("x", Had::Everything)),
    };
    let html = page.html(&samples::frame("ann"));
    assert!(links(&html).contains(&"/ui/nodes/n7?at=120".to_owned()), "{html}");
}
