//! What could not be had, and why: a part of a page, or all of it.

use jaco_proto::v1::ClusterStatusResponse;

use crate::html::{Element, el};
use crate::shell::{Frame, Page, Place};

/// A part of a page: what an rpc answered, or why it refused.
pub type Part<T> = Result<T, Refused>;

/// A refusal, in the words of every other client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its stable name.
    pub code: String,
    /// The sentence.
    pub message: String,
}

impl Refused {
    /// The refusal of all that was asked for.
    pub(crate) fn alert(&self) -> Element {
        el("p")
            .class("banner failing")
            .attr("role", "alert")
            .with(el("b").with("✕ Refused: "))
            .with(self.message.clone())
            .with(" (")
            .with(el("code").with(self.code.clone()))
            .with(")")
    }

    /// The refusal where a part of a page would be.
    pub(crate) fn note(&self, what: &'static str) -> Element {
        el("p")
            .class("banner warning")
            .with(el("b").with("▲ Not known: "))
            .with(what)
            .with(". ")
            .with(self.message.clone())
            .with(" (")
            .with(el("code").with(self.code.clone()))
            .with(")")
    }
}

/// A page that could not be made at all.
#[derive(Debug)]
pub struct ProblemPage<'a> {
    /// What a user wanted to see.
    pub heading: String,
    /// Why it is not there.
    pub refused: Refused,
    /// The cluster, if this is known.
    pub cluster: Option<&'a ClusterStatusResponse>,
}

impl ProblemPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let page = Page {
            heading: self.heading.clone(),
            place: Place::Elsewhere,
            content: vec![self.refused.alert()],
            live: None,
        };
        page.html(frame, self.cluster)
    }
}
