//! A document, taken apart. It refuses what our own writer never writes.

use std::collections::BTreeMap;

/// An element in the order of its start.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// All text in it, that of elements in it included.
    pub(crate) text: String,
    /// The places of those that it is in, the outermost first.
    pub(crate) within: Vec<usize>,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

/// A document.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) elements: Vec<Element>,
}

const VOID: [&str; 4] = ["input", "link", "meta", "br"];

impl Document {
    pub(crate) fn read(html: &str) -> Self {
        let mut rest = html.strip_prefix("<!doctype html>\n").expect("it says what it is");
        let mut elements: Vec<Element> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        while !rest.is_empty() {
            let at = rest.find('<').unwrap_or(rest.len());
            let text = unescaped(&rest[..at]);
            for place in &open {
                elements[*place].text.push_str(&text);
            }
            rest = &rest[at..];
            if rest.is_empty() {
                break;
            }
            let end = rest.find('>').expect("each tag ends");
            let tag = &rest[1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                let place = open.pop().expect("something is open");
                assert_eq!(elements[place].name, name, "elements end in the order of their begin");
                continue;
            }
            let element = start(tag, &open);
            if !VOID.contains(&element.name.as_str()) {
                open.push(elements.len());
            }
            elements.push(element);
        }
        assert!(open.is_empty(), "all elements end");
        Self { elements }
    }

    pub(crate) fn all<'d>(&'d self, name: &'d str) -> impl Iterator<Item = &'d Element> {
        self.elements.iter().filter(move |element| element.name == name)
    }

    pub(crate) fn one<'d>(&'d self, name: &'d str) -> &'d Element {
        let found: Vec<_> = self.all(name).collect();
        assert_eq!(found.len(), 1, "one {name}");
        found[0]
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&Element> {
        self.elements.iter().find(|element| element.attribute("id") == Some(id))
    }
}

fn start(tag: &str, open: &[usize]) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{name:?} is a name");
    let mut attributes = BTreeMap::new();
    while !rest.is_empty() {
        let end = rest.find([' ', '=']).unwrap_or(rest.len());
        let key = &rest[..end];
        assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{key:?}");
        let value = match rest[end..].strip_prefix("=\"") {
            None => {
                rest = rest[end..].trim_start_matches(' ');
                String::new()
            }
            Some(after) => {
                let (value, after) = after.split_once('"').expect("values end");
                rest = after.strip_prefix(' ').unwrap_or(after);
                unescaped(value)
            }
        };
        assert!(attributes.insert(key.to_owned(), value).is_none(), "{key} is there once");
    }
    Element { name: name.to_owned(), attributes, text: String::new(), within: open.to_vec() }
}

fn unescaped(text: &str) -> String {
    assert!(!text.contains(['<', '>', '"', '\'']), "{text:?} is escaped");
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        let (name, after) = rest[at + 1..].split_once(';').expect("references end");
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("there is no reference {other}"),
        });
        rest = after;
    }
    plain.push_str(rest);
    plain
}
