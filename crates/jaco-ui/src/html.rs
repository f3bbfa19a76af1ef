//! Elements of HTML. Whatever is put into one is text: only this file writes markup, so that nothing of a message ever is.

use std::borrow::Cow;

use crate::link::Link;

/// Elements that have no content and no end tag.
const VOID: [&str; 4] = ["input", "link", "meta", "br"];

/// Content of an element.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Element(Element),
    Text(Cow<'static, str>),
}

/// An element with its attributes and its content.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, Cow<'static, str>)>,
    content: Vec<Node>,
}

/// An element without attributes and content.
pub(crate) fn el(name: &'static str) -> Element {
    Element { name, attributes: Vec::new(), content: Vec::new() }
}

impl Element {
    pub(crate) fn attr(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        self.attr("class", class)
    }

    pub(crate) fn id(self, id: impl Into<Cow<'static, str>>) -> Self {
        self.attr("id", id)
    }

    /// Where it leads. A link is one of this node's own paths.
    pub(crate) fn href(self, link: &Link) -> Self {
        self.attr("href", link.to_string())
    }

    pub(crate) fn with(mut self, content: impl Into<Node>) -> Self {
        self.content.push(content.into());
        self
    }

    pub(crate) fn all<N: Into<Node>>(mut self, content: impl IntoIterator<Item = N>) -> Self {
        self.content.extend(content.into_iter().map(Into::into));
        self
    }

    /// Its text in HTML.
    pub(crate) fn render(&self, to: &mut String) {
        to.push('<');
        to.push_str(self.name);
        for (name, value) in &self.attributes {
            to.push(' ');
            to.push_str(name);
            if !value.is_empty() {
                to.push_str("=\"");
                escape_into(value, to);
                to.push('"');
            }
        }
        to.push('>');
        if VOID.contains(&self.name) {
            return;
        }
        for node in &self.content {
            match node {
                Node::Element(element) => element.render(to),
                Node::Text(text) => escape_into(text, to),
            }
        }
        to.push_str("</");
        to.push_str(self.name);
        to.push('>');
    }
}

impl From<Element> for Node {
    fn from(element: Element) -> Self {
        Self::Element(element)
    }
}

impl From<&'static str> for Node {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// A whole document.
pub(crate) fn document(root: &Element) -> String {
    let mut text = "<!doctype html>\n".to_owned();
    root.render(&mut text);
    text.push('\n');
    text
}

/// A text as it is written into content and attributes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    escape_into(text, &mut escaped);
    escaped
}

fn escape_into(text: &str, to: &mut String) {
    for c in text.chars() {
        match c {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&#39;"),
            c => to.push(visible(c)),
        }
    }
}

/// The character as it is shown: itself, unless it would change what is shown around it.
pub(crate) fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c if c.is_control() || turns_text(c) => '\u{fffd}',
        c => c,
    }
}

/// Whether a character changes the direction of what follows, so that a message could look like another one.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{061c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_never_markup() {
        let mut html = String::new();
        el("p").attr("title", "\"><script>").with("<b>&'\u{202e}\0".to_owned()).render(&mut html);
        assert_eq!(
            html,
            "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;b&gt;&amp;&#39;\u{fffd}\u{fffd}</p>"
        );
    }

    #[test]
    fn elements_without_content_have_no_end() {
        let mut html = String::new();
        el("p").with(el("br")).with(el("input").attr("required", "")).render(&mut html);
        assert_eq!(html, "<p><br><input required></p>");
    }
}
