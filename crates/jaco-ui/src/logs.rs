//! The last log lines of a replica, or of all replicas of a service.

use jaco_proto::v1::{ClusterStatusResponse, LogLine};
use jaco_sentences::time;

use crate::cells::sentence;
use crate::html::{Element, el, visible};
use crate::link::Link;
use crate::shell::{Frame, Live, Page, Place};

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
        // Hidden by the style once there are some.
        content.extend(
            self.lines.is_empty().then(|| sentence("There are none so far.").class("none")),
        );
        content.push(self.text());
        let page = Page {
            heading: format!("Log lines of {of}"),
            place: Place::Elsewhere,
            content,
            live: Some(Live::Lines(self.later())),
        };
        page.html(frame, Some(self.cluster))
    }

    /// What sends the lines from the newest one on, which is sent again: another one may be as old.
    fn later(&self) -> Link {
        let link = Link::lines().with("deployment", &self.deployment);
        let link = link.with("service", &self.service).with("replica", &self.replica);
        match self.lines.iter().map(|line| line.at_ms).max() {
            Some(newest) => link.with("since", &newest.to_string()),
            None => link,
        }
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

    /// One line of text for each, as a terminal shows them.
    fn text(&self) -> Element {
        let names = Named::of(&self.replica);
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(&line_text(line, names));
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

/// Whether lines say of which replica they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// There are several.
    Replica,
    /// All lines are of one.
    Nothing,
}

impl Named {
    /// What lines say if those of this replica alone were asked for, or of all if it is empty.
    #[must_use]
    pub fn of(replica: &str) -> Self {
        if replica.is_empty() { Self::Replica } else { Self::Nothing }
    }
}

/// A log line as the page shows it: its time, what it is of, and its text. Has no character that would change what is shown
/// around it.
#[must_use]
pub fn line_text(line: &LogLine, names: Named) -> String {
    let at = time::rfc3339(line.at_ms).unwrap_or_default();
    let replica = if names == Named::Replica { &line.replica } else { "" };
    let told = [at.as_str(), replica, &line.stream, line.text.trim_end()];
    let told: Vec<_> = told.into_iter().filter(|part| !part.is_empty()).collect();
    told.join(" ").chars().map(visible).collect()
}
