//! One node at an earlier moment: what the log says of it, and what it ran.

use jaco_proto::v1::{ClusterStatusResponse, StatusResponse};
use jaco_sentences::node::{ListedNode, listed};

use crate::cells::{section, sentence, sorted};
use crate::deployment;
use crate::html::{Element, el};
use crate::link::Link;
use crate::node::{definitions, remarks, reported, summary};
use crate::shell::{Frame, Page, Place};
use crate::when::{self, Around, When};

/// The page of a node at an earlier moment. How much of it was used is in no log.
#[derive(Debug)]
pub struct NodeThenPage<'a> {
    /// The cluster now, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// The node's name.
    pub name: &'a str,
    /// The status of the moment.
    pub status: &'a StatusResponse,
    /// What happened around it.
    pub around: Around,
}

impl NodeThenPage<'_> {
    /// The document; none if the cluster had no such node.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> Option<String> {
        let nodes = listed(self.status.nodes.clone(), &[]);
        let node = nodes.into_iter().find(|node| node.hostname() == self.name)?;
        let here = Link::node(self.name);
        let then = &when::then(self.status, frame);
        let mut content = when::banner(self.status, Some(&self.around), &here);
        content.extend([
            summary(&node.node, "", then),
            reasons(&node),
            self.replicas(then),
            section("facts", "What it was", vec![definitions(reported(&node.node))]),
            when::events(self.status, &self.around, &here),
        ]);
        let heading = format!("Node {} at index {}", self.name, self.status.raft_index);
        let page = Page { heading, place: Place::Elsewhere, content, live: None };
        Some(page.html(frame, Some(self.cluster)))
    }

    fn replicas(&self, then: &Frame) -> Element {
        let here = sorted(self.status.replicas.iter().filter(|it| it.node == self.name));
        let table = deployment::table(here.into_iter(), then, When::of(self.status));
        let content = match table.is_empty() {
            true => sentence("It had none."),
            false => table.element(),
        };
        section("replicas", "Replicas", vec![content])
    }
}

fn reasons(node: &ListedNode) -> Element {
    let items = remarks(node);
    let content = match items.is_empty() {
        true => sentence("Nothing kept replicas off it."),
        false => el("ul").all(items),
    };
    section("reasons", "What is to be said of it", vec![content])
}
