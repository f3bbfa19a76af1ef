//! The difference between two specs, by the keys of the manifest. Values are shown only where they cannot be
//! secret.

use std::collections::BTreeSet;

use jaco_compose::restart;
use jaco_types::ServiceSpec;
use serde_json::Value;

/// Depth of the shown keys: `environment.PORT`, nothing below it.
const DEPTH_MAX: usize = 2;

/// Further names are only counted.
const NAMES_MAX: usize = 12;

/// All differences of two specs.
pub(super) fn of_services(old: &ServiceSpec, new: &ServiceSpec) -> Vec<String> {
    let mut names = of_containers(old, new);
    if old.replicas != new.replicas {
        names.push(format!("replicas {} → {}", old.replicas, new.replicas));
    }
    if old.placement != new.placement {
        names.push(match (old.placement.as_str(), new.placement.as_str()) {
            (old, new) if old == new => "hosts".to_owned(),
            (old, new) => format!("placement {old} → {new}"),
        });
    }
    let rest = [
        ("reservation", old.reservation != new.reservation),
        ("limits", old.limit != new.limit),
        ("depends_on", old.depends_on != new.depends_on),
        ("update", old.update != new.update),
        ("pull_policy", old.pull != new.pull),
        ("ports", old.ingress_ports != new.ingress_ports),
        ("drain", old.drain != new.drain),
        ("constraints and preferences", old.scheduling != new.scheduling),
    ];
    let rest = rest.iter().filter(|(_, differs)| *differs).map(|(name, _)| (*name).to_owned());
    names.extend(rest);
    bounded(names)
}

/// The differences that replace the container.
pub(super) fn of_containers(old: &ServiceSpec, new: &ServiceSpec) -> Vec<String> {
    if old.hash == new.hash {
        return Vec::new();
    }
    let read = |spec: &ServiceSpec| serde_json::from_str::<Value>(&spec.container);
    let (mut paths, mut names) = (BTreeSet::new(), Vec::new());
    if let (Ok(mut old), Ok(mut new)) = (read(old), read(new)) {
        if take_restarts(&mut old) != take_restarts(&mut new) {
            names.push("restart".to_owned());
        }
        collect(&mut Vec::new(), &old, &new, &mut paths);
    }
    if old.image != new.image {
        names.push(format!("image {} → {}", old.image, new.image));
    }
    names.extend(paths.into_iter().filter(|path| path != "image"));
    bounded(names)
}

/// Takes the counter of restarts out of a container: it is a label that no user wrote.
fn take_restarts(container: &mut Value) -> Option<Value> {
    let service = container.get_mut("service").and_then(Value::as_object_mut)?;
    let labels = service.get_mut("labels").and_then(Value::as_object_mut)?;
    let restarts = labels.remove(restart::LABEL);
    if labels.is_empty() {
        service.remove("labels");
    }
    restarts
}

/// Collects the paths that differ. Keys of the service have no prefix.
fn collect<'v>(
    path: &mut Vec<&'v str>,
    old: &'v Value,
    new: &'v Value,
    found: &mut BTreeSet<String>,
) {
    let own = path.first() == Some(&"service");
    let shown = if own { &path[1..] } else { &path[..] };
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) if shown.len() < DEPTH_MAX => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                path.push(key);
                let absent = &Value::Null;
                let value = |map: &'v serde_json::Map<String, Value>| map.get(key);
                collect(path, value(old).unwrap_or(absent), value(new).unwrap_or(absent), found);
                path.pop();
            }
        }
        (_, _) => {
            found.insert(shown.join("."));
        }
    }
}

fn bounded(mut names: Vec<String>) -> Vec<String> {
    if names.len() > NAMES_MAX {
        let more = names.len() - NAMES_MAX;
        names.truncate(NAMES_MAX);
        names.push(format!("and {more} more"));
    }
    names
}

#[cfg(test)]
mod tests {
    use jaco_types::SpecHash;

    use super::*;
    use crate::view::path::tests::history::service;

    fn paths(old: &str, new: &str) -> Vec<String> {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (old, new) = (read(old), read(new));
        let mut found = BTreeSet::new();
        collect(&mut Vec::new(), &old, &new, &mut found);
        found.into_iter().collect()
    }

    /// R-CLI-2: the fields that cause a replacement are named, without values that could be secret.
    #[test]
    fn changed_keys_are_named_without_values() {
        let old = r#"{"networks":{"a":{}},"service":{"environment":{"A":"1","B":"hunter2"},"image":"w:1","ports":[1]}}"#;
        let new = r#"{"networks":{"a":{"x":1}},"service":{"environment":{"A":"1","B":"hunter3"},"image":"w:2","user":"u"}}"#;
        assert_eq!(paths(old, new), ["environment.B", "image", "networks.a", "ports", "user"]);
        assert_eq!(paths(old, old), Vec::<String>::new());
    }

    /// R-CLI-2: a restart is called that, and not by the label that counts it.
    #[test]
    fn a_restart_is_named() {
        let of = |hash: u8, container: &str| ServiceSpec {
            hash: SpecHash([hash; 32]),
            container: container.into(),
            ..service("web", "web:1")
        };
        let first = of(1, r#"{"service":{"image":"web:1"}}"#);
        let second = of(2, r#"{"service":{"image":"web:1","labels":{"jaco.restart":"1"}}}"#);
        let third = of(3, r#"{"service":{"image":"web:1","labels":{"a":"b","jaco.restart":"2"}}}"#);
        assert_eq!(of_containers(&first, &second), ["restart"]);
        assert_eq!(of_containers(&second, &third), ["restart", "labels"]);
        assert_eq!(of_containers(&second, &second), [""; 0]);
    }

    #[test]
    fn long_lists_are_counted() {
        let names = bounded((0..20).map(|n| n.to_string()).collect());
        assert_eq!((names.len(), names[12].as_str()), (13, "and 8 more"));
    }
}
