//! Why the replicas of a service are where they are, and why one more could or could not run on each node.

use jaco_proto::v1::{ClusterStatusResponse, ExplainResponse, NodeAnswer};
use jaco_sentences::explain;

use crate::badge::{Mood, shaped};
use crate::cells::{Table, bytes, cores, section, sentence};
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::problem::Part;
use crate::shell::{Frame, Live, Page, Place};

/// What is asked for: a service, or a replica of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The deployment.
    pub deployment: String,
    /// The service.
    pub service: String,
    /// Instead of the two: a replica.
    pub replica: String,
}

/// The page.
#[derive(Debug)]
pub struct WhyPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// What is asked for.
    pub question: Question,
    /// The answer of the leader; none before anything is asked for.
    pub answer: Option<Part<ExplainResponse>>,
}

impl WhyPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let Question { deployment, service, replica } = &self.question;
        let mut content = vec![self.form()];
        content.extend(match &self.answer {
            None => vec![sentence(
                "The leader answers with the rules of the planner itself: for each node, whether it could take one \
                 more replica, and what keeps it from that.",
            )],
            Some(Err(refused)) => vec![refused.note("the answer of the leader")],
            Some(Ok(all)) => answer(all),
        });
        let heading = match (replica.as_str(), service.as_str()) {
            ("", "") => "Why is it there, or not there?".to_owned(),
            ("", service) => format!("Why {deployment}/{service} is where it is"),
            (replica, _) => format!("Why {replica} is where it is"),
        };
        let live = self.answer.is_some().then(|| Link::events().with("deployment", deployment));
        let live = live.map(Live::Changes);
        let page = Page { heading, place: Place::Why, content, live };
        page.html(frame, Some(self.cluster))
    }

    fn form(&self) -> Element {
        let field = |id: &'static str, label: &'static str, name: &'static str, value: &str| {
            let input = el("input").id(id).attr("name", name).attr("value", value.to_owned());
            el("span").class("field").with(el("label").attr("for", id).with(label)).with(input)
        };
        let Question { deployment, service, replica } = &self.question;
        el("form")
            .class("find")
            .attr("method", "get")
            .attr("action", Link::why().to_string())
            .with(field("why-deployment", "Deployment", "deployment", deployment))
            .with(field("why-service", "Service", "service", service))
            .with(field("why-replica", "or replica", "replica", replica))
            .with(el("button").attr("type", "submit").with("Explain"))
    }
}

fn answer(all: &ExplainResponse) -> Vec<Element> {
    let said = explain::sentences(all).into_iter().map(|text| el("li").with(text));
    let link = Link::deployment(&all.deployment);
    let deployment =
        el("p").with("Of deployment ").with(el("a").href(&link).with(all.deployment.clone()));
    let mut content = vec![
        deployment,
        section("answer", "The answer", vec![el("ul").all(said)]),
        section("nodes", "Node by node", vec![nodes(&all.nodes)]),
    ];
    content.extend(shares(all));
    content
}

fn nodes(nodes: &[NodeAnswer]) -> Element {
    let mut table = Table::new(
        "Whether each node could take one more replica",
        &[
            "Node",
            "One more replica",
            "What keeps it from that",
            "Of this service",
            "Of all",
            "Processor left",
            "Memory left",
        ],
    );
    for node in nodes {
        let verdict = match node.failed.is_empty() {
            true => shaped(Mood::Good, "eligible".to_owned()),
            false => shaped(Mood::Failing, "not eligible".to_owned()),
        };
        let rules: Vec<Element> =
            node.failed.iter().map(|rule| el("li").with(rule.text.clone())).collect();
        let rules: Node = match rules.is_empty() {
            true => "nothing".into(),
            false => el("ul").all(rules).into(),
        };
        let left = |amount: Option<u64>, show: fn(u64) -> String| {
            amount.map_or_else(|| "no capacity declared".to_owned(), show)
        };
        table.row(vec![
            el("a").href(&Link::node(&node.node)).with(node.node.clone()).into(),
            verdict.into(),
            rules,
            node.of_service.to_string().into(),
            node.of_all.to_string().into(),
            left(node.cpu_left_millis, cores).into(),
            left(node.memory_left_bytes, bytes).into(),
        ]);
    }
    table.element()
}

fn shares(all: &ExplainResponse) -> Option<Element> {
    let mut table = Table::new(
        "What each value of the spread criteria should have, and has",
        &["Spread over", "Value", "Desired", "Actual"],
    );
    for share in &all.shares {
        table.row(vec![
            share.attribute.clone().into(),
            share.value.clone().unwrap_or_else(|| "none".to_owned()).into(),
            share.desired.to_string().into(),
            share.actual.to_string().into(),
        ]);
    }
    (!table.is_empty()).then(|| section("shares", "Spread", vec![table.element()]))
}
