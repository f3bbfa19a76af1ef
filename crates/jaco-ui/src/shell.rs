//! What all pages have around their content: landmarks, the way to the others, who is signed in, and how old the answer is.

use jaco_proto::v1::ClusterStatusResponse;
use jaco_sentences::staleness;
use jaco_types::Rights;

use crate::assets;
use crate::badge::{Mood, shaped};
use crate::cells;
use crate::html::{Element, Node, document, el};
use crate::link::Link;

/// What all pages of a request have in common.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The present, in milliseconds since the Unix epoch.
    pub now_ms: i64,
    /// Who asks, in the words of audit events.
    pub by: String,
    /// What they may do: actions that would be refused are not offered.
    pub rights: Rights,
    /// How that is known.
    pub signed_in: SignedIn,
    /// What was done just before, in a sentence, if the page was led to by that.
    pub done: Option<&'static str>,
}

/// How a user is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedIn {
    /// By a session, which can be ended.
    Session,
    /// By what comes with each request: a token, a certificate or the socket.
    EachRequest,
}

/// Which of the pages it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Overview,
    Why,
    Whatif,
    Audit,
    Elsewhere,
}

/// A page.
pub(crate) struct Page {
    pub(crate) heading: String,
    pub(crate) place: Place,
    pub(crate) content: Vec<Element>,
    /// What keeps it up to date while it is open.
    pub(crate) live: Option<Live>,
}

/// What keeps an open page up to date.
pub(crate) enum Live {
    /// It is made again when this tells of a change.
    Changes(Link),
    /// The lines that this sends are added to it.
    Lines(Link),
}

impl Page {
    /// The document. The cluster is what the node that answers says of it, if it said anything.
    pub(crate) fn html(self, frame: &Frame, cluster: Option<&ClusterStatusResponse>) -> String {
        let name = cluster.map(|cluster| cluster.name.clone()).filter(|name| !name.is_empty());
        let site = name.map_or_else(|| "JACO".to_owned(), |name| format!("{name} – JACO"));
        let main = el("main").id("main").attr("tabindex", "-1");
        let main = match &self.live {
            Some(Live::Changes(link)) => main.attr("data-live", link.to_string()),
            Some(Live::Lines(link)) => main.attr("data-lines", link.to_string()),
            None => main,
        };
        let main = main
            .all(cluster.and_then(age))
            .with(el("h1").with(self.heading.clone()))
            .all(cluster.map(|cluster| answered(cluster, frame)))
            .all(frame.done.map(done))
            .all(self.content);
        let body = el("body")
            .with(el("a").class("skip").attr("href", "#main").with("Skip to the content"))
            .with(header(self.place, frame))
            .with(main)
            .with(footer(self.live.is_some()));
        document(&root(format!("{} – {site}", self.heading), body))
    }
}

/// The root of a document.
pub(crate) fn root(title: String, body: Element) -> Element {
    let meta = |name: &'static str, content: &'static str| {
        el("meta").attr("name", name).attr("content", content)
    };
    let head = el("head")
        .with(el("meta").attr("charset", "utf-8"))
        .with(meta("viewport", "width=device-width, initial-scale=1"))
        .with(meta("color-scheme", "light dark"))
        .with(meta("robots", "noindex"))
        .with(el("title").with(title))
        .with(el("link").attr("rel", "icon").href(&assets::ICON.link()))
        .with(el("link").attr("rel", "stylesheet").href(&assets::STYLE.link()))
        .with(el("script").attr("defer", "").attr("src", assets::SCRIPT.link().to_string()));
    el("html").attr("lang", "en").with(head).with(body)
}

fn header(place: Place, frame: &Frame) -> Element {
    let link = |to: Link, text: &'static str, here: Place| {
        let link = el("a").href(&to).with(text);
        let link = if here == place { link.attr("aria-current", "page") } else { link };
        el("li").with(link)
    };
    let pages = el("ul")
        .with(link(Link::overview(), "Overview", Place::Overview))
        .with(link(Link::why(), "Why", Place::Why))
        .with(link(Link::whatif(), "What if", Place::Whatif))
        .with(link(Link::audit(), "Audit", Place::Audit));
    let user = el("div").class("user").with(el("span").with(frame.by.clone()));
    let user = match frame.signed_in {
        SignedIn::EachRequest => user,
        SignedIn::Session => user.with(
            el("form")
                .attr("method", "post")
                .attr("action", Link::logout().to_string())
                .with(el("button").attr("type", "submit").with("Sign out")),
        ),
    };
    el("header")
        .with(el("p").class("brand").with(el("a").href(&Link::overview()).with("JACO")))
        .with(el("nav").attr("aria-label", "Pages").with(pages))
        .with(user)
}

fn footer(is_live: bool) -> Element {
    let how = match is_live {
        true => "Reload the page to see what has changed.",
        false => "This page does not change by itself: reload it to see what is new.",
    };
    let state = el("p").id("live").attr("role", "status").with(how);
    el("footer").with(state).with(el("p").with("What is done here is done with jaco as well."))
}

/// What was done just before.
fn done(sentence: &'static str) -> Element {
    el("p").class("done").attr("role", "status").with(shaped(Mood::Good, sentence.to_owned())).with(
        " What follows changes as the cluster carries it out; the audit events say who did it.",
    )
}

/// Who answered, when, and of which state.
fn answered(cluster: &ClusterStatusResponse, frame: &Frame) -> Element {
    let leader: Vec<Node> = match (cluster.leader.as_str(), cluster.quorum_lost) {
        ("", true) => vec!["no quorum".into()],
        ("", false) => vec!["no leader known".into()],
        (leader, _) => vec!["leader ".into(), el("b").with(leader.to_owned()).into()],
    };
    el("p")
        .class("answered")
        .with("Answered by ")
        .with(el("b").with(cluster.answered_by.clone()))
        .with(" at ")
        .with(cells::moment(frame.now_ms))
        .with(format!(", state {}, term {}, ", cluster.raft_index, cluster.term))
        .all(leader)
        .with(".")
}

/// How old the answer is, unless it is current.
fn age(cluster: &ClusterStatusResponse) -> Option<Element> {
    let staleness = cluster.staleness.as_ref()?;
    let text = format!(
        "This page is old: what {} knows is {}. What runs may have changed since.",
        cluster.answered_by,
        staleness::sentence(staleness)
    );
    Some(el("p").class("banner failing").attr("role", "alert").with(el("b").with("✕ ")).with(text))
}
