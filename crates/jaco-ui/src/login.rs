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
    /// What a link offers; without one a token is asked for.
    pub offer: Option<Offer>,
}

/// What a link that signs in once offers to who opens it.
#[derive(Debug)]
pub struct Offer {
    /// In whose name, in the words of audit events.
    pub by: String,
    /// At which node.
    pub node: String,
    /// What is secret of the link.
    pub secret: String,
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
        let content = match &self.offer {
            Some(offer) => confirmation(offer, &next),
            None => question(&next),
        };
        page("Sign in", problem.into_iter().chain(content).collect())
    }
}

/// Opening a link changes nothing yet: programs that look at links before their readers do would use it up.
fn confirmation(offer: &Offer, next: &Link) -> Vec<Element> {
    let who = el("p")
        .with("This link signs you in at node ")
        .with(el("b").with(offer.node.clone()))
        .with(" as ")
        .with(el("b").with(offer.by.clone()))
        .with(". It is good for one sign-in.");
    let form = form(next)
        .with(hidden("once", offer.secret.clone()))
        .with(el("button").attr("type", "submit").with("Sign in"));
    vec![who, form]
}

fn question(next: &Link) -> Vec<Element> {
    let token = el("input")
        .id("token")
        .attr("type", "password")
        .attr("name", "token")
        .attr("required", "")
        .attr("autocomplete", "off")
        .attr("spellcheck", "false")
        .attr("aria-describedby", "token-help");
    let form = form(next)
        .with(el("label").attr("for", "token").with("Operator token"))
        .with(token)
        .with(el("button").attr("type", "submit").with("Sign in"));
    let help = el("p")
        .id("token-help")
        .with("An admin issues one on a node: ")
        .with(el("code").with("jaco token issue NAME --role viewer"))
        .with(". Role viewer is enough for all pages but logs. Without one: ")
        .with(el("code").with("jaco ui"))
        .with(" prints a link that signs in whoever runs it.");
    let signed_in = el("p")
        .with("Signed in already, and came by a link from elsewhere? ")
        .with(el("a").href(next).with("Continue"))
        .with(".");
    vec![form, help, signed_in]
}

fn form(next: &Link) -> Element {
    el("form")
        .class("login")
        .attr("method", "post")
        .attr("action", Link::login().to_string())
        .with(hidden("next", next.to_string()))
}

fn hidden(name: &'static str, value: String) -> Element {
    el("input").attr("type", "hidden").attr("name", name).attr("value", value)
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
