//! Tables, times and amounts, as all pages show them.

use std::borrow::Cow;

use jaco_proto::v1::{ClusterStatusResponse, ReplicaInfo};
use jaco_sentences::quantity::natural_order;
use jaco_sentences::time;
use jaco_types::unit::Bytes;

use crate::html::{Element, Node, el};

/// A table with a caption that says what it has. The first cell of each row is its header.
pub(crate) struct Table {
    caption: &'static str,
    heads: Vec<Cow<'static, str>>,
    rows: Vec<Vec<Node>>,
    class: &'static str,
}

impl Table {
    pub(crate) fn new(caption: &'static str, heads: &[&'static str]) -> Self {
        let heads = heads.iter().map(|head| Cow::Borrowed(*head)).collect();
        Self { caption, heads, rows: Vec::new(), class: "" }
    }

    /// What its style knows it by.
    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    /// A further column.
    pub(crate) fn head(&mut self, head: String) {
        self.heads.push(head.into());
    }

    pub(crate) fn row(&mut self, cells: Vec<Node>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in a box that scrolls by itself where the window is narrow.
    pub(crate) fn element(self) -> Element {
        let heads = self.heads.iter().map(|head| {
            let head = Node::Text(head.clone());
            el("th").attr("scope", "col").with(head)
        });
        let head = el("thead").with(el("tr").all(heads));
        let rows = self.rows.into_iter().map(|cells| {
            let mut row = el("tr");
            for (at, cell) in cells.into_iter().enumerate() {
                let holder = if at == 0 { el("th").attr("scope", "row") } else { el("td") };
                row = row.with(holder.with(cell));
            }
            row
        });
        let table = if self.class.is_empty() { el("table") } else { el("table").class(self.class) };
        let table =
            table.with(el("caption").with(self.caption)).with(head).with(el("tbody").all(rows));
        el("div")
            .class("scroll")
            .attr("role", "region")
            .attr("tabindex", "0")
            .attr("aria-label", self.caption)
            .with(table)
    }
}

/// Several pieces in one cell.
pub(crate) fn together(pieces: Vec<Node>) -> Node {
    el("span").all(pieces).into()
}

/// A moment, in UTC.
pub(crate) fn moment(at_ms: i64) -> Node {
    match time::rfc3339(at_ms) {
        Some(at) => {
            let shown = at.replacen('T', " ", 1);
            // Parts of a second are for machines.
            let shown = match shown.split_once('.') {
                Some((seconds, _)) => format!("{seconds}Z"),
                None => shown,
            };
            el("time").attr("datetime", at).with(shown.replace('Z', " UTC")).into()
        }
        None => "–".into(),
    }
}

/// How long ago a moment was, with the moment itself for those who ask.
pub(crate) fn ago(at_ms: i64, now_ms: i64) -> Node {
    match time::rfc3339(at_ms) {
        Some(at) => {
            let text = format!("{} ago", time::ago(at_ms, now_ms));
            el("time").attr("datetime", at.clone()).attr("title", at).with(text).into()
        }
        None => "–".into(),
    }
}

/// How much of something there is, as a bar and in words.
pub(crate) fn bar(part: u64, of: u64, what: &str, words: String) -> Node {
    if of == 0 {
        return words.into();
    }
    let meter = el("meter")
        .attr("min", "0")
        .attr("max", of.to_string())
        .attr("value", part.min(of).to_string())
        .attr("aria-label", what.to_owned())
        .with(words.clone());
    together(vec![meter.into(), " ".into(), words.into()])
}

/// As many of something as are wanted.
pub(crate) fn of_wanted(there: u32, wanted: u32, what: &str) -> Node {
    bar(u64::from(there), u64::from(wanted), what, format!("{there} of {wanted}"))
}

/// Bytes in their largest unit.
pub(crate) fn bytes(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Cores, of thousandths of them.
pub(crate) fn cores(millis: u64) -> String {
    let (whole, part) = (millis / 1000, millis % 1000);
    match part {
        0 => format!("{whole} cores"),
        _ => format!("{whole}.{part:03} cores"),
    }
}

/// Replicas in the order in which a reader expects them.
pub(crate) fn sorted<'r>(replicas: impl Iterator<Item = &'r ReplicaInfo>) -> Vec<&'r ReplicaInfo> {
    let mut replicas: Vec<_> = replicas.collect();
    replicas.sort_by(|a, b| natural_order(&a.id, &b.id));
    replicas
}

/// Whether what is shown is of now.
pub(crate) fn is_current(cluster: &ClusterStatusResponse) -> bool {
    cluster.staleness.is_none()
}

/// A section with its heading.
pub(crate) fn section(id: &'static str, heading: &'static str, content: Vec<Element>) -> Element {
    let heading_id = format!("{id}-heading");
    el("section")
        .id(id)
        .attr("aria-labelledby", heading_id.clone())
        .with(el("h2").id(heading_id).with(heading))
        .all(content)
}

/// A plain sentence.
pub(crate) fn sentence(text: impl Into<Cow<'static, str>>) -> Element {
    el("p").with(Node::Text(text.into()))
}
