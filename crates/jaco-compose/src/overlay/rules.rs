//! Rules, affinities, spread criteria and selectors: every notation, one meaning.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::spec::{Affinity, Constraint, Operator, SpreadCriterion, SpreadTarget};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::types::Selectors;
use crate::overlay::value::plain;
use crate::yaml::node::{Map, Node, Value};

/// Nomad's default weight of a spread criterion and of an affinity.
const DEFAULT_WEIGHT: i64 = 50;

pub(crate) fn rule(node: &Node, more: &[&str], report: &mut Report) -> Option<Constraint> {
    let map = known_keys(node, &[&["attribute", "operator", "value"], more].concat(), report)?;
    let attribute = node.get_str("attribute").map(bare_attribute).filter(|text| !text.is_empty());
    if attribute.is_none() {
        report.error(node.pos, Code::MissingKey, "the rule has no `attribute`");
    }
    let operator = match map.get("operator") {
        Some(written) => operator(written, report)?,
        None => Operator::Equal,
    };
    let value = map.get("value").and_then(plain).unwrap_or_default();
    Some(Constraint { attribute: attribute?.to_owned(), operator, value })
}

fn operator(node: &Node, report: &mut Report) -> Option<Operator> {
    let text = plain(node).unwrap_or_default();
    let operator = Operator::parse(&text);
    if operator.is_none() {
        let known = || Operator::ALL.iter().map(|operator| operator.as_str());
        report
            .error(node.pos, Code::InvalidValue, format!("`{text}` is not an operator"))
            .nearest(&text, known())
            .expected(known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "));
    }
    operator
}

/// `${node.zone}` and `node.zone` are the same attribute.
fn bare_attribute(text: &str) -> &str {
    text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).unwrap_or(text)
}

fn known_keys<'n>(node: &'n Node, known: &[&str], report: &mut Report) -> Option<&'n Map> {
    let Some(map) = node.as_map() else {
        let list = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        report
            .error(node.pos, Code::WrongType, format!("expected a mapping, found {}", node.kind()))
            .expected(format!("a mapping with {list}"));
        return None;
    };
    for entry in map.iter() {
        if !known.contains(&entry.key.as_str()) {
            report
                .error(entry.key_pos, Code::UnknownKey, format!("unknown key `{}`", entry.key))
                .nearest(&entry.key, known.iter().copied());
        }
    }
    Some(map)
}

pub(crate) fn affinities(node: Option<&Node>, report: &mut Report) -> Vec<Affinity> {
    let items = list_of(node, "affinities", report);
    let mut all = Vec::new();
    for item in items {
        let weight = weight(item, -100, report);
        if let Some(constraint) = rule(item, &["weight"], report) {
            all.push(Affinity { constraint, weight });
        }
    }
    all
}

fn weight(node: &Node, least: i64, report: &mut Report) -> i8 {
    let Some(weight) = node.get("weight") else {
        return i8::try_from(DEFAULT_WEIGHT).unwrap_or(i8::MAX);
    };
    match weight.as_int().filter(|number| (least..=100).contains(number)) {
        Some(number) => i8::try_from(number).unwrap_or(i8::MAX),
        None => {
            report
                .error(weight.pos, Code::InvalidValue, "the weight is out of range")
                .expected(format!("a whole number from {least} to 100"));
            0
        }
    }
}

/// A list, or the one item it would hold.
fn list_of<'n>(node: Option<&'n Node>, key: &str, report: &mut Report) -> Vec<&'n Node> {
    let Some(node) = node else {
        return Vec::new();
    };
    match &node.value {
        Value::Seq(items) => items.iter().collect(),
        Value::Map(_) => vec![node],
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {
            report
                .error(node.pos, Code::WrongType, format!("`{key}` is {}", node.kind()))
                .expected("a list of mappings");
            Vec::new()
        }
    }
}

pub(crate) fn spread(node: Option<&Node>, report: &mut Report) -> Vec<SpreadCriterion> {
    let mut all = Vec::new();
    for item in list_of(node, "spread", report) {
        let Some(map) = known_keys(item, &["attribute", "weight", "targets"], report) else {
            continue;
        };
        let Some(attribute) = item.get_str("attribute").map(bare_attribute) else {
            report.error(item.pos, Code::MissingKey, "the spread criterion has no `attribute`");
            continue;
        };
        let weight = u8::try_from(weight(item, 0, report)).unwrap_or(0);
        let targets = targets(map.get("targets"), report);
        all.push(SpreadCriterion { attribute: attribute.to_owned(), weight, targets });
    }
    all
}

fn targets(node: Option<&Node>, report: &mut Report) -> Vec<SpreadTarget> {
    let mut all = BTreeMap::new();
    let Some(node) = node else {
        return Vec::new();
    };
    let mut add = |value: String, percent: Option<&Node>, pos, report: &mut Report| {
        let number = percent.and_then(Node::as_int).filter(|number| (0..=100).contains(number));
        let Some(number) = number.and_then(|number| u8::try_from(number).ok()) else {
            report
                .error(
                    pos,
                    Code::InvalidValue,
                    format!("the share of `{value}` is not a valid percentage"),
                )
                .expected("`percent:` from 0 to 100");
            return;
        };
        if all.insert(value.clone(), number).is_some() {
            report.error(pos, Code::DuplicateValue, format!("`{value}` is declared twice"));
        }
    };
    if let Some(map) = node.as_map() {
        for entry in map.iter() {
            add(entry.key.to_string(), Some(&entry.node), entry.node.pos, report);
        }
    }
    for item in node.as_seq().unwrap_or_default() {
        if known_keys(item, &["value", "percent"], report).is_some() {
            let value = item.get("value").and_then(plain).unwrap_or_default();
            add(value, item.get("percent"), item.pos, report);
        }
    }
    let total: u32 = all.values().map(|percent| u32::from(*percent)).sum();
    if total > 100 {
        report
            .error(node.pos, Code::InvalidValue, format!("the shares add up to {total} percent"))
            .expected("at most 100");
    }
    all.into_iter().map(|(value, percent)| SpreadTarget { value, percent }).collect()
}

pub(crate) fn selectors(node: Option<&Node>, report: &mut Report) -> Selectors {
    let Some(node) = node else {
        return Selectors::Any;
    };
    if node.as_str() == Some("auto") {
        return Selectors::Auto;
    }
    let Some(items) = node.as_seq() else {
        report
            .error(node.pos, Code::WrongType, format!("`selectors` is {}", node.kind()))
            .expected("a list of labels, or `auto`");
        return Selectors::Any;
    };
    let mut labels = BTreeSet::new();
    for item in items {
        match item.as_str() {
            Some(text) if !text.is_empty() => {
                labels.insert(text.to_owned());
            }
            Some(_) | None => {
                report.error(item.pos, Code::WrongType, "a selector is not a label");
            }
        }
    }
    if labels.is_empty() { Selectors::Any } else { Selectors::All(labels) }
}
