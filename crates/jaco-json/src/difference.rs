//! The difference of two models of a deployment, key by key.

use std::collections::BTreeMap;

use jaco_proto::v1::GetDeploymentResponse;
use serde_json::Value;

/// A compose model and the texts beside it as one value.
#[must_use]
pub fn with_texts(mut model: Value, overlay: &str, environment: &str) -> Value {
    for (name, text) in [("jaco.yaml", overlay), ("jaco.services.toml", environment)] {
        if !text.is_empty() {
            model[name] = text.lines().collect::<Vec<_>>().join("\n").into();
        }
    }
    model
}

/// The compose model and jaco.yaml of a stored revision as one value. Secrets are not in it: a model has their names only.
///
/// # Errors
/// When the stored model is no JSON.
pub fn model(stored: &GetDeploymentResponse) -> Result<Value, serde_json::Error> {
    let model: Value = serde_json::from_str(&stored.compose_json)?;
    Ok(with_texts(model, &stored.overlay_yaml, ""))
}

/// One key with different values; `None` where it is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path of the key, with dots.
    pub key: String,
    /// The value before.
    pub from: Option<Value>,
    /// The value after.
    pub to: Option<Value>,
}

/// All keys with different values, sorted.
#[must_use]
pub fn changes(from: &Value, to: &Value) -> Vec<Change> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_models_have_no_differences() {
        assert_eq!(changes(&json!({"a": {"b": 1}}), &json!({"a": {"b": 1}})), vec![]);
    }
}
