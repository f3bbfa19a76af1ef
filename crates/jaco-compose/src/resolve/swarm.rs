//! Maps Swarm's placement constraints and preferences, and the platform of an image, to JACO's
//! constraints and spread criteria.

use jaco_types::spec::{Constraint, Operator, SpreadCriterion};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::facts::Constraints;
use crate::yaml::node::Node;

/// Swarm's constraints become rules, its preferences spread criteria.
pub(crate) fn placement(
    deploy: Option<&Node>,
    constraints: &mut Constraints,
    spread: &mut Vec<SpreadCriterion>,
    report: &mut Report,
) {
    let placement = deploy.and_then(|deploy| deploy.get("placement"));
    let list = |key: &str| placement.and_then(|node| node.get(key)).and_then(Node::as_seq);
    for node in list("constraints").unwrap_or_default() {
        constraints.rules.extend(constraint(node, report));
    }
    for node in list("preferences").unwrap_or_default() {
        let Some(written) = node.get_str("spread") else { continue };
        if let Some(Attribute::Known(attribute)) = attribute(written.trim()) {
            spread.push(SpreadCriterion { attribute, weight: 50, targets: Vec::new() });
        } else {
            report
                .error(
                    node.pos,
                    Code::InvalidValue,
                    format!("replicas cannot be spread over `{written}`"),
                )
                .expected(ATTRIBUTES);
        }
    }
}

/// Nodes that run containers of `platform`, such as `linux/arm64/v8`. The variant is the engine's to
/// find: a node reports its architecture only.
pub(crate) fn platform(platform: &str) -> impl Iterator<Item = Constraint> + use<> {
    let mut parts = platform.split('/');
    // Docker reads a single word as an architecture or as a system.
    let (os, arch) = match (parts.next(), parts.next()) {
        (Some(os), Some(arch)) => (Some(os.to_owned()), Some(architecture(arch))),
        (Some(os @ ("linux" | "windows")), None) => (Some(os.to_owned()), None),
        (arch, _) => (None, arch.map(architecture)),
    };
    let rule = |attribute: &str, value: String| Constraint {
        attribute: attribute.to_owned(),
        operator: Operator::Equal,
        value,
    };
    let os = os.map(|os| rule("node.os", os.to_ascii_lowercase()));
    os.into_iter().chain(arch.map(|arch| rule("node.arch", arch)))
}

const ATTRIBUTES: &str = "`node.labels.KEY`, `node.hostname`, `node.platform.os` or \
                          `node.platform.arch`";

fn constraint(node: &Node, report: &mut Report) -> Option<Constraint> {
    let text = node.as_str().unwrap_or_default();
    let parts = text
        .split_once("!=")
        .map(|(key, value)| (key, Operator::NotEqual, value))
        .or_else(|| text.split_once("==").map(|(key, value)| (key, Operator::Equal, value)));
    // A variable that is not set leaves no value, which no node has.
    let parts = parts.filter(|(_, _, value)| !value.trim().is_empty());
    let Some((key, operator, value)) = parts else {
        report
            .error(node.pos, Code::InvalidValue, format!("`{text}` is not a constraint"))
            .expected("`node.labels.KEY == VALUE`, or `!=`");
        return None;
    };
    match attribute(key.trim()) {
        Some(Attribute::Known(attribute)) => {
            let value = match attribute.as_str() {
                "node.arch" => architecture(value.trim()),
                _ => value.trim().to_owned(),
            };
            Some(Constraint { attribute, operator, value })
        }
        Some(Attribute::Role) => {
            let message =
                format!("`{text}` has no effect: every node is both a manager and a worker");
            report
                .warning(node.pos, Code::NoEffect, message)
                .suggest("label nodes and write `node.labels.KEY == VALUE`");
            None
        }
        None => {
            let message = format!("`{}` is not a node attribute", key.trim());
            report.error(node.pos, Code::InvalidValue, message).expected(ATTRIBUTES);
            None
        }
    }
}

/// What the name of a Swarm attribute means in JACO.
enum Attribute {
    /// This attribute of JACO's.
    Known(String),
    /// The difference between managers and workers, which JACO does not make.
    Role,
}

/// Names of attributes are case-insensitive, as in Swarm; keys of labels are not.
fn attribute(text: &str) -> Option<Attribute> {
    let lower = text.to_ascii_lowercase();
    for prefix in ["node.labels.", "engine.labels."] {
        if lower.starts_with(prefix) && lower.len() > prefix.len() {
            return Some(Attribute::Known(format!("meta.{}", &text[prefix.len()..])));
        }
    }
    let known = match lower.as_str() {
        "node.hostname" => "node.hostname",
        "node.platform.os" => "node.os",
        "node.platform.arch" => "node.arch",
        "node.role" => return Some(Attribute::Role),
        _ => return None,
    };
    Some(Attribute::Known(known.to_owned()))
}

/// Docker's name of an architecture that has several names.
fn architecture(name: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "x86_64" | "x86-64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        "i386" | "i686" | "x86" => "386".to_owned(),
        "armhf" | "armel" => "arm".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(String, String)> {
        platform(text).map(|rule| (rule.attribute, rule.value)).collect()
    }

    fn pair(attribute: &str, value: &str) -> (String, String) {
        (attribute.to_owned(), value.to_owned())
    }

    #[test]
    fn platforms_are_rules_about_nodes() {
        let (linux, arm) = (pair("node.os", "linux"), pair("node.arch", "arm64"));
        assert_eq!(rules("linux/arm64/v8"), [linux.clone(), arm.clone()]);
        assert_eq!(rules("linux/x86_64"), [linux.clone(), pair("node.arch", "amd64")]);
        assert_eq!(rules("linux"), [linux]);
        assert_eq!(rules("aarch64"), [arm]);
    }
}
