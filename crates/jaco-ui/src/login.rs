//! What strangers see: where to sign in. Nothing of the cluster, not even its name.

use crate::html::{Element, document, el};
use crate::link::Link;
use crate::shell::root;

/// The page to sign in on.
#[derive(Debug, Default)]
pub struct Login {
    /// Why the last attempt, or the session, came to nothing.
    pub problem: Option<String>,
    /// What the user wanted to see.
    pub next: Option<Link>,
}

impl Login {
    /// The document.
    #[must_use]
    pub fn html(&self) -> String {
        let problem = self.problem.as_ref().map(|problem| {
            el("p")
                .class("banner failing")
                .attr("role", "alert")
                .with(el("b").with("✕ Not signed in: "))
                .with(problem.clone())
        });
        let next = self.next.clone().unwrap_or_else(Link::overview);
        let token = el("input")
            .id("token")
            .attr("type", "password")
            .attr("name", "token")
            .attr("required", "")
            .attr("autocomplete", "off")
            .attr("spellcheck", "false")
            .attr("aria-describedby", "token-help");
        let form = el("form")
            .class("login")
            .attr("method", "post")
            .attr("action", Link::login().to_string())
            .with(el("label").attr("for", "token").with("Operator token"))
            .with(token)
            .with(
                el("input")
                    .attr("type", "hidden")
                    .attr("name", "next")
                    .attr("value", next.to_string()),
            )
            .with(el("button").attr("type", "submit").with("Sign in"));
        let help = el("p")
            .id("token-help")
            .with("An admin issues one on a node: ")
            .with(el("code").with("jaco token issue NAME --role viewer"))
            .with(". Role viewer is enough for all pages.");
        let signed_in = el("p")
            .with("Signed in already, and came by a link from elsewhere? ")
            .with(el("a").href(&next).with("Continue"))
            .with(".");
        page("Sign in", problem.into_iter().chain([form, help, signed_in]).collect())
    }
}

/// The page after signing out.
#[derive(Debug, Clone, Copy)]
pub struct SignedOut;

impl SignedOut {
    /// The document.
    #[must_use]
    pub fn html(self) -> String {
        let again = el("p").with(el("a").href(&Link::login()).with("Sign in again")).with(".");
        page("Signed out", vec![el("p").with("The session has ended on this node."), again])
    }
}

fn page(heading: &'static str, content: Vec<Element>) -> String {
    let main = el("main")
        .id("main")
        .attr("tabindex", "-1")
        .class("narrow")
        .with(el("h1").with(heading))
        .all(content);
    let body = el("body")
        .with(el("a").class("skip").attr("href", "#main").with("Skip to the content"))
        .with(el("header").with(el("p").class("brand").with("JACO")))
        .with(main);
    document(&root(format!("{heading} – JACO"), body))
}
