//! The last log lines of a replica, or of all replicas of a service.

use jaco_proto::v1::{ClusterStatusResponse, LogLine};
use jaco_sentences::time;

use crate::cells::sentence;
use crate::html::{Element, el};
use crate::link::Link;
use crate::shell::{Frame, Page, Place};

/// How many lines the links of the page ask for.
const TAILS: [u32; 3] = [50, 200, 1000];

/// Log lines.
#[derive(Debug)]
pub struct LogsPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// The deployment.
    pub deployment: String,
    /// Only lines of this service; of all if it is empty.
    pub service: String,
    /// Only lines of this replica; of all if it is empty.
    pub replica: String,
    /// How many last lines of each replica were asked for.
    pub tail: u32,
    /// The lines, the oldest first.
    pub lines: Vec<LogLine>,
    /// Why there may be more than these; none if they are all that was asked for.
    pub cut: Option<String>,
}

impl LogsPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let of = [&self.replica, &self.service, &self.deployment];
        let of = of.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
        let mut content = vec![self.ways()];
        content.extend(self.cut.as_ref().map(|why| {
            el("p").class("banner warning").with(el("b").with("▲ Not all: ")).with(why.clone())
        }));
        content.push(match self.lines.is_empty() {
            true => sentence("There are none."),
            false => self.text(),
        });
        let page = Page {
            heading: format!("Log lines of {of}"),
            place: Place::Elsewhere,
            content,
            live: None,
        };
        page.html(frame, Some(self.cluster))
    }

    fn ways(&self) -> Element {
        let here = Link::logs().with("deployment", &self.deployment);
        let here = here.with("service", &self.service).with("replica", &self.replica);
        let mut ways = el("p")
            .class("pages")
            .with(el("a").href(&Link::deployment(&self.deployment)).with("The deployment"))
            .with(format!(". The last {} lines of each replica; ", self.tail));
        for tail in TAILS {
            let link = here.clone().with("tail", &tail.to_string());
            ways = ways.with(el("a").href(&link).with(format!("the last {tail}"))).with(" ");
        }
        ways
    }

    /// One line of text for each, as a terminal shows them; with the replica where there are several.
    fn text(&self) -> Element {
        let names_replicas = self.replica.is_empty();
        let mut text = String::new();
        for line in &self.lines {
            let at = time::rfc3339(line.at_ms).unwrap_or_default();
            let replica = if names_replicas { &line.replica } else { "" };
            let told = [at.as_str(), replica, &line.stream, line.text.trim_end()];
            let told: Vec<_> = told.into_iter().filter(|part| !part.is_empty()).collect();
            text.push_str(&told.join(" "));
            text.push('\n');
        }
        el("pre")
            .class("log")
            .attr("role", "region")
            .attr("tabindex", "0")
            .attr("aria-label", "Log lines, the oldest first")
            .with(text)
    }
}
