//! One node: what is to be said of it, what it has, how much of that is used, and its replicas.

use jaco_proto::v1::{
    Amount, ClusterStatusResponse, NodeFactsInfo, NodeInfo, NodeTop, ReplicaInfo, TopResponse,
    VoterProgress,
};
use jaco_sentences::node::{ListedNode, listed};
use jaco_sentences::quantity::count;

use crate::badge::{self, Mood, shaped};
use crate::cells::{Table, ago, bar, bytes, cores, section, sentence, sorted};
use crate::deployment;
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::offered;
use crate::problem::Part;
use crate::shell::{Frame, Live, Page, Place};
use crate::when::When;

/// The page of a node.
#[derive(Debug)]
pub struct NodePage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// The node's name.
    pub name: &'a str,
    /// All replicas of the cluster.
    pub replicas: Part<Vec<ReplicaInfo>>,
    /// Its hardware and software.
    pub facts: Part<Option<NodeFactsInfo>>,
    /// What is used.
    pub top: Part<TopResponse>,
    /// How far the voters are, as the leader says.
    pub voters: Part<Vec<VoterProgress>>,
}

impl NodePage<'_> {
    /// The document; none if the cluster has no such node.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> Option<String> {
        let voters = self.voters.as_deref().unwrap_or_default();
        let nodes = listed(self.cluster.nodes.clone(), voters);
        let node = nodes.into_iter().find(|node| node.hostname() == self.name)?;
        let content = vec![
            self.summary(&node, frame),
            self.reasons(&node),
            offered::node(&node.node, frame),
            self.usage(),
            self.replicas(frame),
            self.facts(&node),
        ];
        let page = Page {
            heading: format!("Node {}", self.name),
            place: Place::Elsewhere,
            content,
            live: Some(Live::Changes(Link::events())),
        };
        Some(page.html(frame, Some(self.cluster)))
    }

    fn summary(&self, listed: &ListedNode, frame: &Frame) -> Element {
        let node = &listed.node;
        let leads = if node.hostname == self.cluster.leader { ", it leads" } else { "" };
        summary(node, &format!(", {}{leads}", suffrage(&node.suffrage)), frame)
    }

    fn reasons(&self, node: &ListedNode) -> Element {
        let items = remarks(node);
        let is_unknown = matches!(node.node.status.as_str(), "unknown" | "");
        let mut content = match (items.is_empty(), is_unknown) {
            (true, true) => vec![sentence(format!(
                "{} does not know how it is at the moment.",
                self.cluster.answered_by
            ))],
            (true, false) => vec![sentence(match &self.voters {
                Ok(_) => "Nothing keeps replicas off it, and nothing is wrong with its vote.",
                Err(_) => "Nothing keeps replicas off it.",
            })],
            (false, _) => vec![el("ul").all(items)],
        };
        content.extend(self.voters.as_ref().err().map(|why| why.note("whether its vote counts")));
        section("reasons", "What is to be said of it", content)
    }

    fn usage(&self) -> Element {
        let top = match &self.top {
            Ok(top) => top,
            Err(refused) => {
                return section("usage", "Capacity", vec![refused.note("how much of it is used")]);
            }
        };
        let found = top.nodes.iter().find(|node| node.hostname == self.name);
        let content = match found {
            None => vec![sentence("The leader has no figures of it.")],
            Some(node) => {
                let pressure = match node.pressure {
                    Some(millionths) => format!(
                        "Pressure {}%: the larger of the shares of processor and memory that are in use.",
                        millionths.saturating_add(5000) / 10_000
                    ),
                    None => "It has sent no recent sample of what is in use.".to_owned(),
                };
                vec![sentence(pressure), usage_table(node)]
            }
        };
        section("usage", "Capacity", content)
    }

    fn replicas(&self, frame: &Frame) -> Element {
        let content = match &self.replicas {
            Err(refused) => vec![refused.note("its replicas")],
            Ok(all) => {
                let here = sorted(all.iter().filter(|it| it.node == self.name));
                let table = deployment::table(here.into_iter(), frame, When::Now);
                match table.is_empty() {
                    true => vec![sentence("It has none.")],
                    false => vec![table.element()],
                }
            }
        };
        section("replicas", "Replicas", content)
    }

    fn facts(&self, node: &ListedNode) -> Element {
        let mut facts = reported(&node.node);
        let mut content = Vec::new();
        match &self.facts {
            Err(refused) => content.push(refused.note("its hardware")),
            Ok(None) => content.push(sentence("It has reported no hardware.")),
            Ok(Some(found)) => facts.extend([
                ("Kernel", found.kernel.clone()),
                ("Cores", found.cores.to_string()),
                ("Memory", bytes(found.memory_bytes)),
                (
                    "Disk",
                    format!(
                        "{}, {} free when its daemon started",
                        bytes(found.disk_bytes),
                        bytes(found.disk_free_bytes)
                    ),
                ),
                ("GPUs", found.gpus.len().to_string()),
            ]),
        }
        content.push(definitions(facts));
        section("facts", "What it is", content)
    }
}

/// What it is and does in one sentence; `votes` says how it takes part in the log.
pub(crate) fn summary(node: &NodeInfo, votes: &str, frame: &Frame) -> Element {
    el("p")
        .class("summary")
        .with(badge::state(&node.status))
        .with(", ")
        .with(badge::state(&node.availability))
        .with(format!("{votes}, "))
        .with(count(node.replicas as usize, "replica"))
        .with(format!(", address {}. Joined ", node.address))
        .with(ago(node.joined_at_ms, frame.now_ms))
        .with(". ")
        .with(el("a").href(&Link::audit().with("node", &node.hostname)).with("Its audit events"))
        .with(".")
}

/// What is to be said of a node: an item each.
pub(crate) fn remarks(node: &ListedNode) -> Vec<Element> {
    let mut items: Vec<Element> = Vec::new();
    for reason in &node.reasons {
        let mood = if reason.is_ordinary { Mood::Still } else { Mood::Warning };
        items.push(el("li").with(shaped(mood, reason.message.clone())));
    }
    let given = [&node.node.availability_reason, &node.node.edge_reason];
    for text in given.into_iter().filter(|text| !text.is_empty()) {
        items.push(el("li").with(shaped(Mood::Warning, text.clone())));
    }
    if node.node.stopping > 0 {
        let text = format!(
            "{} that belong to no replica any more are to be stopped",
            count(node.node.stopping as usize, "container")
        );
        items.push(el("li").with(text));
    }
    items
}

/// What the state has of a node.
pub(crate) fn reported(node: &NodeInfo) -> Vec<(&'static str, String)> {
    let mut labels: Vec<_> =
        node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
    vec![
        ("Version of jacod", node.version.clone()),
        ("Engine", node.engine.clone()),
        ("Platform", format!("{}/{}", node.os, node.arch)),
        ("Labels", labels),
    ]
}

/// Names with their values.
pub(crate) fn definitions(pairs: Vec<(&'static str, String)>) -> Element {
    pairs.into_iter().fold(el("dl"), |list, (name, value)| {
        list.with(el("dt").with(name)).with(el("dd").with(value))
    })
}

fn suffrage(suffrage: &str) -> &'static str {
    match suffrage {
        "voter" => "votes",
        "learner" => "does not vote",
        _ => "is no member of the log yet",
    }
}

fn usage_table(node: &NodeTop) -> Element {
    let mut table = Table::new(
        "Processor and memory of the node",
        &["Resource", "In use", "Reserved", "Limits", "Capacity"],
    );
    let row = |what: &'static str, of: fn(&Amount) -> u64, show: fn(u64) -> String| {
        let whole = node.capacity.as_ref().map_or(0, of);
        let cell = |amount: Option<&Amount>, label: &str| -> Node {
            match amount {
                None => "not known".into(),
                Some(amount) => {
                    bar(of(amount), whole, &format!("{what} {label}"), show(of(amount)))
                }
            }
        };
        let declared = if whole == 0 { "none declared".to_owned() } else { show(whole) };
        vec![
            what.into(),
            cell(node.measured.as_ref(), "in use"),
            cell(node.reserved.as_ref(), "reserved"),
            cell(node.limit.as_ref(), "up to the limits"),
            declared.into(),
        ]
    };
    table.row(row("Processor", |it| it.cpu_millis, cores));
    table.row(row("Memory", |it| it.memory_bytes, bytes));
    table.element()
}
