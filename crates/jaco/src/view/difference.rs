//! The difference of two models of a deployment. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::output::{Frame, Show};

/// A compose model and the texts beside it as one value.
#[must_use]
pub(crate) fn with_texts(mut model: Value, overlay: &str, environment: &str) -> Value {
    for (name, text) in [("jaco.yaml", overlay), ("jaco.services.toml", environment)] {
        if !text.is_empty() {
            model[name] = text.lines().collect::<Vec<_>>().join("\n").into();
        }
    }
    model
}

/// One key with different values; `None` where it is absent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    key: String,
    from: Option<Value>,
    to: Option<Value>,
}

/// All keys with different values, sorted.
#[must_use]
pub(crate) fn changes(from: &Value, to: &Value) -> Vec<Change> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    flatten(String::new(), from, &mut before);
    flatten(String::new(), to, &mut after);
    let mut keys: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    keys.sort_unstable();
    keys.dedup();
    let change = |key: String| {
        let (from, to) = (before.remove(&key), after.remove(&key));
        (from != to).then_some(Change { key, from, to })
    };
    keys.into_iter().filter_map(change).collect()
}

/// The leaves of a value by their paths. A list is one leaf, because its changes are easier to see as a
/// whole.
fn flatten(path: String, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    let Some(members) = value.as_object().filter(|members| !members.is_empty()) else {
        leaves.insert(path, value.clone());
        return;
    };
    for (key, member) in members {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        flatten(path, member, leaves);
    }
}

/// Two models of a deployment, compared.
pub(crate) struct Difference {
    pub(crate) deployment: String,
    /// What the two are, for people: `revision 3`.
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) changes: Vec<Change>,
}

impl Show for Difference {
    fn json(&self) -> Value {
        let change =
            |change: &Change| json!({ "key": change.key, "from": change.from, "to": change.to });
        json!({
            "deployment": self.deployment,
            "from": self.from,
            "to": self.to,
            "changes": self.changes.iter().map(change).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let Self { deployment, from, to, changes } = self;
        if changes.is_empty() {
            return format!("{deployment}: {from} and {to} are equal\n");
        }
        let mut text = format!("{deployment}: {from} → {to}\n");
        for Change { key, from, to } in changes {
            for (sign, side) in [('-', from), ('+', to)] {
                if let Some(value) = side {
                    text.push_str(&format!("{sign} {key}: {value}\n"));
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn only_differences_are_shown() {
        let from = json!({ "services": {
            "web": { "image": "web:1", "command": ["a"], "environment": { "A": "1", "B": "2" } },
            "old": { "image": "old:1" },
        }});
        let to = json!({ "services": {
            "web": { "image": "web:2", "command": ["a", "b"], "environment": { "A": "1" } },
        }, "jaco.yaml": "deployment: shop" });
        let changes = changes(&from, &to);
        let difference =
            Difference { deployment: "shop".into(), from: "1".into(), to: "2".into(), changes };
        expect![[r#"
            shop: 1 → 2
            + jaco.yaml: "deployment: shop"
            - services.old.image: "old:1"
            - services.web.command: ["a"]
            + services.web.command: ["a","b"]
            - services.web.environment.B: "2"
            - services.web.image: "web:1"
            + services.web.image: "web:2"
        "#]]
        .assert_eq(&difference.text(&Frame { now_ms: 0, detail: crate::output::Detail::Short }));
    }

    #[test]
    fn equal_models_have_no_differences() {
        assert_eq!(changes(&json!({"a": {"b": 1}}), &json!({"a": {"b": 1}})), vec![]);
    }
}
