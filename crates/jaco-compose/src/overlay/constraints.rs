//! Constraints: pairs such as `cpu=2 ram=3G`, rules, and roles, which are constraints with a name.

use jaco_types::demand;
use jaco_types::demand::{Demand, InvalidDemand, canonical_key};

use crate::diagnostics::code::Code;
use crate::diagnostics::nearest::nearest;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::facts::Constraints;
use crate::overlay::roles::Roles;
use crate::overlay::rules::rule;
use crate::overlay::value::plain;
use crate::yaml::node::{Node, Value};

/// The key of the pair that names roles.
const ROLES: &str = "roles";

/// The roles of a jaco.yaml. A role names no other, so that none can lead to itself.
pub(crate) fn roles(node: Option<&Node>, report: &mut Report) -> Roles {
    if let Some(node) = node.filter(|node| node.as_map().is_none()) {
        report
            .error(node.pos, Code::WrongType, format!("`roles` is {}", node.kind()))
            .expected("a mapping of names to constraints");
    }
    let entries = node.and_then(Node::as_map).into_iter().flat_map(|map| map.iter());
    let mut roles = Roles::new();
    for entry in entries {
        if entry.key.is_empty() || entry.key.contains([',', ' ', '=']) {
            let message = format!("`{}` is not the name of a role", entry.key);
            report
                .error(entry.key_pos, Code::InvalidName, message)
                .expected("a name without commas, spaces and `=`");
        }
        let constraints = constraints(Some(&entry.node), None, report);
        roles.insert(entry.key.to_string(), constraints);
    }
    roles
}

/// `"cpu=2 ram=3G"`, a mapping, or a list of rules and such texts; `roles` may be named in them.
pub(crate) fn constraints(
    node: Option<&Node>,
    roles: Option<&Roles>,
    report: &mut Report,
) -> Constraints {
    let mut reader = Reader { own: Constraints::default(), named: Vec::new(), roles, report };
    if let Some(node) = node {
        reader.read(node);
    }
    reader.finish()
}

struct Reader<'r> {
    own: Constraints,
    /// The roles that are named, in order.
    named: Vec<&'r Constraints>,
    /// `None` where none may be named.
    roles: Option<&'r Roles>,
    report: &'r mut Report,
}

impl Reader<'_> {
    fn read(&mut self, node: &Node) {
        match &node.value {
            Value::Null => {}
            Value::Str(text) => self.text(text, node.pos),
            Value::Map(map) => {
                for entry in map.iter() {
                    match plain(&entry.node) {
                        Some(value) => self.pair(&entry.key, value, entry.node.pos),
                        None => {
                            let kind = entry.node.kind();
                            let message = format!("the constraint `{}` is {kind}", entry.key);
                            self.report.error(entry.node.pos, Code::WrongType, message);
                        }
                    }
                }
            }
            Value::Seq(items) => {
                for item in items {
                    match item.as_str() {
                        Some(text) => self.text(text, item.pos),
                        None => self.own.rules.extend(rule(item, &[], self.report)),
                    }
                }
            }
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                let message = format!("`constraints` is {}", node.kind());
                self.report
                    .error(node.pos, Code::WrongType, message)
                    .expected("a string such as \"cpu=2 ram=3G\", a mapping, or a list of rules");
            }
        }
    }

    fn text(&mut self, text: &str, pos: Pos) {
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) if !key.is_empty() => self.pair(key, value.to_owned(), pos),
                Some(_) | None => {
                    let message = format!("`{word}` is not a constraint");
                    self.report
                        .error(pos, Code::InvalidValue, message)
                        .expected("`KEY=VALUE` pairs, separated by spaces");
                }
            }
        }
    }

    fn pair(&mut self, key: &str, value: String, pos: Pos) {
        if key == ROLES {
            return self.name_roles(&value, pos);
        }
        match Demand::parse(key, &value) {
            Ok(_) => {}
            Err(InvalidDemand::InvalidValue { wanted }) => {
                let message = format!("the constraint `{key}` cannot be `{value}`");
                self.report.error(pos, Code::InvalidValue, message).expected(wanted);
            }
            // A key that resembles none belongs to a provider of machines, and is warned about when
            // the manifest is admitted (R-CONS-5).
            Err(InvalidDemand::UnknownKey) => {
                let known = || demand::keys().chain([ROLES]);
                if nearest(key, known()).is_some() {
                    let message = format!("there is no constraint `{key}`");
                    self.report.error(pos, Code::UnknownKey, message).nearest(key, known());
                }
            }
        }
        let pairs = &mut self.own.pairs;
        if pairs.insert(canonical_key(key).to_owned(), value).is_some() {
            let message = format!("the constraint `{}` is declared twice", canonical_key(key));
            self.report.error(pos, Code::DuplicateValue, message);
        }
    }

    fn name_roles(&mut self, value: &str, pos: Pos) {
        let Some(roles) = self.roles else {
            self.report.error(pos, Code::InvalidValue, "a role cannot name other roles");
            return;
        };
        for name in value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match roles.get(name) {
                Some(role) => self.named.push(role),
                None => {
                    self.report
                        .error(pos, Code::UnknownKey, format!("there is no role `{name}`"))
                        .nearest(name, roles.keys().map(String::as_str))
                        .expected("a name that is defined below `roles:` in jaco.yaml");
                }
            }
        }
    }

    /// What is written beside a role wins over it, and a role over those named after it; rules all
    /// hold.
    fn finish(self) -> Constraints {
        let mut all = self.own;
        for role in self.named {
            for (key, value) in &role.pairs {
                all.pairs.entry(key.clone()).or_insert_with(|| value.clone());
            }
            all.rules.extend(role.rules.iter().cloned());
        }
        all
    }
}
