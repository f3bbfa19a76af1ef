//! Restarts on request: a counter in the labels of a service, which is part of what its
//! containers are made from: who runs the old number is replaced, by an ordinary rollout.
//!
//! The counter belongs to the cluster, not to the files: an apply of files without it keeps it.
//! Otherwise unchanged files would differ from what runs.

use serde_json::{Value, json};

/// The label with the number of restarts of a service.
pub const LABEL: &str = "jaco.restart";

/// Counts a restart of one service of a model, or of all. False where there is no such service.
pub fn count(model: &mut Value, service: Option<&str>) -> bool {
    let services = model.get_mut("services").and_then(Value::as_object_mut);
    let mut found = false;
    for (name, service_model) in services.into_iter().flatten() {
        if service.is_none_or(|wanted| wanted == name) {
            let before = number(service_model).and_then(|number| number.parse::<u64>().ok());
            set(service_model, &before.unwrap_or_default().saturating_add(1).to_string());
            found = true;
        }
    }
    found
}

/// Copies the counters of `wanted` into services of `model` that have none. Returns whether there
/// were any.
pub fn keep(model: &mut Value, wanted: &Value) -> bool {
    let services = model.get_mut("services").and_then(Value::as_object_mut);
    let mut kept = false;
    for (name, service) in services.into_iter().flatten() {
        let known = wanted.get("services").and_then(|services| services.get(name));
        if let Some(number) = known.and_then(number).filter(|_| number(service).is_none()) {
            set(service, &number);
            kept = true;
        }
    }
    kept
}

/// Removes the counters from a model, for a comparison with files.
pub fn forget(model: &mut Value) {
    let services = model.get_mut("services").and_then(Value::as_object_mut);
    for (_, service) in services.into_iter().flatten() {
        let Some(labels) = service.get_mut("labels") else { continue };
        let mut is_empty = false;
        if let Some(labels) = labels.as_object_mut() {
            is_empty = labels.remove(LABEL).is_some() && labels.is_empty();
        } else if let Some(labels) = labels.as_array_mut() {
            let before = labels.len();
            labels.retain(|label| of_pair(label).is_none());
            is_empty = labels.is_empty() && before > 0;
        }
        if is_empty && let Some(service) = service.as_object_mut() {
            service.remove("labels");
        }
    }
}

/// Labels are written as a map or as a list of `NAME=VALUE`.
fn number(service: &Value) -> Option<String> {
    let labels = service.get("labels")?;
    if let Some(labels) = labels.as_array() {
        return labels.iter().find_map(of_pair).map(str::to_owned);
    }
    let number = labels.get(LABEL)?;
    Some(number.as_str().map_or_else(|| number.to_string(), str::to_owned))
}

fn of_pair(label: &Value) -> Option<&str> {
    label.as_str()?.strip_prefix(LABEL)?.strip_prefix('=')
}

fn set(service: &mut Value, number: &str) {
    let Some(service) = service.as_object_mut() else { return };
    let labels = service.entry("labels").or_insert_with(|| json!({}));
    // Nothing else is a valid model; whoever reads it says so.
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(LABEL.to_owned(), number.into());
    } else if let Some(labels) = labels.as_array_mut() {
        labels.retain(|label| of_pair(label).is_none());
        labels.push(format!("{LABEL}={number}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Value {
        json!({ "services": {
            "db": { "image": "d" },
            "list": { "image": "l", "labels": ["a=b"] },
            "web": { "image": "w", "labels": { "a": "b" } },
        }})
    }

    #[test]
    fn restarts_are_counted() {
        let mut model = shop();
        assert!(count(&mut model, Some("web")) && count(&mut model, Some("web")));
        assert_eq!(model["services"]["web"]["labels"], json!({ "a": "b", LABEL: "2" }));
        assert!(model["services"]["db"].get("labels").is_none());
        assert!(count(&mut model, None));
        assert_eq!(model["services"]["web"]["labels"][LABEL], "3");
        assert_eq!(model["services"]["db"]["labels"], json!({ LABEL: "1" }));
        assert_eq!(model["services"]["list"]["labels"], json!(["a=b", "jaco.restart=1"]));
        assert!(!count(&mut model, Some("wbe")) && !count(&mut json!({}), None));
    }

    /// A model without counters keeps those of the cluster, and `forget` restores it exactly.
    #[test]
    fn restarts_are_kept_and_forgotten() {
        let mut wanted = shop();
        count(&mut wanted, None);
        let mut model = shop();
        assert!(keep(&mut model, &wanted));
        assert_eq!(model, wanted);
        assert!(!keep(&mut model, &shop()), "nothing was counted there");
        assert_eq!(model, wanted);
        forget(&mut model);
        assert_eq!(model, shop());
        let mut own = json!({ "services": { "web": { "labels": { LABEL: "9" } }, "new": {} } });
        assert!(!keep(&mut own, &wanted), "it has its own number, or is not known");
        assert_eq!(own["services"]["web"]["labels"][LABEL], "9");
    }
}
