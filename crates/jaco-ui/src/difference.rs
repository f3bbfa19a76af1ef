//! What two revisions of a deployment differ in.

use jaco_json::difference::Change;
use jaco_proto::v1::ClusterStatusResponse;

use crate::cells::{Table, section, sentence};
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::shell::{Frame, Page, Place};

/// Two revisions, compared.
#[derive(Debug)]
pub struct DifferencePage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// The deployment.
    pub deployment: String,
    /// The earlier revision.
    pub from: u64,
    /// The later one.
    pub to: u64,
    /// The revisions that are kept.
    pub kept: Vec<u64>,
    /// What they differ in, key by key.
    pub changes: Vec<Change>,
}

impl DifferencePage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let Self { deployment, from, to, .. } = self;
        let page = Page {
            heading: format!("{deployment}: revision {from} to {to}"),
            place: Place::Elsewhere,
            content: vec![self.form(), self.changes()],
            live: None,
        };
        page.html(frame, Some(self.cluster))
    }

    fn form(&self) -> Element {
        let field = |id: &'static str, label: &'static str, name: &'static str, value: u64| {
            let input = el("input")
                .id(id)
                .attr("type", "number")
                .attr("min", "1")
                .attr("name", name)
                .attr("value", value.to_string());
            el("span").class("field").with(el("label").attr("for", id).with(label)).with(input)
        };
        let kept: Vec<_> = self.kept.iter().map(u64::to_string).collect();
        el("form")
            .class("find")
            .attr("method", "get")
            .attr("action", Link::difference(&self.deployment).to_string())
            .with(field("difference-from", "From", "from", self.from))
            .with(field("difference-to", "To", "to", self.to))
            .with(el("button").attr("type", "submit").with("Compare"))
            .with(el("span").with(format!("Kept: {}. ", kept.join(", "))))
            .with(el("a").href(&Link::deployment(&self.deployment)).with("The deployment"))
    }

    fn changes(&self) -> Element {
        let mut table = Table::new(
            "Keys of the compose model and jaco.yaml with different values",
            &["Key", "Before", "After"],
        );
        for change in &self.changes {
            let side = |value: Option<String>| -> Node {
                match value {
                    None => "–".into(),
                    Some(value) => el("code").with(value).into(),
                }
            };
            table.row(vec![
                change.key.clone().into(),
                side(change.from.as_ref().map(ToString::to_string)),
                side(change.to.as_ref().map(ToString::to_string)),
            ]);
        }
        let content = match table.is_empty() {
            true => sentence("They are equal."),
            false => table.element(),
        };
        section("changes", "Changes", vec![content])
    }
}
