//! Which node reaches which over the networks of the cluster, measured when the page is asked for.

use std::collections::BTreeMap;

use jaco_proto::v1::{ClusterStatusResponse, ExamineNetworkResponse, ExaminedWay};
use jaco_sentences::attention::Severity;
use jaco_sentences::network::trouble;
use jaco_sentences::quantity::natural_order;

use crate::badge::{Mood, shaped};
use crate::cells::{Table, section, sentence};
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::problem::Part;
use crate::shell::{Frame, Page, Place};

/// How many nodes the matrix has. Further ones are in the list of what is wrong alone.
const NODES_MAX: usize = 40;

/// The links between nodes.
#[derive(Debug)]
pub struct NetworkPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// What the routers have measured.
    pub examined: Part<ExamineNetworkResponse>,
}

impl NetworkPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let content = match &self.examined {
            Err(refused) => vec![refused.note("which node reaches which")],
            Ok(examined) if examined.routers.is_empty() => {
                vec![sentence(
                    "The cluster has no networks of its own, so there is nothing to measure.",
                )]
            }
            Ok(examined) => vec![matrix(examined), wrong(examined)],
        };
        // Packets are sent for it: it is not made again by itself.
        let page =
            Page { heading: "Network".to_owned(), place: Place::Elsewhere, content, live: None };
        page.html(frame, Some(self.cluster))
    }
}

/// A row for each node that sends, a column for each that receives.
fn matrix(examined: &ExamineNetworkResponse) -> Element {
    let mut nodes: Vec<&str> = examined.routers.iter().map(|router| router.node.as_str()).collect();
    nodes.sort_by(|a, b| natural_order(a, b));
    nodes.truncate(NODES_MAX);
    let ways: BTreeMap<(&str, &str), &ExaminedWay> =
        examined.ways.iter().map(|way| ((way.from.as_str(), way.to.as_str()), way)).collect();
    let mut table = Table::new("From the node of the row to that of the column", &["From"]);
    for node in &nodes {
        table.head((*node).to_owned());
    }
    for from in &nodes {
        let cells = nodes.iter().map(|to| match ways.get(&(*from, *to)) {
            _ if from == to => "–".into(),
            Some(way) => cell(way, examined.mtu),
            None => "not needed".into(),
        });
        let head: Node = el("a").href(&Link::node(from)).with((*from).to_owned()).into();
        table.row(std::iter::once(head).chain(cells).collect());
    }
    let mut content = vec![
        sentence(format!(
            "Packets of up to {} bytes, sent between the routers of the nodes just now. Not needed: the two have no replicas in \
             one network.",
            examined.mtu
        )),
        table.element(),
    ];
    if examined.routers.len() > NODES_MAX {
        let text = format!(
            "The first {NODES_MAX} of {} nodes are in the matrix; what is wrong is told of all.",
            examined.routers.len()
        );
        content.push(sentence(text));
    }
    section("links", "Which node reaches which", content)
}

fn cell(way: &ExaminedWay, mtu: u32) -> Node {
    let (mood, word) = match trouble(way, mtu) {
        None => (Mood::Good, "reaches"),
        Some(it) if it.severity == Severity::Warning => (Mood::Warning, "splits packets"),
        Some(_) if way.arrives => (Mood::Failing, "no full packets"),
        Some(_) => (Mood::Failing, "nothing arrives"),
    };
    shaped(mood, word.to_owned()).into()
}

/// Routers that do not work, and ways on which something is lost, with what to do.
fn wrong(examined: &ExamineNetworkResponse) -> Element {
    let item = |mood: Mood, about: String, message: String, help: &str| {
        el("li")
            .with(shaped(mood, about))
            .with(format!(": {message}"))
            .with(el("span").class("help").with(format!(" {help}.")))
    };
    let mut items: Vec<Element> = Vec::new();
    for router in &examined.routers {
        let name = router.node.clone();
        if !router.unreachable.is_empty() {
            let message = format!("not known: {}", router.unreachable);
            items.push(item(Mood::Warning, name.clone(), message, "see its page"));
        }
        if !router.problem.is_empty() {
            let message = format!("its router does not work: {}", router.problem);
            items.push(item(Mood::Failing, name.clone(), message, "see jaco doctor"));
        }
        for from in &router.let_through {
            let message = format!("its router let a packet of {from} through that it must drop");
            items.push(item(Mood::Failing, name.clone(), message, "see jaco doctor"));
        }
    }
    for way in &examined.ways {
        if let Some(trouble) = trouble(way, examined.mtu) {
            let mood = match trouble.severity {
                Severity::Failing => Mood::Failing,
                Severity::Warning => Mood::Warning,
            };
            let about = format!("{} to {}", way.from, way.to);
            items.push(item(mood, about, trouble.message, &trouble.help));
        }
    }
    let content = match items.is_empty() {
        true => sentence("Nothing."),
        false => el("ul").class("attention").all(items),
    };
    section("wrong", "What is wrong", vec![content])
}
