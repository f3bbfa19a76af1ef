//! What was done, and by whom: audit events, the newest first, a page at a time.

use jaco_proto::v1::{AuditEvent, ClusterStatusResponse};

use crate::cells::{Table, moment, section, sentence, together};
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::problem::Part;
use crate::shell::{Frame, Page, Place};

/// A page of events.
#[derive(Debug)]
pub struct AuditPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// The events, the newest first.
    pub events: Part<Vec<AuditEvent>>,
    /// The event that those of this page come before, by index and number; none on the first page.
    pub before: String,
    /// As `before`, of the next page; empty if there is none.
    pub older: String,
    /// Only events that name this deployment; all if it is empty.
    pub deployment: String,
    /// Only events that name this node; all if it is empty.
    pub node: String,
    /// Only events of this kind; all if it is empty.
    pub kind: String,
}

impl AuditPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let mut content = vec![self.form()];
        match &self.events {
            Err(refused) => content.push(refused.note("what was done")),
            Ok(events) => content.push(self.events(events)),
        }
        let page =
            Page { heading: "Audit events".to_owned(), place: Place::Audit, content, live: None };
        page.html(frame, Some(self.cluster))
    }

    fn here(&self) -> Link {
        let link = Link::audit().with("deployment", &self.deployment).with("node", &self.node);
        link.with("type", &self.kind)
    }

    fn form(&self) -> Element {
        let field = |id: &'static str, label: &'static str, name: &'static str, value: &str| {
            let input = el("input").id(id).attr("name", name).attr("value", value.to_owned());
            el("span").class("field").with(el("label").attr("for", id).with(label)).with(input)
        };
        el("form")
            .class("find")
            .attr("method", "get")
            .attr("action", Link::audit().to_string())
            .with(field("audit-deployment", "Deployment", "deployment", &self.deployment))
            .with(field("audit-node", "Node", "node", &self.node))
            .with(field("audit-type", "Type", "type", &self.kind))
            .with(el("button").attr("type", "submit").with("Show"))
    }

    fn events(&self, events: &[AuditEvent]) -> Element {
        let mut table =
            Table::new("Audit events, the newest first", &["Event", "When", "Type", "By", "Facts"]);
        // The picture of what the reader looks for.
        let picture = match self.deployment.as_str() {
            "" => Link::overview(),
            name => Link::deployment(name),
        };
        for event in events {
            table.row(row(event, &picture));
        }
        let mut content = match (table.is_empty(), self.before.is_empty()) {
            (true, true) => vec![sentence("There are none.")],
            (true, false) => vec![sentence("There are none before that.")],
            (false, _) => vec![table.element()],
        };
        let link = |to: Link, text: &'static str| el("a").href(&to).with(text);
        let mut pages = el("p").class("pages");
        if !self.before.is_empty() {
            pages = pages.with(link(self.here(), "Newest events")).with(" ");
        }
        pages = match self.older.is_empty() {
            false => pages.with(link(self.here().with("before", &self.older), "Older events")),
            true => pages.with(
                "No older ones are kept here; the archives of the nodes may have more (jaco audit).",
            ),
        };
        content.push(pages);
        section("events", "Events", content)
    }
}

/// An event as a row. Its place leads to a page as it was then.
pub(crate) fn row(event: &AuditEvent, picture: &Link) -> Vec<Node> {
    let place = jaco_json::audit::place(event.index, event.number);
    let index = event.index.to_string();
    let label = format!("{place}: the cluster as it was at index {index}");
    let place =
        el("a").href(&picture.clone().with("at", &index)).attr("aria-label", label).with(place);
    vec![
        place.into(),
        moment(event.at_ms),
        event.kind.replace('_', " ").into(),
        by(event),
        facts(event),
    ]
}

fn by(event: &AuditEvent) -> Node {
    let by: Node = el("span").with(event.by.clone()).into();
    match event.origin.is_empty() {
        true => by,
        false => together(vec![by, format!(" from {}", event.origin).into()]),
    }
}

fn facts(event: &AuditEvent) -> Node {
    let mut facts: Vec<_> = event.payload.iter().filter(|(_, value)| !value.is_empty()).collect();
    facts.sort();
    let facts = facts.into_iter().map(|(name, value)| {
        el("li").with(el("b").with(name.replace('_', " "))).with(format!(" {value}"))
    });
    el("ul").class("facts").all(facts).into()
}
