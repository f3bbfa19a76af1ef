//! The compose file as text. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jaco_compose::canonical::escape_dollars;
use serde_json::{Value, json};

use super::found::{Imported, Origin};
use super::section::Section;
use crate::format::yaml::to_yaml;

/// The text of the compose file. It ends with a line break.
pub(crate) fn document(imported: &Imported) -> String {
    let from = match imported.origin {
        Origin::Project => format!("project {} of Docker Compose", imported.name),
        Origin::Stack => format!("stack {} of Docker Swarm", imported.name),
    };
    let mut text = format!("# Written by jaco compose-import from what runs as {from}.\n");
    if !imported.findings.secret_values.is_empty() {
        text.push_str("# It holds values that look like secrets: keep it to yourself, and out of repositories.\n");
    }
    text.push_str(&to_yaml(&json!({ "name": imported.name })));
    let parts = [
        ("services", &imported.services),
        ("networks", &imported.networks),
        ("volumes", &imported.volumes),
        ("configs", &imported.configs),
        ("secrets", &imported.secrets),
    ];
    for (name, sections) in parts {
        part(name, sections, &mut text);
    }
    text
}

fn part(name: &str, sections: &BTreeMap<String, Section>, text: &mut String) {
    if sections.is_empty() {
        return;
    }
    writeln!(text, "\n{name}:").expect("writing to a string cannot fail");
    for (key, section) in sections {
        let mut keys = section.iter().peekable();
        if keys.peek().is_none() {
            // A key without a value: everything is the default.
            indented(&to_yaml(&json!({ key: {} })), 2, text);
            continue;
        }
        // The mapping's own line, without its value.
        indented(&to_yaml(&json!({ key: {} })).replace(" {}", ""), 2, text);
        for (key, value) in keys {
            indented(&to_yaml(&json!({ key: escape_dollars(Value::clone(value)) })), 4, text);
        }
    }
}

fn indented(lines: &str, spaces: usize, text: &mut String) {
    for line in lines.lines() {
        writeln!(text, "{:spaces$}{line}", "").expect("writing to a string cannot fail");
    }
}
