//! The cluster at an earlier moment: of when a page is, what happened around it, and the way to the moments beside it.

use jaco_proto::v1::{AuditEvent, StatusResponse};

use crate::audit;
use crate::cells::{Table, moment, section, sentence};
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::problem::Part;
use crate::shell::Frame;

/// What happened around the moment of a page.
#[derive(Debug, Clone)]
pub struct Around {
    /// The events up to it, the newest first.
    pub upto: Part<Vec<AuditEvent>>,
    /// Those after it, the oldest first.
    pub later: Part<Vec<AuditEvent>>,
}

/// Of when a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    /// As it was at this index.
    At(u64),
}

impl When {
    /// Of when a status is.
    pub(crate) fn of(status: &StatusResponse) -> Self {
        status.past.as_ref().map_or(Self::Now, |_| Self::At(status.raft_index))
    }

    /// A link to the same moment of another page.
    pub(crate) fn link(self, to: Link) -> Link {
        match self {
            Self::Now => to,
            Self::At(index) => to.with("at", &index.to_string()),
        }
    }

    /// The name of a node, which leads to its page of the same moment.
    pub(crate) fn node(self, name: &str) -> Node {
        el("a").href(&self.link(Link::node(name))).with(name.to_owned()).into()
    }
}

/// The frame whose present is the moment of a status.
pub(crate) fn then(status: &StatusResponse, frame: &Frame) -> Frame {
    let at_ms = status.past.as_ref().map_or(0, |past| past.at_ms);
    Frame { now_ms: if at_ms > 0 { at_ms } else { frame.now_ms }, ..frame.clone() }
}

/// What a page of an earlier moment begins with; nothing on one of now.
pub(crate) fn banner(
    status: &StatusResponse,
    around: Option<&Around>,
    here: &Link,
) -> Vec<Element> {
    let (Some(past), Some(around)) = (&status.past, around) else { return Vec::new() };
    let index = status.raft_index;
    let mut says = el("p")
        .class("banner warning")
        .with(el("b").with(format!("▲ This is the cluster as it was at index {index}")));
    if past.at_ms > 0 {
        says = says.with(", of ").with(moment(past.at_ms));
    }
    let says = says.with(format!(
        ". {} can show {} to {}. Ages are of that moment. Not known of then, because it is not in the log: how much was used, how \
         far pulls were, who led and who voted.",
        status.answered_by, past.kept_from, past.kept_to
    ));
    vec![says, ways(index, around, here)]
}

/// The ways to the event before and after, and back to now.
fn ways(index: u64, around: &Around, here: &Link) -> Element {
    let at = |event: &AuditEvent| here.clone().with("at", &event.index.to_string());
    let before = around.upto.iter().flatten().find(|event| event.index < index);
    let after = around.later.iter().flatten().next();
    let mut ways = el("p").class("pages");
    for (found, text, none) in [
        (before, "Event before", "No event before is known here."),
        (after, "Event after", "No event after it."),
    ] {
        ways = match found {
            Some(event) => ways.with(el("a").href(&at(event)).with(text)),
            None => ways.with(none),
        };
        ways = ways.with(" ");
    }
    ways.with(el("a").href(here).with("Back to now"))
}

/// The events around the moment, in the order in which they happened.
pub(crate) fn events(status: &StatusResponse, around: &Around, here: &Link) -> Element {
    let (upto, later) = match (&around.upto, &around.later) {
        (Ok(upto), Ok(later)) => (upto, later),
        (Err(refused), _) | (_, Err(refused)) => {
            return section(
                "around",
                "What happened around it",
                vec![refused.note("what happened around it")],
            );
        }
    };
    let mut table = Table::new(
        "Audit events around this moment, the newest first",
        &["Event", "Shown here", "When", "Type", "By", "Facts"],
    );
    for event in later.iter().rev().chain(upto) {
        let mut row = audit::row(event, here);
        let shown = match event.index <= status.raft_index {
            true => "yes",
            false => "not yet",
        };
        row.insert(1, shown.into());
        table.row(row);
    }
    let content = match table.is_empty() {
        true => sentence("No event around it is kept."),
        false => table.element(),
    };
    section("around", "What happened around it", vec![content])
}
