//! The number of replicas of a service in a stored model, which `jaco scale` and the page of a node change.

use serde_json::{Value, json};

use crate::diagnostics::problem::Problems;
use crate::overlay::JacoYaml;

/// Sets the number of replicas of a service of a model. False where there is no such service.
pub fn set(model: &mut Value, service: &str, replicas: u32) -> bool {
    let services = model.get_mut("services").and_then(Value::as_object_mut);
    let found = services.and_then(|services| services.get_mut(service)?.as_object_mut());
    let Some(found) = found else { return false };
    let deploy = found.entry("deploy").or_insert_with(|| json!({}));
    deploy["replicas"] = replicas.into();
    // The older key for the same number would contradict.
    found.remove("scale");
    true
}

/// The number that a stored jaco.yaml sets for a service: it overrides the model, and is kept as the user wrote it, so
/// the number is changed there alone.
///
/// # Errors
/// If it cannot be read.
pub fn set_by_overlay(overlay_yaml: &str, service: &str) -> Result<Option<u32>, Problems> {
    if overlay_yaml.is_empty() {
        return Ok(None);
    }
    let overlay = JacoYaml::parse("jaco.yaml", overlay_yaml.as_bytes())?;
    Ok(overlay.service(service).and_then(|service| service.replicas))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_of_replicas_changes() {
        let mut model = json!({ "services": {
            "web": { "image": "w", "scale": 2 },
            "db": { "image": "d" },
        }});
        assert!(set(&mut model, "web", 5));
        let expected = json!({ "services": {
            "web": { "image": "w", "deploy": { "replicas": 5 } },
            "db": { "image": "d" },
        }});
        assert_eq!(model, expected);
        assert!(!set(&mut model, "wbe", 5));
        assert_eq!(model, expected);
    }

    #[test]
    fn number_set_in_jaco_yaml_is_found() {
        let with = "deployment: shop\nservices:\n  - name: web\n    replicas: 3\n";
        let without = "deployment: shop\nservices:\n  - name: web\n    placement: spread\n";
        let found = |overlay, service| set_by_overlay(overlay, service).unwrap();
        assert_eq!(found(with, "web"), Some(3));
        assert_eq!(
            (found(with, "db"), found(without, "web"), found("", "web")),
            (None, None, None)
        );
        assert!(set_by_overlay("services: 3", "web").is_err());
    }
}
